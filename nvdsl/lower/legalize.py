"""Ops that MLIR's passes leave as they are, although Hopper has an instruction for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.ir.operands import integers
from nvdsl.ir.walk import walk
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm

FLOAT8_OPS = ("arith.extf", "arith.truncf")
INSTRUCTIONS = {
    "nvvm.ex2": ("llvm.nvvm.ex2.approx.f32", "llvm.nvvm.ex2.approx.ftz.f32"),
    "nvvm.log2": ("llvm.nvvm.lg2.approx.f", "llvm.nvvm.lg2.approx.ftz.f"),
    "nvvm.sin": ("llvm.nvvm.sin.approx.f", "llvm.nvvm.sin.approx.ftz.f"),
    "nvvm.cos": ("llvm.nvvm.cos.approx.f", "llvm.nvvm.cos.approx.ftz.f"),
}
"""Ops that came with LLVM 23, and the intrinsics of LLVM 22 for them: without and with the op's ``ftz``."""
COUNT_BITS = {"math.ctpop": "llvm.intr.ctpop", "math.ctlz": "llvm.intr.ctlz", "math.cttz": "llvm.intr.cttz"}


def count_bits(device: Any, kernels: Kernels, _: Any) -> None:
    """``math.ctpop`` and its like become LLVM's intrinsics (PTX popc and clz)."""
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name in COUNT_BITS:
                _replace(op, _count_ones if op.name == "math.ctpop" else _count_zeros(COUNT_BITS[op.name]))


def _count_ones(x: Any, type: Any) -> Any:
    return new(COUNT_BITS["math.ctpop"], type, x)


def _count_zeros(name: str) -> Callable[[Any, Any], Any]:
    return lambda x, type: new(name, type, x, is_zero_poison=ir.BoolAttr.get(False))


def instructions(device: Any, kernels: Kernels, _: Any) -> None:
    """Ops of `INSTRUCTIONS` that these bindings' LLVM lacks become calls of intrinsics."""
    missing = {name for name in INSTRUCTIONS if not device.context.is_registered_operation(name)}
    for function, _kernel in functions(device, kernels) if missing else ():
        for op in walk(function):
            if op.name in missing:
                flush = "ftz" in op.attributes and ir.BoolAttr(op.attributes["ftz"]).value
                _replace(op, _call(INSTRUCTIONS[op.name][flush]))


def _call(intrinsic: str) -> Callable[[Any, Any], Any]:
    sizes = {"operandSegmentSizes": [1, 0], "op_bundle_sizes": []}
    arrays = {name: ir.DenseI32ArrayAttr.get(values) for name, values in sizes.items()}
    return lambda x, type: new("llvm.call_intrinsic", type, x, intrin=ir.StringAttr.get(intrinsic), **arrays)


def bf16_products(device: Any, kernels: Kernels, _: Any) -> None:
    """``nvgpu.mma.sync`` of bf16 becomes ``nvvm.mma.sync`` of i32 registers where these bindings' LLVM is older than
    23: its pass hands on vectors of bf16, which that op does not take."""
    if device.context.is_registered_operation("nvvm.ex2"):
        return
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name == "nvgpu.mma.sync" and isinstance(_element(op.operands[0].type), ir.BF16Type):
                with ir.InsertionPoint(op), op.location:
                    a, b, c = op.operands
                    result = _bf16_product(a, b, c, integers(op, "mmaShape"))
                op.results[0].replace_all_uses_with(result)
                op.erase()


def _bf16_product(a: Any, b: Any, c: Any, shape: list[int]) -> Any:
    i32, (m, n, k) = ir.IntegerType.get_signless(32), shape
    (left, right), sums = ([_words(x, i32) for x in (a, b)], _elements(c))
    made = nvvm.MmaOp(
        llvm.StructType.get_literal([x.type for x in sums]),
        ir.Attribute.parse(f"#nvvm.shape<m = {m}, n = {n}, k = {k}>"),
        nvvm.MMALayout.row,
        nvvm.MMALayout.col,
        left,
        right,
        sums,
        **{f"multiplicand{x}PtxType": ir.Attribute.parse("#nvvm.mma_type<bf16>") for x in "AB"},
    )
    places = [ir.DenseI64ArrayAttr.get([i]) for i in range(len(sums))]
    fields = [new("llvm.extractvalue", x.type, made.result, position=at) for x, at in zip(sums, places, strict=True)]
    return new("vector.from_elements", c.type, *fields)


