"""Two 16-bit values in one 32-bit register, as wgmma, stmatrix and ldmatrix have them."""

from __future__ import annotations

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm, vector
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, wrap


def pair_vector(low: Value, high: Value, dtype: DType) -> Value:
    """Two values as a ``vector<2 x dtype>``, ``low`` first; f32 to f16 and bf16 in one instruction."""
    pair = ir.VectorType.get([2], dtype.ir)
    if str(low.type) == "f32" and dtype.name in ("f16", "bf16"):
        convert = nvvm.convert_f32x2_to_f16x2 if dtype.name == "f16" else nvvm.convert_f32x2_to_bf16x2
        return convert(pair, high, low, rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rn>"))
    return vector.from_elements(pair, [dtype(low), dtype(high)])


def pack_pair(low: Value, high: Value, dtype: DType) -> Value:
    """Two 16-bit values in one i32, ``low`` in the low half."""
    return llvm.bitcast(ir.IntegerType.get_signless(32), pair_vector(low, high, dtype))


def unpacked(word: Value, dtype: DType) -> list[Value]:
    """The elements of ``dtype`` that a 32-bit register holds, the lowest bits first."""
    count = 32 // dtype.bits
    if count == 1:
        return [word if word.type == dtype.ir else wrap(llvm.bitcast(dtype.ir, word), dtype)]
    both = llvm.bitcast(ir.VectorType.get([count], dtype.ir), word)
    return [wrap(vector.extract(both, [], [i]), dtype) for i in range(count)]
