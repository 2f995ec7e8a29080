"""How threads share rows: chosen by the length of a row and by what its addresses are multiples of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import nvdsl as nv
from nvdsl.hopper.arch import REGISTERS_PER_SM
from nvdsl.kernels.arguments import ALIGNMENT

MOST_COLUMNS = 262_144

_LANES = ((512, 8), (1024, 16), (2048, 32), (4096, 64))
"""Bytes of a row up to which so many threads share it."""

_LANE_BYTES, _READ_BYTES, _LONG_READ_BYTES = 64, 96, 160
"""Of a longer row, that a thread has. More where nothing is written: a block that adds up reads nothing, so that more
of the other blocks' has to be on its way. And the more of a long row, the less is its last access, which few have."""

_LONG_PART, _ENOUGH_BYTES = 16_384, 120
"""Of a row, that a block has from which on threads have more, and that a thread has where an SM has three blocks."""

_FEW_STEPS = 5
"""Accesses of a thread, besides which it has registers for the ends of rows and for what is loaded ahead."""

_MOST_LANES, _SMALLEST_BLOCK = 512, 128

_ALONE = 64
"""Lanes from which on a row has a block of its own. Groups of a block's warps would meet at named barriers: blocks with
all 16 of them fit on an SM four times."""

_BLOCK_BYTES = 65_536
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

_REGISTERS_AHEAD, _SHARED_AHEAD, _CLUSTER_AHEAD = 32, 96, 64
"""Bytes of each row for all rows that a thread loads ahead where registers hold the row, of all of them where shared
memory does, and where a cluster shares the longest rows."""

_SUMS_AHEAD = 32
"""The same where a thread also keeps sums."""

_SUMS_BYTES = 64
"""Of a row, that a thread has which keeps two sums of each column, at most."""

_SUMS_THREADS = 512
"""On an SM then, of which each has 128 registers. A warp with a row of its own has 168 in each thread, and threads
with a half of the columns get along with 80."""

_FIT = 32
"""Lanes, of which those of a block are a multiple where rows are no powers of two."""

_BLOCKS_OF_AN_SM = 32

_MOST_SLOTS = 6

_FRAMED = 256
"""Bytes of a row from which on it is taken by accesses that begin before it."""

