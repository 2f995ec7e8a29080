"""Random numbers that are a function of a place: Philox4x32-10.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The same seed and place
give the same number, in any kernel and in any order: a mask need not be kept for the way back.
"""

from __future__ import annotations

import nvdsl as nv
from nvdsl.errors import ArgumentError

_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(counter: tuple[nv.Int, nv.Int, nv.Int, nv.Int], key: tuple[nv.Int, nv.Int]) -> list[nv.Value]:
    """Four u32, evenly distributed, of a counter of 128 bits and a key of 64, each as u32, the lowest first."""
    a, b, c, d = (nv.u32(x) for x in counter)
    low, high = (nv.u32(x) for x in key)
    for number in range(_ROUNDS):
        if number:
            low, high = low + _WEYL[0], high + _WEYL[1]
        first, second = nv.u64(a) * _MULTIPLIERS[0], nv.u64(c) * _MULTIPLIERS[1]
        a, b, c, d = (
            nv.u32(second >> 32) ^ b ^ low, nv.u32(second), nv.u32(first >> 32) ^ d ^ high, nv.u32(first)
        )  # fmt: skip
    return [a, b, c, d]


def key_of(seed: int) -> tuple[int, int]:
    """The 64 bits of a seed as two numbers of 32 with a sign, the lower ones first."""
    low, high = (((seed >> shift) & 0xFFFFFFFF) for shift in (0, 32))
    return low - (low >> 31 << 32), high - (high >> 31 << 32)


def threshold(p: float) -> int:
    """The numbers of 32 bits below it are those that drop an element with probability ``p``. Raises ArgumentError."""
    if not isinstance(p, int | float) or not 0 <= p < 1:
        raise ArgumentError(f"p={p!r}", rule="the probability to drop an element is 0 or more, and less than 1")
    return min(round(p * 2**32), 2**32 - 1)


def kept(
    key: tuple[nv.Int, nv.Int], batch: nv.Int, row: nv.Int, col: nv.Int, least: int
) -> dict[tuple[int, int], nv.Value]:
    """Whether dropout keeps the elements ``(row + i, col + j)``, for i of 0 and 8 and j of 0 and 1: those that a thread
    of an accumulator has side by side, for which one call of `philox` suffices.

    ``row`` is a multiple of 16 plus 0 to 7, ``col`` even. Numbers of 32 bits from ``least`` on are kept (`threshold`).
    """
    pair = nv.u32(row) // 16 * 8 + nv.u32(row) % 8
    words = philox((nv.u32(col) // 2, pair, batch, 0), key)
    return {(i, j): words[i // 4 + j] >= least for i in (0, 8) for j in (0, 1)}
