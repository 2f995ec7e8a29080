"""How threads share rows: chosen by the length of a row and by what its addresses are multiples of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT

MOST_COLUMNS = 262_144

_LANES = ((64, 8), (128, 16), (3072, 32), (6144, 64), (16_384, 128))
"""Columns up to which so many threads share a row, in accesses of 16 bytes of 16-bit elements."""

_BLOCK_BYTES = 32_768
"""Bytes of a row that one block takes before a cluster shares it."""

_MOST_BLOCKS = 8
"""Blocks of a cluster that every Hopper GPU can start."""

_SMALLEST_BLOCK, _MOST_LANES = 128, 512

_REGISTERS = 32
"""That hold a thread's part of a row, where so many threads can be had."""


_LARGEST_BATCH, _BATCH_LANES = 4, 256


@dataclass(frozen=True)
class RowsConfig:
    """``wide`` elements in an access, ``lanes`` threads of a block for a row, ``cluster`` blocks, ``steps`` accesses of
    a thread, the first ``full`` of which lie within the row for all threads; ``threads`` in a block. ``batch``: rows
    that a thread has at a time. ``blocks_per_sm``: that ptxas leaves registers for."""

    wide: int
    lanes: int
    cluster: int
    steps: int
    full: int
    batch: int = 1
    blocks_per_sm: int = 1

    @property
    def threads(self) -> int:
        return max(self.lanes, _SMALLEST_BLOCK)

    @property
    def rows_per_block(self) -> int:
        return self.threads // self.lanes * self.batch

    @property
    def stride(self) -> int:
        """Elements from one access of a thread to its next one."""
        return self.wide * self.lanes * self.cluster


def choose(cols: int, itemsize: int, multiple: int, *, batched: bool = False) -> RowsConfig:
    """For rows of ``cols`` elements of ``itemsize`` bytes. ``multiple``: of elements, what all rows' starts are.

    ``batched``: all rows are scaled by one row, which a thread shall read once for as many rows as it can hold.
    """
    wide = math.gcd(cols, multiple, ALIGNMENT // itemsize)
    size = cols * itemsize
    cluster = min(1 << max(nv.cdiv(size, _BLOCK_BYTES) - 1, 0).bit_length(), _MOST_BLOCKS)
    lanes = next((lanes for most, lanes in _LANES if size <= 2 * most), 256)
    most = _REGISTERS * max(min(4 // itemsize, wide), 1)  # what is loaded one by one takes a register each
    while nv.cdiv(cols, lanes * cluster) > most and lanes < _MOST_LANES:
        lanes *= 2
    batch = 1
    if batched:
        cluster = min(2 * cluster, _MOST_BLOCKS) if cluster > 1 else 1
        lanes, batch = _batch(cols, wide, lanes, cluster, max(wide * itemsize // 4, wide if itemsize * wide < 4 else 1))
    stride = wide * lanes * cluster
    return RowsConfig(wide, lanes, cluster, _rounded(nv.cdiv(cols, stride)), cols // stride, batch)


def _batch(cols: int, wide: int, lanes: int, cluster: int, registers: int) -> tuple[int, int]:
    """More threads for a row, so that each has more rows; but none that would often be idle. ``registers``: of an
    access."""

    def steps(lanes: int) -> int:
        return _rounded(nv.cdiv(cols, wide * lanes * cluster))

    batch = _LARGEST_BATCH
    while batch > 1:
        tried = lanes
        while tried <= max(lanes, _BATCH_LANES):
            idle = steps(tried) * tried > 1.1 * steps(lanes) * lanes
            if not idle and batch * steps(tried) * registers <= _REGISTERS:
                return tried, batch
            tried *= 2
        batch //= 2
    return lanes, 1


def _rounded(steps: int) -> int:
    """Rows of similar lengths share a kernel: what is too much reads nothing."""
    unit = 1 if steps <= 4 else 2 if steps <= 16 else 8
    return nv.cdiv(steps, unit) * unit
