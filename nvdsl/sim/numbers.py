"""Number formats as an H200 rounds them: conversions, and the sum that a tensor core computes.

Pure functions over NumPy arrays; bf16 and the 8-bit floats are ml_dtypes' types, tf32 is float32. What
the PTX ISA leaves open (NaN bits, the width of a tensor core's adder) was measured on an H200; the tests
hold the measured numbers.

Whoever calls them has NumPy's warnings off, as `schedule.run` has: infinities and NaNs are results like others.

Sources: PTX ISA, ``cvt``, "Alternate floating-point data formats", ``wgmma.mma_async``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import ml_dtypes
import numpy as np

from nvdsl.ir.arith import FLOATS
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.elements import ELEMENTS

BF16 = np.dtype(ml_dtypes.bfloat16)
_FLOAT8 = {dtypes.e4m3: np.float32(448), dtypes.e5m2: np.float32(57344)}  # the largest finite number
_WIDE = {kind.numpy: np.arange(256, dtype=np.uint8).view(kind.numpy).astype(np.float32) for kind in _FLOAT8}
_PTX_NAMES = {f"s{bits}": dtypes.by_name(f"i{bits}") for bits in (8, 16, 32, 64)}
_NAN_BITS = {2: 0x7FFF, 4: 0x7FFFFFFF}
_BELOW_A_TIE = (1 << 28) - 1  # bits of an f64 that are 0 half way between two numbers of f32, or of a shorter type
_TF32_LOW = np.uint32(0x1FFF)  # the 13 bits of an f32 that tf32 lacks


def dtype(name: DType | str) -> DType:
    """The type called ``name`` by nvdsl ("e4m3"), MLIR ("f8E4M3FN", "i8") or PTX ("s8"); a DType is itself.

    Raises ``KeyError`` for another name. MLIR's integers carry no sign: "i8" is signed here.
    """
    if isinstance(name, DType):
        return name
    return _PTX_NAMES.get(name) or ELEMENTS.get(name) or dtypes.by_name(name)


# --- conversions ---------------------------------------------------------------------------------


def convert(x: np.ndarray, target: DType | str) -> np.ndarray:
    """``x`` as ``target``: an array of ``dtype(target).numpy``.

    To a float: to nearest even; too large is infinity, but the largest finite number for e4m3 and e5m2
    (``cvt.rn.satfinite``), infinity included. To tf32: to nearest, ties away from zero (``cvt.rna``). To
    an integer from a float: toward zero, beyond the range to its end, NaN to 0 (``cvt.rzi``); from an
    integer: the low bits. To bool: whether it is not 0. A NaN that becomes f16 or bf16, or f32 from f16, gets
    the hardware's bits, all ones but the sign. (i64 and u64 to bf16 round twice, first to f64.)
    """
    kind, x = dtype(target), np.asarray(x)
    if kind in _FLOAT8:
        return _to_float8(x, kind)
    if kind is dtypes.tf32:
        return round_tf32(to_f32(x))
    if kind is dtypes.f32:
        return _canonical_nan(to_f32(x)) if x.dtype == np.float16 else to_f32(x)
    if not kind.is_float:
        integer = kind is not dtypes.bool_ and _is_float(x)
        return _to_integer(x, kind) if integer else x.astype(kind.numpy)
    if kind is dtypes.bf16 and x.dtype not in (BF16, np.float32):
        x = to_f32(x) if x.dtype.itemsize < 4 else _to_odd_f32(x)
    narrow = x.astype(kind.numpy)
    return _canonical_nan(narrow) if x.dtype != narrow.dtype and kind.bits == 16 else narrow


def to_f32(x: np.ndarray) -> np.ndarray:
    """``x`` as float32, exact for every type of at most 16 bits; float32 arrays are returned as they are."""
    table = _WIDE.get(x.dtype)
    if table is not None:
        return table.take(x.view(np.uint8))
    return x.astype(np.float32, copy=False)


def round_tf32(x: np.ndarray) -> np.ndarray:
    """float32 rounded to tf32, ties away from zero (``cvt.rna.tf32.f32``); of a NaN the high bits stay."""
    bits = x.view(np.uint32)
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    return ((bits + finite * np.uint32(0x1000)) & ~_TF32_LOW).view(np.float32)


def round_tf32_even(x: np.ndarray) -> np.ndarray:
    """float32 rounded to tf32, ties to even: what TMA does to each element that it loads through a tensor
    map of tf32. A NaN becomes 0x7FFFE000. (Its stores and reductions leave the bits alone.)"""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))) & ~_TF32_LOW
    return np.where(np.isnan(x), np.uint32(0x7FFFE000), rounded).view(np.float32)


def truncate_tf32(x: np.ndarray) -> np.ndarray:
    """float32 as wgmma reads it for tf32: the low 13 bits ignored (so that a NaN may become infinity)."""
    return (x.view(np.uint32) & ~_TF32_LOW).view(np.float32)


def _is_float(x: np.ndarray) -> bool:
    return x.dtype.kind == "f" or x.dtype == BF16 or x.dtype in _WIDE


def _to_float8(x: np.ndarray, kind: DType) -> np.ndarray:
    wide, largest = to_f32(x), _FLOAT8[kind]
    narrow = np.clip(wide, -largest, largest).astype(kind.numpy)  # NaN passes through clip
    return np.where(np.isnan(wide), np.uint8(0x7F), narrow.view(np.uint8)).view(kind.numpy)


def _to_integer(x: np.ndarray, kind: DType) -> np.ndarray:
    wide = np.trunc(np.nan_to_num(np.asarray(x, np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    limits = np.iinfo(kind.numpy)
    # 2.0**63 is no int64: what reaches the end is replaced, not clipped
    inside = np.where((wide >= limits.max) | (wide <= limits.min), 0, wide).astype(kind.numpy)
    return np.where(wide >= limits.max, limits.max, np.where(wide <= limits.min, limits.min, inside)).astype(
        kind.numpy
    )


def _canonical_nan(x: np.ndarray) -> np.ndarray:
    nan = np.isnan(x)
    if np.count_nonzero(nan):
        x.view(f"u{x.itemsize}")[nan] = _NAN_BITS[x.itemsize]
    return x


def _to_odd_f32(x: np.ndarray) -> np.ndarray:
    """f64 or integers rounded to odd in f32, so that rounding again to bf16 is as rounding once."""
    exact = x.astype(np.float64)
    near = exact.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    toward_zero = bits - (np.abs(back) > np.abs(exact)).astype(np.uint32)
    return np.where(np.isnan(near) | (back == exact), bits, toward_zero | np.uint32(1)).view(np.float32)


# --- arithmetic ----------------------------------------------------------------------------------


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """``x * y + z`` rounded once, of one float type; arrays, which are broadcast."""
    if z.dtype == np.float64:
        return _fma_f64(*np.broadcast_arrays(x, y, z))
    a, b = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)  # the product is exact
    total = a + b
    bits = total.view(np.int64)
    if np.count_nonzero(bits & _BELOW_A_TIE) < bits.size:  # else none is half way between two numbers of the type
        back = total - a
        lost = (a - (total - back)) + (b - back)
        if np.count_nonzero(lost):  # else all sums are exact, as those of small integers
            inexact = np.isfinite(total) & (lost != 0) & (bits & 1 == 0)
            odd = bits + np.where((lost > 0) == (total > 0), 1, -1)  # rounded to odd: rounding again does no harm
            total = np.where(inexact, odd, bits).view(np.float64)
    return total.astype(np.float32) if z.dtype == np.float32 else convert(total, dtypes.from_numpy(z.dtype))


def _fma_f64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    out = np.asarray(x * y + z)
    for i in np.ndindex(out.shape):
        a, b, c = float(x[i]), float(y[i]), float(z[i])
        if math.isfinite(a) and math.isfinite(b) and math.isfinite(c):
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            if exact:
                try:
                    out[i] = float(exact)
                except OverflowError:
                    out[i] = math.inf if exact > 0 else -math.inf
    return out


# --- reductions in memory ------------------------------------------------------------------------


def reduction(kind: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """``old`` combined with ``new`` as a TMA reduction does, both of the element type.

    ``kind``: add, min, max, and, or, xor. Integers wrap. Floating-point sums round to nearest even, keep
    subnormals, and give the hardware's NaN; of two numbers min and max take the one that is no NaN, and -0
    is less than +0.
    """
    if kind in ("and", "or", "xor"):
        return getattr(np, f"bitwise_{kind}")(old, new)
    if kind == "add":
        total = old + new
        return _canonical_nan(total) if _is_float(total) and total.itemsize < 8 else total
    if not _is_float(old):
        return np.minimum(old, new) if kind == "min" else np.maximum(old, new)
    picked = np.asarray(FLOATS[f"arith.{kind}numf"](old, new))
    return _canonical_nan(picked) if picked.itemsize < 8 else picked


# --- a tensor core's sum -------------------------------------------------------------------------


def dot_accumulate(
    a: np.ndarray, b: np.ndarray, acc: np.ndarray, fraction: int, least: Sequence[int]
) -> np.ndarray:
    """``a[m, k] @ b[n, k].T + acc[m, n]`` (float64, exact numbers) as one wgmma adds them, as float64.

    The products and the accumulator are aligned to the largest exponent among them, cut off ``fraction``
    bits below it, and added exactly. A product counts with the sum of its factors' exponents, a subnormal
    number with its format's least exponent: ``least`` of A, B and the accumulator. Measured on an H200: 25
    bits for f16, bf16 and tf32, 13 for the 8-bit floats. Infinities and NaNs go as in IEEE 754.
    """
    products = a[:, None, :] * b[None, :, :]
    exponents = _exponent(a, least[0])[:, None, :] + _exponent(b, least[1])[None, :, :]
    top = np.maximum(np.maximum(exponents.max(-1), _exponent(acc, least[2])), _LEAST_SUM)
    unit = np.ldexp(1.0, top - fraction)
    cut = np.trunc(products / unit[:, :, None]).sum(-1) + np.trunc(acc / unit)
    total = products.sum(-1) + acc
    return np.where(np.isfinite(total), cut * unit, total)


_NO_EXPONENT = -(2**20)
_LEAST_SUM = -133  # the adder has no bit below 2**-158


def _exponent(x: np.ndarray, least: int) -> np.ndarray:
    return np.where(x == 0, _NO_EXPONENT, np.maximum(np.frexp(x)[1] - 1, least))


def truncate(x: np.ndarray, fraction: int) -> np.ndarray:
    """float64 ``x`` cut off after ``fraction`` bits of its mantissa, as float32 (the hardware's NaN)."""
    unit = np.ldexp(1.0, np.maximum(_exponent(x, -126), -126) - fraction)
    cut = np.where(np.isfinite(x), np.trunc(x / unit) * unit, x)
    return _canonical_nan(cut.astype(np.float32))
