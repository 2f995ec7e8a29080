"""How threads share rows: chosen by the length of a row and by what its addresses are multiples of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import nvdsl as nv
from nvdsl.hopper.arch import REGISTERS_PER_SM
from nvdsl.kernels.arguments import ALIGNMENT

MOST_COLUMNS = 262_144

_LANES = ((512, 8), (1024, 16), (2048, 32), (4096, 64), (8192, 128), (16_384, 256))
"""Bytes of a row up to which so many threads share it."""

_MOST_LANES, _SMALLEST_BLOCK = 512, 128

_BLOCK_BYTES = 32_768
"""Of rows, that one block takes before a cluster shares it."""

_MOST_BLOCKS = 8
"""Blocks of a cluster that every Hopper GPU can start."""

_REGISTERS = 64
"""Elements that registers of a thread hold; they may be f32 then."""

_SHARED_BYTES, _BESIDE = 228 * 1024, 1280
"""Shared memory of an SM, and what a block takes of it beside rows: 1 KB of the system's, mbarriers, scratch."""

_SM_THREADS = ((32, 1536), (64, 1024))
"""Of an SM, where rows lie in shared memory: by the elements of a thread, all of which it loads at once if registers
last. With 1536, each has 40 registers, with 1024 it has 64."""

_SUMS_BYTES = 64
"""Of a row, that a thread has which keeps two sums of each column."""

_SUMS_THREADS = 512
"""On an SM then, of which each has 128 registers."""

_MOST_SLOTS = 6

Keep = Literal["registers", "shared", "memory"]


@dataclass(frozen=True)
class RowsConfig:
    """``wide`` elements in an access, ``lanes`` threads of a block for a row, ``cluster`` blocks, ``steps`` accesses of
    a thread, the first ``full`` of which lie within the row for all threads.

    ``keep``: where the elements of a row are between the passes over it. "registers": of the thread that needs them;
    "shared": in shared memory, where bulk copies bring them (`nvdsl.kernels.rows.staged`); "memory": nowhere, they are
    loaded again. ``blocks_per_sm``: that ptxas leaves registers for. ``slots``: rows of a group that shared memory has
    room for."""

    wide: int
    lanes: int
    cluster: int
    steps: int
    full: int
    keep: Keep = "registers"
    blocks_per_sm: int = 1
    slots: int = 1
    bulk: bool = False

    @property
    def threads(self) -> int:
        return max(self.lanes, _SMALLEST_BLOCK)

    @property
    def groups(self) -> int:
        """Rows that a block works on side by side."""
        return self.threads // self.lanes

    @property
    def registers(self) -> int:
        """Of a thread."""
        return REGISTERS_PER_SM // (self.threads * self.blocks_per_sm)

    @property
    def width(self) -> int:
        """Elements from one access of a thread to its next one."""
        return self.wide * self.lanes

    @property
    def part(self) -> int:
        """Elements of a row that a block has room for."""
        return self.steps * self.width

    @property
    def unit(self) -> int:
        """The columns of each block of a cluster, but the last, are a multiple of it."""
        return self.wide * 8


def choose(cols: int, itemsize: int, multiple: int, *, arrays: int = 1, bulk: bool = False) -> RowsConfig:
    """For rows of ``cols`` elements of ``itemsize`` bytes. ``multiple``: of elements, what all rows' starts are.
    ``arrays``: so many rows of that length belong together. ``bulk``: bulk copies can bring them."""
    wide = math.gcd(cols, multiple, ALIGNMENT // itemsize)
    size = cols * itemsize * arrays
    cluster = min(1 << max(nv.cdiv(size, _BLOCK_BYTES) - 1, 0).bit_length(), _MOST_BLOCKS)
    lanes = next((lanes for most, lanes in _LANES if size <= most), 256)
    shared = bulk and lanes >= 32
    while not shared and arrays * nv.cdiv(cols, lanes * cluster) > _REGISTERS and lanes < _MOST_LANES:
        lanes *= 2
    steps = _steps(cols, wide, lanes, cluster)
    config = RowsConfig(wide, lanes, cluster, steps, _full(cols, wide, lanes, cluster, steps))
    if not shared:
        return config if arrays * steps * wide <= _REGISTERS else replace(config, keep="memory")
    taken = arrays * config.groups * config.part * itemsize
    threads = next((threads for most, threads in _SM_THREADS if arrays * steps * wide <= most), 512)
    blocks = min(_SHARED_BYTES // (taken + _BESIDE), threads // config.threads)
    return replace(config, keep="shared", blocks_per_sm=blocks) if blocks else replace(config, keep="memory")


def choose_persistent(cols: int, itemsize: int, multiple: int, *, arrays: int = 2, bulk: bool = False) -> RowsConfig:
    """The same for a persistent grid whose threads keep two sums for each of their columns."""
    wide = math.gcd(cols, multiple, ALIGNMENT // itemsize)
    most = _SUMS_BYTES // itemsize if bulk else _SUMS_BYTES // 4
    few = most // 2  # where a block has several rows, or registers hold them, fewer are left for sums
    choices = ((lanes, most if bulk and lanes >= _SMALLEST_BLOCK else few) for lanes in (8, 16, 32, 64, 128, 256))
    lanes = next((lanes for lanes, columns in choices if cols <= columns * lanes), 512)
    cluster = next((n for n in (1, 2, 4) if cols <= most * lanes * n), _MOST_BLOCKS)
    steps = _steps(cols, wide, lanes, cluster)
    config = RowsConfig(wide, lanes, cluster, steps, _full(cols, wide, lanes, cluster, steps))
    blocks = max(_SUMS_THREADS // config.threads, 1)
    if steps * wide > most:
        return replace(config, keep="memory", blocks_per_sm=blocks)
    if not bulk:
        return replace(config, blocks_per_sm=blocks)
    slot = arrays * itemsize * config.groups * config.part
    sums = 4 * config.groups * config.width if config.groups > 1 else 0
    slots = (_SHARED_BYTES // blocks - _BESIDE - sums) // slot
    return replace(config, keep="shared", blocks_per_sm=blocks, slots=min(slots, _MOST_SLOTS), bulk=True)


def _steps(cols: int, wide: int, lanes: int, cluster: int) -> int:
    """Rows of similar lengths share a kernel: what is too much reads nothing."""
    unit = wide * 8
    steps = nv.cdiv(nv.cdiv(cols, cluster * unit) * unit, wide * lanes)
    unit = 1 if steps <= 4 else 2 if steps <= 16 else 8
    return nv.cdiv(steps, unit) * unit


def _full(cols: int, wide: int, lanes: int, cluster: int, steps: int) -> int:
    """Accesses that lie within the columns of the last block, which has the fewest."""
    unit = wide * 8
    last = cols - (cluster - 1) * (nv.cdiv(cols, cluster * unit) * unit)
    return min(max(last, 0) // (wide * lanes), steps)
