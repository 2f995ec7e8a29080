"""How threads share rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper.arch import REGISTERS_PER_SM
from nvdsl.kernels.arguments import ALIGNMENT

MOST_COLUMNS = 262_144

MOST_LANES, SMALLEST_BLOCK = 512, 128

ALONE = 64
"""Lanes from which on a row has a block of its own. Groups of a block's warps would meet at named barriers: blocks with
all 16 of them fit on an SM four times."""

MOST_BLOCKS = 8
"""Blocks of a cluster that every Hopper GPU can start."""

SHARED_BYTES, BESIDE = 228 * 1024, 1280
"""Shared memory of an SM, and what a block takes of it beside rows: 1 KB of the system's, mbarriers, scratch."""

EXCHANGES, WORDS = 3, 4
"""How often the warps of a cluster tell each other something (`nvdsl.kernels.rows.exchange`), and how many f32 each."""

_FIT = 32
"""Lanes, of which those of a block are a multiple where rows are no powers of two."""

LINE, SECTOR = 128, 32
"""Bytes that L1 has a tag for, and that L2 moves."""

COPY_BYTES = 4
"""Of cp.async, at least."""

Keep = Literal["registers", "shared", "memory"]


@dataclass(frozen=True)
class RowsConfig:
    """``wide`` elements in an access, ``lanes`` threads of a block for a row, ``cluster`` blocks, ``steps`` accesses of
    a thread, the first ``full`` of which lie within the row for all threads.

    ``keep``: where the elements of a row are between the passes over it. "registers": of the thread that needs them;
    "shared": in shared memory (`nvdsl.kernels.rows.staged`); "memory": nowhere, they are loaded again.
    ``blocks_per_sm``: that ptxas leaves registers for. ``slots``: rows of a group that shared memory has room for.
    ``ahead``: bytes of each row for all rows, a weight say, that a thread loads ahead of their use. ``arrivals``: in so
    many groups copies to shared memory are waited for. ``alone``: a row that a warp has has a block of its own.
    ``copies``: bytes of an access to copies of rows for all rows; 0 where there are none. ``apart``: rows that are
    written begin elsewhere behind 16 bytes than those that are read. ``later``: L2 is asked for the row so many bytes
    of rows behind, which a block takes that begins later; 0: for none. ``wrapped``: what of a row is behind the last
    accesses lies before its first element, in the first thread's first access, which has room for that."""

    wide: int
    lanes: int
    cluster: int
    steps: int
    full: int
    keep: Keep = "registers"
    blocks_per_sm: int = 1
    slots: int = 1
    ahead: int = 0
    arrivals: int = 1
    alone: bool = False
    frame: int = 0
    grain: int = 0
    weights: bool = False
    copies: int = 0
    apart: bool = False
    later: int = 0
    wrapped: bool = False

    @property
    def slack(self) -> int:
        """Elements that lie between the first access of a row and its first element, at most."""
        return self.frame - self.grain if self.frame else 0

    @property
    def period(self) -> int:
        """Rows so many apart begin equally far behind a multiple of the frame."""
        return self.frame // self.grain if self.frame else 1

    @property
    def ragged(self) -> bool:
        """Whether an access may lie in a row in part."""
        return self.frame > 0 and self.grain < self.wide

    @property
    def threads(self) -> int:
        return self.lanes if self.alone or self.lanes >= ALONE else SMALLEST_BLOCK

    @property
    def groups(self) -> int:
        """Rows that a block works on side by side."""
        return self.threads // self.lanes

    @property
    def exchanged(self) -> int:
        """Bytes of a block for what the warps of its cluster tell it."""
        return EXCHANGES * WORDS * 4 * self.threads // 32 * self.cluster if self.cluster > 1 else 0

    @property
    def registers(self) -> int:
        """Of a thread."""
        return REGISTERS_PER_SM // (self.threads * self.blocks_per_sm)

    @property
    def residency(self) -> tuple[int, int]:
        """Blocks of an SM, at least and at most: as many as fit without local memory."""
        return 1, self.blocks_per_sm

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
        return self.wide * min(self.lanes, 8)


def framed_by(
    cols: int, config: RowsConfig, itemsize: int, multiple: int, most: int = LINE, wraps: bool = False
) -> RowsConfig:
    """With accesses that begin before the row, at a line if that takes no more of them, where rows begin off sectors:
    a warp's accesses are whole sectors then. ``multiple``: of elements, what rows' starts are. ``most``: bytes of the
    frame. ``wraps``: a row may be wrapped, where it would take another access for its last few elements."""
    if config.grain == config.wide and multiple * itemsize % SECTOR == 0:
        return config
    wrapped = shared_by(cols, replace(config, frame=ALIGNMENT // itemsize, wrapped=True))
    steps = wrapped.steps if wraps else config.steps
    for size in (size for size in (LINE, SECTOR, ALIGNMENT) if size <= most):
        found = shared_by(cols, replace(config, frame=size // itemsize))
        if found.steps <= steps:
            break
    if wraps and found.steps > steps:
        return wrapped
    if found.ragged and found.lanes >= SMALLEST_BLOCK:
        return fitted(cols, found)
    return found if found.slack else config


def fitted(cols: int, config: RowsConfig) -> RowsConfig:
    """With as few threads as take the same number of accesses."""
    each = nv.cdiv(cols + config.slack, config.cluster * config.unit) * config.unit
    lanes = nv.cdiv(each, config.wide * config.steps * _FIT) * _FIT
    return shared_by(cols, replace(config, lanes=min(lanes, config.lanes)))


def shared_by(cols: int, config: RowsConfig) -> RowsConfig:
    """With the accesses that ``cols`` columns take."""
    unit, extent = config.unit, cols + (0 if config.wrapped else config.slack)
    each = nv.cdiv(extent, config.cluster * unit) * unit
    steps = nv.cdiv(each, config.width)
    # rows of similar lengths share a kernel: what is too much reads nothing
    several = 1 if steps <= 4 or (config.cluster > 1 or config.ragged) and steps <= 8 else 2 if steps <= 16 else 8
    steps = nv.cdiv(steps, several) * several
    last = cols - (config.cluster - 1) * each  # the columns of the last block, which has the fewest
    return replace(config, steps=steps, full=min(max(last, 0) // config.width, steps))
