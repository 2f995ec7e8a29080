"""wgmma, stmatrix and ldmatrix: where operands lie in shared memory and in registers, and the product.

Pure functions over NumPy arrays. Shared memory is a byte array that a shared address indexes. A warpgroup's
registers are arrays ``[registers, 128 threads]``, a warp's ``[registers, 32 lanes]``.

Sources: PTX ISA, "Matrix Descriptor Format", "Shared Memory Matrix Layout", "Strides", "Register
Fragments" of ``wgmma.mma_async``; ``stmatrix``, ``ldmatrix``. All layouts, with strides of no tile that
anyone would write and with base offsets, were compared with what an H200 reads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nvdsl.hopper import arch
from nvdsl.mlir import threads
from nvdsl.sim import numbers
from nvdsl.sim.geometry import UNIT, ranges, swizzled
from nvdsl.values.dtypes import DType

K_BYTES = arch.WGMMA_K_BYTES
"""Bytes of K of one wgmma."""

ELEMENTS = {
    name: numbers.dtype(name).numpy
    for name in ("f16", "bf16", "tf32", "e4m3", "e5m2", "f8E4M3FN", "f8E5M2", "i8", "s8", "u8")
}
"""NumPy types of wgmma's operands in memory, by nvdsl's, MLIR's and PTX's names."""

_UNIT_DTYPE = np.dtype("V16")
_SWIZZLE_WIDTH = {mode: size or UNIT for size, mode in arch.WGMMA_SWIZZLE_MODES.items()}


class Descriptor(NamedTuple):
    """The fields of a 64-bit matrix descriptor, in bytes; ``base_offset`` in lines of 128 bytes."""

    start: int
    leading: int
    stride: int
    base_offset: int
    swizzle: int


def decode(descriptor: int) -> Descriptor:
    """A matrix descriptor's fields. ``swizzle``: 16 (none), 32, 64 or 128. Negative ints are two's complement."""
    return Descriptor(
        (descriptor & 0x3FFF) << 4,
        (descriptor >> 16 & 0x3FFF) << 4,
        (descriptor >> 32 & 0x3FFF) << 4,
        descriptor >> 49 & 7,
        _SWIZZLE_WIDTH[descriptor >> 62 & 3],
    )


@lru_cache(maxsize=4096)
def _units(descriptor: int, rows: int, major: str) -> np.ndarray:
    """Index of each 16-byte unit of an operand in shared memory.

    K-major: ``[rows, units along K]``. MN-major, 16-bit elements: ``[k, units along M or N]``.
    """
    d = decode(descriptor)
    if major == "k":
        row, unit = np.arange(rows)[:, None], np.arange(K_BYTES // UNIT)
        step = d.leading if d.swizzle == UNIT else UNIT
        linear = row % 8 * d.swizzle + row // 8 * d.stride + unit * step
    elif major == "mn":
        k, unit = np.arange(K_BYTES // 2)[:, None], np.arange(-(-rows // 8))
        wide = d.swizzle // UNIT  # units of a row of the pattern
        along_k, along_mn = (d.leading, d.stride) if d.swizzle == UNIT else (d.stride, d.leading)
        linear = k % 8 * d.swizzle + k // 8 * along_k + unit % wide * UNIT + unit // wide * along_mn
    else:
        raise ValueError(f"major is 'k' or 'mn', not {major!r}")
    return swizzled(d.start + linear, d.swizzle, d.base_offset) // UNIT


def read_operand(smem: np.ndarray, descriptor: int, rows: int, dtype: DType | str, major: str) -> np.ndarray:
    """``[rows, k]``, what a wgmma reads through ``descriptor``, as `widen` gives it.

    ``rows``: 64 for A, N for B. ``major``: "k" or "mn" (16-bit types only). Raises IndexError where the
    operand exceeds ``smem``.
    """
    element = numbers.dtype(dtype)
    if major == "mn" and element.bytes != 2:
        raise ValueError(f"wgmma reads no MN-major operand of {element.name}")
    units = smem[: len(smem) // UNIT * UNIT].view(_UNIT_DTYPE)[_units(descriptor, rows, major)]
    stored = units.view(element.numpy)
    return widen(stored if major == "k" else np.ascontiguousarray(stored[:, :rows].T), element)


@lru_cache(maxsize=4096)
def _footprint(descriptor: int, rows: int, major: str) -> list[tuple[int, int]]:
    return ranges(_units(descriptor, rows, major) * UNIT, UNIT)


def operand_footprint(descriptor: int, rows: int, major: str) -> list[tuple[int, int]]:
    """Ranges of shared addresses that `read_operand` reads, in order."""
    return list(_footprint(descriptor, rows, major))


# --- the product ---------------------------------------------------------------------------------


def widen(x: np.ndarray, dtype: DType | str) -> np.ndarray:
    """Elements of ``dtype`` as float32, or int32 for integers: exact, but tf32 loses its low 13 bits."""
    element = numbers.dtype(dtype)
    if not element.is_float:
        return x.astype(np.int32)
    return numbers.truncate_tf32(x) if element.name == "tf32" else numbers.to_f32(x)


def mma(
    a: np.ndarray,
    b: np.ndarray,
    acc: np.ndarray | None = None,
    *,
    scale_a: int = 1,
    scale_b: int = 1,
    d_dtype: DType | str = "f32",
    exact: tuple[DType | str, DType | str] | None = None,
) -> np.ndarray:
    """``D[m, n] = A[m, k] B[n, k]^T + acc[m, n]``, operands as `widen` gives them.

    ``acc``: of D's type, or None for 0. ``scale_a``, ``scale_b``: 1 or -1. D is float32, float16 or int32
    (which wraps). Sums are float32 sums, in no particular order; with ``exact``, the types of A's and B's elements,
    they have an H200's bits (slow: a tensor core aligns and cuts off before it adds, 8-bit floats to 13 bits).
    """
    d = numbers.dtype(d_dtype)
    if not d.is_float:  # sums of at most 256 products are exact in f32
        with threads.blas:
            product = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.int32)
        return product if acc is None else product + acc
    if exact is not None:
        return _mma_exact(scale_a * scale_b * a, b, acc, d, *map(numbers.dtype, exact))
    with np.errstate(over="ignore", invalid="ignore"):
        with threads.blas:
            product = a @ b.T
        if scale_a != scale_b:
            product = -product
        if acc is not None:
            product += acc
        return product.astype(d.numpy, copy=False)


_LEAST_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14}


def _mma_exact(
    a: np.ndarray, b: np.ndarray, acc: np.ndarray | None, d: DType, a_type: DType, b_type: DType
) -> np.ndarray:
    fraction = 13 if a_type.bytes == 1 else 25
    before = np.zeros((len(a), len(b))) if acc is None else acc.astype(np.float64)
    least = [_LEAST_EXPONENT[t.name] for t in (a_type, b_type, d)]
    total = numbers.dot_accumulate(a.astype(np.float64), b.astype(np.float64), before, fraction, least)
    rounded = numbers.convert(total, d) if d.name == "f16" else numbers.truncate(total, min(fraction, 23))
    return rounded + d.numpy.type(0)  # no -0: the sum is 0 or rounds to it with sign 0


# --- stmatrix and ldmatrix -----------------------------------------------------------------------


def _matrix_rows(smem: np.ndarray, addresses: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Shared memory as 16-byte units, and the unit of each row of ``count`` 8x8 matrices."""
    rows = np.asarray(addresses)[: 8 * count]
    if (rows % UNIT).any():
        raise ValueError(f"row addresses {[hex(x) for x in rows if x % UNIT]} are no multiples of {UNIT}")
    return smem[: len(smem) // UNIT * UNIT].view(_UNIT_DTYPE), rows // UNIT


def stmatrix(smem: np.ndarray, addresses: np.ndarray, registers: np.ndarray, transpose: bool = False) -> None:
    """Store ``len(registers)`` 8x8 matrices of 16-bit elements from ``registers[count, 32 lanes]`` (32-bit).

    ``addresses``: of row ``r`` of matrix ``i`` by lane ``8*i + r``, 16-byte aligned (ValueError). Register
    ``i`` of lane ``l`` holds row ``l // 4``, columns ``l % 4 * 2`` (low half) and one more, transposed on request.
    """
    count = len(registers)
    units, rows = _matrix_rows(smem, addresses, count)
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(count, 8, 8)
    if transpose:
        halves = np.ascontiguousarray(halves.transpose(0, 2, 1))
    units[rows] = halves.view(_UNIT_DTYPE).reshape(-1)


def ldmatrix(smem: np.ndarray, addresses: np.ndarray, count: int, transpose: bool = False) -> np.ndarray:
    """``[count, 32 lanes]`` uint32: 8x8 matrices of 16-bit elements; addresses and registers as in `stmatrix`."""
    units, rows = _matrix_rows(smem, addresses, count)
    halves = units[rows].view(np.uint16).reshape(count, 8, 8)
    if transpose:
        halves = np.ascontiguousarray(halves.transpose(0, 2, 1))
    return halves.reshape(count, 32, 2).view(np.uint32)[..., 0]
