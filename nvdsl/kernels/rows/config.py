"""How threads share rows: chosen by the length of a row and by what its addresses are multiples of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import nvdsl as nv
from nvdsl.hopper.arch import REGISTERS_PER_SM
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

_MOST_HELD = 64
"""Elements that a thread holds: ptxas keeps them as f32. Where it had more, it reads its rows again."""


_PACKED_LANES = (
    (64, 8), (128, 16), (2048, 32), (4096, 64), (8192, 128), (16_384, 256), (32_768, 512), (65_536, 1024),
)  # fmt: skip
_PACKED_REGISTERS = 64
"""The same for packed rows, which need no clusters, and registers of a thread that has 64 elements."""

_SUMS = 16
"""Columns of a thread that keeps sums of them."""

_PERSISTENT_THREADS = 512
"""On an SM, of which each has 128 registers."""

_RING_BYTES = 160 * 1024
"""On an SM, for rows on their way."""


@dataclass(frozen=True)
class RowsConfig:
    """``wide`` elements in an access, ``lanes`` threads of a block for a row, ``cluster`` blocks, ``steps`` accesses of
    a thread, the first ``full`` of which lie within the row for all threads; ``threads`` in a block.

    ``held``: a thread keeps its parts in registers between the passes over a row; else it reads them again. ``packed``:
    it keeps 16-bit elements as they came, and converts them in each pass anew. ``blocks_per_sm``: that ptxas leaves
    registers for. ``ahead``: how many rows of a group are on their way, see `nvdsl.kernels.rows.ahead`; 0: each is
    loaded when its turn comes."""

    wide: int
    lanes: int
    cluster: int
    steps: int
    full: int
    held: bool = True
    packed: bool = False
    blocks_per_sm: int = 1
    ahead: int = 0

    @property
    def threads(self) -> int:
        return max(self.lanes, _SMALLEST_BLOCK)

    @property
    def groups(self) -> int:
        """Rows that a block works on side by side."""
        return self.threads // self.lanes

    @property
    def stride(self) -> int:
        """Elements from one access of a thread to its next one."""
        return self.wide * self.lanes * self.cluster


def choose(cols: int, itemsize: int, multiple: int, *, arrays: int = 1, packed: bool = False) -> RowsConfig:
    """For rows of ``cols`` elements of ``itemsize`` bytes. ``multiple``: of elements, what all rows' starts are.
    ``arrays``: so many rows of that length belong together, parts of which a thread holds. ``packed``: keep 16-bit
    elements as they came, for more blocks on an SM."""
    wide = math.gcd(cols, multiple, ALIGNMENT // itemsize)
    if packed and itemsize == 2 and wide > 1 and cols <= _PACKED_LANES[-1][0]:
        lanes = next(lanes for most, lanes in _PACKED_LANES if cols <= most)
        blocks = REGISTERS_PER_SM // (_PACKED_REGISTERS * max(lanes, _SMALLEST_BLOCK))
        stride = wide * lanes
        steps = _rounded(nv.cdiv(cols, stride))
        return RowsConfig(wide, lanes, 1, steps, cols // stride, packed=True, blocks_per_sm=blocks)
    size = cols * itemsize * arrays
    cluster = min(1 << max(nv.cdiv(size, _BLOCK_BYTES) - 1, 0).bit_length(), _MOST_BLOCKS)
    lanes = next((lanes for most, lanes in _LANES if size <= 2 * most), 256)
    per_register = max(min(4 // itemsize, wide), 1)  # what is loaded one by one takes a register each
    while arrays * nv.cdiv(cols, lanes * cluster) > _REGISTERS * per_register and lanes < _MOST_LANES:
        lanes *= 2
    stride = wide * lanes * cluster
    steps = _rounded(nv.cdiv(cols, stride))
    return RowsConfig(wide, lanes, cluster, steps, cols // stride, held=arrays * steps * wide <= _MOST_HELD)


def choose_persistent(cols: int, itemsize: int, multiple: int, *, alike: bool) -> RowsConfig:
    """For a persistent grid whose threads keep two sums for each of their columns: few columns each, and rows of two
    arrays on their way where bulk copies can bring them. ``alike``: their elements have one size."""
    wide = math.gcd(cols, multiple, ALIGNMENT // itemsize)
    lanes = next((lanes for lanes in (8, 16, 32, 64, 128, 256) if cols <= _SUMS * lanes), 512)
    cluster = next((n for n in (1, 2, 4) if cols <= _SUMS * lanes * n), _MOST_BLOCKS)
    stride = wide * lanes * cluster
    steps = _rounded(nv.cdiv(cols, stride))
    held = steps * wide <= _SUMS
    groups = max(lanes, _SMALLEST_BLOCK) // lanes
    slot = 2 * itemsize * steps * wide * lanes * groups
    blocks = max(_PERSISTENT_THREADS // max(lanes, _SMALLEST_BLOCK), 1)
    ahead = min(_RING_BYTES // blocks // slot, 4) if held and alike and wide * itemsize == ALIGNMENT else 0
    return RowsConfig(wide, lanes, cluster, steps, cols // stride, held, blocks_per_sm=blocks, ahead=ahead)


def _rounded(steps: int) -> int:
    """Rows of similar lengths share a kernel: what is too much reads nothing."""
    unit = 1 if steps <= 4 else 2 if steps <= 16 else 8
    return nv.cdiv(steps, unit) * unit
