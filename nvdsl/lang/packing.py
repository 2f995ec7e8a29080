"""Elements and the 32-bit registers that hold them, as tensor cores, stmatrix and ldmatrix have them: two of 16 bits,
four of 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm, vector
from nvdsl.values import arith, dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, bitcast, stored, wrap


def pair_vector(low: Value, high: Value, dtype: DType) -> Value:
    """Two values as a ``vector<2 x dtype>``, ``low`` first; f32 to f16 and bf16 in one instruction."""
    pair = ir.VectorType.get([2], dtype.ir)
    if str(low.type) == "f32" and dtype.name in ("f16", "bf16"):
        convert = nvvm.convert_f32x2_to_f16x2 if dtype.name == "f16" else nvvm.convert_f32x2_to_bf16x2
        return convert(pair, high, low, rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rn>"))
    return vector.from_elements(pair, [stored(low, dtype), stored(high, dtype)])


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


def _i32s(count: int) -> Any:
    return ir.VectorType.get([count], dtypes.i32.ir) if count > 1 else dtypes.i32.ir


def as_words(loaded: Sequence[Value], dtype: DType) -> list[Value]:
    """The registers of what was loaded: vectors, or single elements. Of 64 bits the elements themselves."""
    if dtype.bits == 64:
        return elements_of(loaded)
    if loaded[0].shape and loaded[0].shape[0] * dtype.bits >= 32:
        return [word for one in loaded for word in _words_of_vector(one, dtype)]
    return words_of(elements_of(loaded), dtype)


def elements_of(loaded: Sequence[Value]) -> list[Value]:
    """The elements of vectors, and single elements."""
    return [x for one in loaded for x in _each(one)]


def _each(x: Value) -> list[Value]:
    return list(x) if x.shape else [x]


def _words_of_vector(x: Value, dtype: DType) -> list[Value]:
    count = x.shape[0] * dtype.bits // 32
    if dtype.is_float and dtype.bits == 8:  # LLVM has no vectors of them
        x = bitcast(x, dtypes.i8)
    words = wrap(llvm.bitcast(_i32s(count), x), dtypes.i32)
    return _each(words)


def words_of(elements: Sequence[Value], dtype: DType) -> list[Value]:
    """The registers of single elements of ``dtype``."""
    if dtype.bits == 64:
        return list(elements)
    per = 32 // dtype.bits
    if per == 1:
        return [x if x.dtype is dtypes.i32 else wrap(llvm.bitcast(dtypes.i32.ir, x), dtypes.i32) for x in elements]
    if dtype.is_float and dtype.bits == 8:
        elements = [bitcast(x, dtypes.i8) for x in elements]
    groups = [elements[i : i + per] for i in range(0, len(elements), per)]
    return [wrap(llvm.bitcast(dtypes.i32.ir, arith.pack(list(group))), dtypes.i32) for group in groups]


def as_elements(words: Sequence[Value], dtype: DType) -> list[Value]:
    """The elements that registers hold, the lowest bits first; of 64 bits the registers themselves."""
    if dtype.bits == 64:
        return list(words)
    if dtype.is_float and dtype.bits == 8:
        return [bitcast(x, dtype) for word in words for x in unpacked(word, dtypes.i8)]
    return [x for word in words for x in unpacked(word, dtype)]


def as_vector(words: Sequence[Value], dtype: DType) -> Value:
    """Words of 32 bits as a vector of the elements that lie there."""
    packed = arith.pack(list(words))
    if dtype is dtypes.i32:
        return wrap(packed, dtype)
    small = dtype.is_float and dtype.bits == 8  # LLVM has no vectors of them
    kind = dtypes.i8 if small else dtype
    found = wrap(llvm.bitcast(ir.VectorType.get([len(words) * 32 // dtype.bits], kind.ir), packed), kind)
    return bitcast(found, dtype) if small else found


def converted(elements: Sequence[Value], dtype: DType, *, together: bool = False) -> list[Value]:
    """The elements as ``dtype``; two f32 become two 16-bit floats in one instruction. ``together``: as one vector."""
    pairs = len(elements) % 2 == 0 and dtype.name in ("f16", "bf16") and elements[0].dtype is dtypes.f32
    if pairs:
        both = [wrap(pair_vector(a, b, dtype), dtype) for a, b in zip(elements[::2], elements[1::2], strict=True)]
        if together and len(both) == 1:
            return both
        elements = [x for pair in both for x in (pair[0], pair[1])]
    else:
        elements = [stored(x, dtype) for x in elements]
    return [wrap(arith.pack(list(elements)), dtype)] if together and len(elements) > 1 else list(elements)