def _words(x: Any, i32: Any) -> list[Any]:
    """Each row of a vector of pairs as an i32."""
    pair = ir.VectorType.get([2], x.type.element_type)
    places = [ir.DenseI64ArrayAttr.get([i]) for i in range(x.type.shape[0])]
    return [new("llvm.bitcast", i32, new("vector.extract", pair, x, static_position=at)) for at in places]


def _elements(x: Any) -> list[Any]:
    rows, columns = x.type.shape
    at = [ir.DenseI64ArrayAttr.get([i, j]) for i in range(rows) for j in range(columns)]
    return [new("vector.extract", x.type.element_type, x, static_position=place) for place in at]


def float8_conversions(device: Any, kernels: Kernels, _: Any) -> None:
    """``arith.extf`` from and ``arith.truncf`` to e4m3 and e5m2 become nvvm's conversions, of scalars and 1-D vectors.

    PTX cvt has pairs only, f32 to fp8 (to nearest even, beyond the range to the largest number) and fp8 to f16.
    """
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name == "arith.extf" and _is_float8(op.operands[0].type):
                _replace(op, lambda x, type: _by_element(_widen, x, type))
            elif op.name == "arith.truncf" and _is_float8(op.results[0].type):
                _replace(op, lambda x, type: _by_element(_narrow, x, type))


def _replace(op: Any, build: Callable[[Any, Any], Any]) -> None:
    """Replace ``op`` by what ``build(operand, result type)`` makes."""
    with ir.InsertionPoint(op), op.location:
        result = build(op.operands[0], op.results[0].type)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _is_float8(type: Any) -> bool:
    return isinstance(_element(type), (ir.Float8E4M3FNType, ir.Float8E5M2Type))


def _element(type: Any) -> Any:
    return type.element_type if isinstance(type, ir.VectorType) else type


def _by_element(convert: Callable[[Any, Any], Any], x: Any, type: Any) -> Any:
    if not isinstance(type, ir.VectorType):
        return convert(x, type)
    scalars = [_extract(x, i) for i in range(type.shape[0])]
    return new("vector.from_elements", type, *(convert(s, type.element_type) for s in scalars))


def _widen(x: Any, type: Any) -> Any:
    i8, f16 = ir.IntegerType.get_signless(8), ir.F16Type.get()
    zero = new("arith.constant", i8, value=ir.IntegerAttr.get(i8, 0))
    pair = new("vector.from_elements", ir.VectorType.get([2], i8), new("arith.bitcast", i8, x), zero)
    source = ir.TypeAttr.get(x.type)
    halves = new("nvvm.convert.f8x2.to.f16x2", ir.VectorType.get([2], f16), pair, srcType=source)
    return _float(_extract(halves, 0), type)


def _narrow(x: Any, type: Any) -> Any:
    f32 = ir.F32Type.get()
    pair = new(
        "nvvm.convert.f32x2.to.f8x2",
        ir.IntegerType.get_signless(16),
        new("arith.constant", f32, value=ir.FloatAttr.get(f32, 0.0)),
        _float(x, f32),
        rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rn>"),
        sat=ir.Attribute.parse("#nvvm.sat_mode<satfinite>"),
        dstTy=ir.TypeAttr.get(type),
    )
    return new("arith.bitcast", type, new("arith.trunci", ir.IntegerType.get_signless(8), pair))


def _extract(vector: Any, i: int) -> Any:
    position = ir.DenseI64ArrayAttr.get([i])
    return new("vector.extract", vector.type.element_type, vector, static_position=position)


def _float(x: Any, type: Any) -> Any:
    """``x``, an f16, bf16, f32 or f64, as ``type``, another of these."""
    if x.type == type:
        return x
    if x.type.width == type.width:  # f16 and bf16
        return _float(_float(x, ir.F32Type.get()), type)
    return new("arith.extf" if x.type.width < type.width else "arith.truncf", type, x)
