"""Conversions between element types, on raw ``ir.Value``s: scalars, and vectors element by element.

=====================  =====================================================================================
from -> to             ops and rounding
=====================  =====================================================================================
int -> wider int       arith.extsi (from signed), arith.extui (from unsigned and bool)
int -> narrower int    arith.trunci: the low bits
int <-> index          arith.index_cast, arith.index_castui (from unsigned and bool); index is 64 bits
int -> float           arith.sitofp, arith.uitofp; to nearest even
float -> int           arith.fptosi, arith.fptoui: toward zero; NaN and numbers out of range are undefined
any -> bool            ``!= 0``; NaN is True
float -> wider float   arith.extf, exact
float -> narrower      arith.truncf, to nearest even; out of range is infinity. f16 <-> bf16 goes through f32
any -> tf32            nvvm.convert.float.to.tf32: to nearest, ties away from zero; the result is an f32
                       whose low 13 bits are 0
any -> e4m3, e5m2      f32, then nvvm.convert.f32x2.to.f8x2: to nearest even, beyond the range to the
                       largest finite number (infinity too), NaN to NaN; two elements an instruction
e4m3, e5m2 -> any      nvvm.convert.f8x2.to.f16x2, exact, then as from f16
=====================  =====================================================================================
"""

from __future__ import annotations

from typing import Any

from nvdsl.mlir import ir
from nvdsl.values import arith, dtypes
from nvdsl.values.dtypes import DType


def convert(x: Any, source: DType, target: DType) -> Any:
    """``x``, whose elements are ``source``, as ``target`` (as f32 for tf32)."""
    if source is target:
        return x
    if source in (dtypes.e4m3, dtypes.e5m2):
        return convert(_float8_to_f16(x), dtypes.f16, target)
    if target is dtypes.tf32:
        return _round_to_tf32(convert(x, source, dtypes.f32))
    if target in (dtypes.e4m3, dtypes.e5m2):
        return _f32_to_float8(convert(x, source, dtypes.f32), target)
    if target is dtypes.bool_:
        return arith.compare("!=", source, x, arith.constant(x.type, 0))
    if source.is_float and target.is_float:
        return _float_to_float(x, source, target)
    if source.is_float and target is dtypes.index:
        return convert(convert(x, source, dtypes.i64), dtypes.i64, target)
    if source is dtypes.index and target.is_float:
        return convert(convert(x, source, dtypes.i64), dtypes.i64, target)
    op = _op(source, target)
    return arith.emit(op, arith.like(x.type, target.ir), x) if op else x


def _op(source: DType, target: DType) -> str:
    """The one op between an integer, bool or index and another of them or a float; "" for none."""
    if source.is_float:
        return "arith.fptosi" if target.signed else "arith.fptoui"
    if target.is_float:
        return "arith.sitofp" if source.signed else "arith.uitofp"
    if dtypes.index in (source, target):
        return "arith.index_cast" if source.signed else "arith.index_castui"
    if source.bits == target.bits:
        return ""  # only the sign changes, which MLIR's types do not carry
    if source.bits > target.bits:
        return "arith.trunci"
    return "arith.extsi" if source.signed else "arith.extui"


def _float_to_float(x: Any, source: DType, target: DType) -> Any:
    if source.bits == target.bits:  # f16 and bf16
        return convert(convert(x, source, dtypes.f32), dtypes.f32, target)
    op = "arith.extf" if target.bits > source.bits else "arith.truncf"
    return arith.emit(op, arith.like(x.type, target.ir), x)


def _round_to_tf32(x: Any) -> Any:
    if isinstance(x.type, ir.VectorType):
        return arith.per_element(_round_to_tf32, x)
    rounding = ir.Attribute.parse("#nvvm.fp_rnd_mode<rna>")
    bits = arith.emit("nvvm.convert.float.to.tf32", ir.IntegerType.get_signless(32), x, rnd=rounding)
    return arith.emit("arith.bitcast", x.type, bits)


def _f32_to_float8(x: Any, target: DType) -> Any:
    i8, i16 = dtypes.i8.ir, dtypes.i16.ir
    if not isinstance(x.type, ir.VectorType):
        pair = _f32_pair_to_float8(x, arith.constant(x.type, 0), target)
        return arith.emit("arith.bitcast", target.ir, arith.emit("arith.trunci", i8, pair))
    count = arith.length(x.type)
    if count % 2:
        return arith.per_element(lambda scalar: _f32_to_float8(scalar, target), x)
    scalars = [arith.extract(x, x.type.element_type, [i]) for i in range(count)]
    pairs = [_f32_pair_to_float8(scalars[i], scalars[i + 1], target) for i in range(0, count, 2)]
    words = arith.emit("vector.from_elements", ir.VectorType.get([count // 2], i16), *pairs)
    bytes_ = arith.emit("vector.bitcast", ir.VectorType.get([count], i8), words)
    return arith.emit("arith.bitcast", ir.VectorType.get([count], target.ir), bytes_)


def _f32_pair_to_float8(low: Any, high: Any, target: DType) -> Any:
    """i16: ``low`` in the low byte. PTX cvt.rn.satfinite.e4m3x2.f32 d, a, b puts a in the high byte."""
    return arith.emit(
        "nvvm.convert.f32x2.to.f8x2",
        dtypes.i16.ir,
        high,
        low,
        rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rn>"),
        sat=ir.Attribute.parse("#nvvm.sat_mode<satfinite>"),
        dstTy=ir.TypeAttr.get(target.ir),
    )


def _float8_to_f16(x: Any) -> Any:
    i8, f16 = dtypes.i8.ir, dtypes.f16.ir
    source = arith.element(x.type)
    bytes_ = arith.emit("arith.bitcast", arith.like(x.type, i8), x)
    if not isinstance(x.type, ir.VectorType):
        pair = arith.pack([bytes_, arith.constant(i8, 0)])
        return arith.extract(_float8_pair_to_f16(pair, source), f16, [0])
    count = arith.length(x.type)
    if count % 2:
        return arith.per_element(_float8_to_f16, x)
    halves = []
    for i in range(0, count, 2):
        pair = arith.pack([arith.extract(bytes_, i8, [i]), arith.extract(bytes_, i8, [i + 1])])
        both = _float8_pair_to_f16(pair, source)
        halves += [arith.extract(both, f16, [0]), arith.extract(both, f16, [1])]
    return arith.pack(halves)


def _float8_pair_to_f16(pair: Any, source: Any) -> Any:
    type = ir.VectorType.get([2], dtypes.f16.ir)
    return arith.emit("nvvm.convert.f8x2.to.f16x2", type, pair, srcType=ir.TypeAttr.get(source))


def reinterpret(x: Any, target: DType) -> Any:
    """The same bits as ``target``, which has as many (arith.bitcast)."""
    type = arith.like(x.type, target.ir)
    return x if type == x.type else arith.emit("arith.bitcast", type, x)