_LINE, _SECTOR = 128, 32
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
    many groups copies to shared memory are waited for. ``alone``: a row that a warp has has a block of its own."""

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
    copies: bool = False

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
        return self.lanes if self.alone or self.lanes >= _ALONE else _SMALLEST_BLOCK

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


def choose(
    cols: int,
    itemsize: int,
    multiple: int,
    *,
    arrays: int = 1,
    smallest: int | None = None,
    passes: int = 2,
    beside: int = 0,
    written: bool = True,
    alike: bool = False,
) -> RowsConfig:
    """For rows of ``cols`` elements of at most ``itemsize`` bytes and at least ``smallest``. ``multiple``: of elements,
    what all rows' starts are. ``arrays``: so many rows of that length belong together. ``passes``: how often a thread
    takes its elements. ``beside``: so many rows for all rows are read. ``written``: rows are, too. ``alike``: each
    row begins as far behind a multiple of 16 bytes in all arrays of rows, and the first ones at one."""
    widest = ALIGNMENT // itemsize
    grain = math.gcd(cols, multiple, widest)
    size = cols * itemsize
    framed = alike and size >= _FRAMED
    wide = widest if framed else grain
    cluster = min(1 << max(nv.cdiv(size * arrays, _BLOCK_BYTES) - 1, 0).bit_length(), _MOST_BLOCKS)
    ragged = framed and wide > grain
    moments = passes == 3 and beside > 0 and arrays == 1 and written and itemsize < 4
    if moments and cluster == 1 and _BLOCK_BYTES // 2 < size < _BLOCK_BYTES:
        cluster = 2  # they are merged, and its blocks wait once
    each = nv.cdiv(size, cluster)
    lanes = _lanes(size, each, ALIGNMENT, written, ragged)
    if passes == 2 and (beside or arrays > 1) and lanes > _ALONE:  # threads without a part wait once alone
        lanes = 1 << (lanes - 1).bit_length()
    several = cluster == 2 and (moments or ragged and written and arrays == 1)
    if several:
        lanes = _of_several(each)
    if (passes > 2 or beside) and lanes == 32 and arrays == 1:  # a warp waits for no other one: registers are as good
        shared = wide > grain
    else:
        shared = wide * (smallest or itemsize) >= COPY_BYTES and lanes >= 32
    while not shared and arrays * nv.cdiv(cols, lanes * cluster) > _REGISTERS and lanes < _MOST_LANES:
        lanes *= 2
    alone = lanes == 32 and arrays == 1 and (passes == 2 or beside > 0 and passes == 3)
    config = shared_by(cols, RowsConfig(wide, lanes, cluster, 0, 0, alone=alone, grain=grain))
    if framed and (shared or wide > grain):
        config = _framed(cols, config, itemsize, multiple)
    if not shared:
        ahead = _REGISTERS_AHEAD if beside else 0
        few = arrays * config.steps * wide <= _REGISTERS
        return replace(config, ahead=ahead) if few else replace(config, keep="memory")
    taken = arrays * config.groups * config.part * itemsize
    threads, ahead = _sm_threads(config, itemsize, arrays, passes, beside, written)
    if several and passes < 4:
        threads, ahead = _SM_THREADS[1][1], _SHARED_AHEAD // beside if beside else 0
    blocks = min(_SHARED_BYTES // (taken + _BESIDE), threads // config.threads, _BLOCKS_OF_AN_SM)
    if not blocks:
        return replace(config, keep="memory")
    arrivals = config.steps if beside and passes == 3 and cluster > 1 else 1
    return replace(config, keep="shared", blocks_per_sm=blocks, ahead=ahead, arrivals=arrivals)


def _lanes(size: int, each: int, access: int, written: bool, ragged: bool) -> int:
    """For rows of ``size`` bytes, of which a block has ``each``: a multiple of a warp, so that rows of no power of two
    leave few threads without a part of them."""
    for most, lanes in _LANES:
        if size <= most:
            return lanes
    part = _LANE_BYTES
    if not written and each & (each - 1):
        lanes = 1 << (min(each // part, _MOST_LANES).bit_length() - 1)
        if each % (lanes * access) == 0:
            return lanes
        part = _READ_BYTES if each <= _READ_BYTES * _MOST_LANES else _LONG_READ_BYTES
    elif ragged and each > _LONG_PART:
        part = _READ_BYTES
    elif ragged:  # whose ends take registers, so that threads are few
        return max(each // (part * 32) * 32, _ALONE)
    return min(max(nv.cdiv(each, part * 32) * 32, _ALONE), _MOST_LANES)


def _of_several(each: int) -> int:
    """Lanes of a block that has ``each`` bytes of a row, where an SM has three blocks or more: as few as have enough on
    their way with registers for what is loaded ahead. While two wait, nothing comes."""
    for blocks in range(3, 9):
        lanes = _SM_THREADS[1][1] // (blocks * 32) * 32
        if each >= lanes * _ENOUGH_BYTES:
            break
    return lanes


def _framed(cols: int, config: RowsConfig, itemsize: int, multiple: int, most: int = _LINE) -> RowsConfig:
    """With accesses that begin before the row, at a line if that takes no more of them, where rows begin off sectors:
    a warp's accesses are whole sectors then. ``multiple``: of elements, what rows' starts are. ``most``: bytes of the
    frame."""
    if config.grain == config.wide and multiple * itemsize % _SECTOR == 0:
        return config
    for size in sorted({most, _SECTOR, ALIGNMENT}, reverse=True):
        found = shared_by(cols, replace(config, frame=size // itemsize))
        if found.steps <= config.steps:
            break
    if found.ragged and found.lanes >= _SMALLEST_BLOCK:
        return _fitted(cols, found)
    return found if found.slack else config


def _sm_threads(
    config: RowsConfig, itemsize: int, arrays: int, passes: int, beside: int, written: bool
) -> tuple[int, int]:
    """Threads on an SM, where rows lie in shared memory, and the bytes of each row for all rows that a thread loads
    ahead. For that it needs the registers of one of 1024, which many blocks have to be, or have long rows. Blocks of a
    large cluster that wait for each other, or of one that does so twice, are better off with few registers."""
    elements = arrays * config.steps * config.wide
    threads = next((threads for most, threads in _SM_THREADS if elements <= most), 512)
    if not written:
        threads = _SM_THREADS[0][1]
    if config.ragged:  # the ends of rows take registers
        threads = min(threads, _SM_THREADS[1][1] if arrays == 1 else _SUMS_THREADS * 3 // 2)
    if not written:
        return threads, 0
    if passes > 3:  # results are computed twice
        return (512 if arrays > 1 and elements > _SM_THREADS[0][0] else min(threads, _SM_THREADS[1][1])), 0
    if passes > 2 and config.cluster > (2 if itemsize < 4 else 1):
        return threads, 0
    few = elements <= _SM_THREADS[0][0] and config.lanes == _MOST_LANES
    if not beside or few or arrays > 1 or config.lanes <= 32:
        return threads, 0
    whole = config.lanes <= _SMALLEST_BLOCK or _SM_THREADS[1][1] % config.lanes == 0
    if passes > 2 and not whole and not config.ragged:  # blocks of so many threads would leave some of 1024 out
        return threads, 0
    ends = config.ragged and (passes == 2 or config.steps > _FEW_STEPS)
    ahead = _REGISTERS_AHEAD if ends else _SHARED_AHEAD
    if passes > 2 and config.cluster > 1 and elements == _SM_THREADS[1][0]:  # what merges moments takes registers
        ahead = min(ahead, _CLUSTER_AHEAD)
    return _SM_THREADS[1][1], ahead // beside


def choose_persistent(
    cols: int,
    itemsize: int,
    multiple: int,
    *,
    arrays: int = 2,
    smallest: int | None = None,
    beside: int = 0,
    alike: bool = False,
) -> RowsConfig:
    """The same for a persistent grid whose threads keep two sums for each of their columns. ``beside``: bytes of an
    element of a row for all rows, 0 without one."""
    widest = ALIGNMENT // itemsize
    grain = math.gcd(cols, multiple, widest)
    framed = alike and cols > widest * _ALONE
    wide = widest if framed else grain
    shared = wide * (smallest or itemsize) >= COPY_BYTES
    most, threads = _SUMS_BYTES // itemsize if shared else _SUMS_BYTES // 4, _SUMS_THREADS
    half = most // 2
    if shared and cols <= most * 32 and wide == grain:
        lanes, threads = next(lanes for lanes in (8, 16, 32) if cols <= most * lanes), _SUMS_THREADS * 3 // 4
    else:
        extent = cols + wide - grain
        lanes = next((lanes for lanes in (8, 16, 32, 64, 128, 256) if extent <= half * lanes), _MOST_LANES)
        lanes = max(lanes, _ALONE) if framed else lanes
        threads = _SUMS_THREADS * 3 // 2 if shared and extent <= half * lanes else threads
    found: RowsConfig | None = None
    for cluster in (1, 2, 4, _MOST_BLOCKS):
        config = shared_by(cols, RowsConfig(wide, lanes, cluster, 0, 0, grain=grain))
        if framed and config.groups == 1:
            config = _framed(cols, config, itemsize, multiple, _LINE if wide == grain else _SECTOR)
        config = _fitted(cols, config) if lanes >= _SMALLEST_BLOCK else config
        elements = config.steps * wide
        tight = config.ragged or config.frame > 0 and beside > itemsize
        if lanes >= _SMALLEST_BLOCK and elements > (_tight_sums(config, half) if tight else most):
            continue
        if config.ragged:  # the ends of rows take registers, too
            threads = min(threads, _SUMS_THREADS)
        blocks = max(threads // config.threads, 1)
        found = replace(config, blocks_per_sm=blocks, ahead=_REGISTERS_AHEAD)
        if not shared:
            return found
        found = _with_ring(found, arrays * itemsize, itemsize, beside)
        if found.groups > 1 or found.slots > 2 and (found.weights or not beside):  # a cluster shares one row
            break
    return found or replace(config, keep="memory")


def _tight_sums(config: RowsConfig, half: int) -> int:
    """Columns whose sums a thread keeps, where the ends of rows take registers, too, or a wide weight of theirs."""
    return half * 3 // 2 if config.lanes <= _SUMS_THREADS * 3 // 4 else half


def _with_ring(config: RowsConfig, each: int, itemsize: int, beside: int) -> RowsConfig:
    """With as many slots as shared memory has room for, and the weight where three of them leave room for it: or two,
    where no larger cluster could share the row. ``each``: bytes of the arrays' elements of a column."""
    slot = each * config.groups * config.part
    more = 4 * config.groups * config.width if config.groups > 1 else 0  # for sums
    exchanged = config.threads * config.cluster  # two numbers of each warp of the cluster, of four turns
    room = _SHARED_BYTES // config.blocks_per_sm - _BESIDE - exchanged - more
    fewest = 2 if config.cluster == _MOST_BLOCKS else 3
    fits = room >= beside * config.part + fewest * slot
    weights = beside > 0 and (config.groups > 1 or config.ragged or fits)
    slots = (room - beside * config.part * weights) // slot
    ahead = 0 if weights or beside > itemsize else _SUMS_AHEAD
    return replace(config, keep="shared", slots=min(slots, _MOST_SLOTS), ahead=ahead, weights=weights)


def _fitted(cols: int, config: RowsConfig) -> RowsConfig:
    """With as few threads as take the same number of accesses."""
    each = nv.cdiv(cols + config.slack, config.cluster * config.unit) * config.unit
    lanes = nv.cdiv(each, config.wide * config.steps * _FIT) * _FIT
    return shared_by(cols, replace(config, lanes=min(lanes, config.lanes)))


def shared_by(cols: int, config: RowsConfig) -> RowsConfig:
    """With the accesses that ``cols`` columns take."""
    unit, extent = config.unit, cols + config.slack
    each = nv.cdiv(extent, config.cluster * unit) * unit
    steps = nv.cdiv(each, config.width)
    # rows of similar lengths share a kernel: what is too much reads nothing
    several = 1 if steps <= 4 or (config.cluster > 1 or config.ragged) and steps <= 8 else 2 if steps <= 16 else 8
    steps = nv.cdiv(steps, several) * several
    last = cols - (config.cluster - 1) * each  # the columns of the last block, which has the fewest
    return replace(config, steps=steps, full=min(max(last, 0) // config.width, steps))
