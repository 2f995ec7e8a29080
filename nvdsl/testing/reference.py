"""Input for kernels, rounded as the GPU rounds, and the product they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np

from nvdsl.values.dtypes import DType

DTypeLike: TypeAlias = DType | str | np.dtype | type[np.generic]
"""A type of elements: ``nv.f16``, its name, or NumPy's type."""

NUMPY = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "u64": np.dtype(np.uint64),
    "u32": np.dtype(np.uint32),
    "u16": np.dtype(np.uint16),
    "u8": np.dtype(np.uint8),
}
_NAMES = {dtype: name for name, dtype in NUMPY.items() if name != "tf32"}

FP8 = ("e4m3", "e5m2")


def dtype_name(dtype: DTypeLike) -> str:
    """``"f16"`` from ``nv.f16``, ``"f16"`` or ``np.float16``."""
    if isinstance(dtype, DType):
        return dtype.name
    return dtype if isinstance(dtype, str) and dtype in NUMPY else _NAMES[np.dtype(dtype)]


def random(shape: Sequence[int], dtype: DTypeLike, seed: int, *, integers: bool = False) -> np.ndarray:
    """An array of `shape` whose every element is a value of `dtype`.

    Floats are standard normal, integers are uniform over the whole range of the type. With
    ``integers=True`` the values are the integers of [-2, 2] ([0, 2] if unsigned): then all sums of up to
    8192 products are exact in every accumulator but f16, and results can be compared with ``exact=True``.
    """
    name, generator = dtype_name(dtype), np.random.default_rng(seed)
    kind = NUMPY[name].kind
    if integers:
        return generator.integers(0 if kind == "u" else -2, 2, size=shape, endpoint=True).astype(NUMPY[name])
    if kind in "iu":
        info = np.iinfo(NUMPY[name])
        return generator.integers(info.min, info.max, size=shape, endpoint=True, dtype=NUMPY[name])
    return rounded(generator.standard_normal(shape), name)


def rounded(x: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """`x` converted to the float type `dtype` as the GPU converts float32: to nearest even, except tf32,
    where ties go away from zero; fp8 saturates (PTX ISA, cvt: ``.rn``, ``.rna.tf32``,
    ``.rn.satfinite.e4m3x2``)."""
    name = dtype_name(dtype)
    if name == "f64":
        return np.asarray(x, np.float64)
    single = np.asarray(x, np.float32)
    if name == "tf32":
        return _tf32(single, half=0x1000)
    if name in FP8:
        limit = float(ml_dtypes.finfo(NUMPY[name]).max)
        single = np.clip(single, -limit, limit)  # keeps NaN
    with np.errstate(over="ignore"):
        return single.astype(NUMPY[name])


def _tf32(single: np.ndarray, half: int) -> np.ndarray:
    """The upper 19 bits of each float32, after adding `half` (0 truncates) to its bits."""
    bits = (single.view(np.uint32) + np.uint32(half)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(single), bits.view(np.float32), single)


def matmul(
    a: np.ndarray, b: np.ndarray, *, dtype: DTypeLike | None = None, precision: type[np.floating] = np.float64
) -> np.ndarray:
    """The product that a GPU kernel is compared with: `a` (..., M, K) times `b` (..., K, N).

    `dtype` is the type of the operands as the tensor core reads them, by default that of `a`. It matters
    for float32 arrays multiplied as tf32: wgmma ignores the low 13 bits of each operand, so they are cut
    off. Floats are multiplied and summed in `precision` (float32 is twice as fast) and returned so. Integers
    give exact int32, wrapped as the hardware's accumulator wraps.
    """
    name = dtype_name(a.dtype if dtype is None else dtype)
    if name == "tf32":
        a, b = (_tf32(np.asarray(x, np.float32), half=0) for x in (a, b))
    if NUMPY[name].kind in "iu":  # exact: |sum| < 2**53, and float64 has a fast matmul where int has none
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(np.int32)
    return a.astype(precision) @ b.astype(precision)
