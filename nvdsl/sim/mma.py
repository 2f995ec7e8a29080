"""mma.sync: what a warp's registers hold of A, B and C, and the sums.

PTX ISA, "Matrix Fragments for mma". The formulas are this file's own; the layouts that kernels use are in
`nvdsl.layout`, and tests compare the two. Registers are arrays ``[registers, 32 lanes]`` of 32-bit words, of f64, or of
sums.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from nvdsl.sim import matrix, numbers
from nvdsl.sim.values import LANES

_LANE = np.arange(LANES)[None, :, None]


class Mma(NamedTuple):
    """The static facts of an mma.sync: ``m``, ``k`` (n is 8), and the types of A, B and the sums by PTX's names."""

    m: int
    k: int
    a: str
    b: str
    d: str


@functools.cache
def _a(per: int, m: int, k: int) -> tuple[Any, Any]:
    """(row, column) of each element of A: [registers, lanes, elements of a register]."""
    i, j = np.arange(m * k // (LANES * per))[:, None, None], np.arange(per)[None, None]
    high = m // 8
    return _LANE // 4 + 8 * (i % high) + 0 * j, _LANE % 4 * per + j + 4 * per * (i // high)


@functools.cache
def _b(per: int, k: int) -> tuple[Any, Any]:
    """(k, column) of each element of B."""
    i, j = np.arange(k * 8 // (LANES * per))[:, None, None], np.arange(per)[None, None]
    return _LANE % 4 * per + j + 4 * per * i, _LANE // 4 + 0 * i + 0 * j


@functools.cache
def _c(m: int) -> tuple[Any, Any]:
    """(row, column) of each of the sums: [values, lanes]."""
    i, lane = np.arange(m // 4)[:, None], _LANE[..., 0]
    return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2


def _elements(registers: Any, dtype: str) -> Any:
    """[registers, lanes, elements] as `matrix.widen` gives them; f64 as they are."""
    if dtype == "f64":
        return registers[..., None]
    kind = numbers.dtype(dtype)
    return matrix.widen(np.ascontiguousarray(registers).view(kind.numpy).reshape(*registers.shape, -1), kind)


def a_matrix(registers: Any, mma: Mma) -> Any:
    """``[m, k]``."""
    found = _elements(registers, mma.a)
    out = np.zeros((mma.m, mma.k), found.dtype)
    out[_a(found.shape[-1], mma.m, mma.k)] = found
    return out


def b_matrix(registers: Any, mma: Mma) -> Any:
    """``[k, 8]``."""
    found = _elements(registers, mma.b)
    out = np.zeros((mma.k, 8), found.dtype)
    out[_b(found.shape[-1], mma.k)] = found
    return out


def product(a: Any, b: Any, c: Any, mma: Mma, exact: bool) -> Any:
    """The sums ``[values, lanes]`` from the registers of A and B and the sums before. ``exact``: as of `matrix.mma`."""
    left, right = a_matrix(a, mma), b_matrix(b, mma)
    places = _c(mma.m)
    before = np.zeros((mma.m, 8), c.dtype)
    before[places] = c
    if mma.d == "f64":
        return _f64(left, right, before, exact)[places]
    types = (mma.a, mma.b) if exact else None
    if exact and numbers.dtype(mma.a).bytes == 1 and mma.d == "f32":
        return _float8(left, right, before)[places]
    return matrix.mma(left, right.T, before, d_dtype=mma.d, exact=types)[places]


def _f64(a: Any, b: Any, c: Any, exact: bool) -> Any:
    """Products and sums in f64; with ``exact`` each is a fused multiply-add, in the order of K."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not exact:
            return a @ b + c
        for i in range(a.shape[1]):
            c = numbers.fma(a[:, i, None], b[None, i], c)
        return c


def _float8(a: Any, b: Any, c: Any) -> Any:
    """Hopper has no mma.sync of 8-bit floats. ptxas converts them to f16 and emits two products of 16, the first of the
    lower halves of all registers, from zero; then it adds C in f32. (Seen in its machine code.)"""
    found = np.zeros_like(c)
    for half in (0, 2):
        k = [i for i in range(a.shape[1]) if i % 4 // 2 * 2 == half]
        found = matrix.mma(a[:, k], b[k].T, found, exact=("f16", "f16"))
    with np.errstate(over="ignore", invalid="ignore"):
        return found + c
