"""How threads share rows that are read once: chosen by their length and by what their addresses are multiples of."""

from __future__ import annotations

import math
from dataclasses import replace

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import (
    ALONE,
    BESIDE,
    COPY_BYTES,
    LINE,
    MOST_BLOCKS,
    MOST_LANES,
    SHARED_BYTES,
    SMALLEST_BLOCK,
    RowsConfig,
    framed_by,
    shared_by,
)

_LANES = ((512, 8), (1024, 16), (2048, 32), (4096, 64))
"""Bytes of a row up to which so many threads share it."""

_LANE_BYTES, _READ_BYTES = 64, 96
"""Of a longer row, that a thread has. More where rows begin anywhere: their ends take registers and time."""

_READ_LANES, _ODD_READ_BYTES = 128, 128
"""Where nothing is written: threads of a row of 4 KB, so that an SM has 64 KB of rows on their way (`streams`), and the
bytes of a thread where rows begin anywhere."""

_LONG_PART, _ENOUGH_BYTES, _ENOUGH_OF_SOFTMAX, _LONGEST_OF_SOFTMAX = 16_384, 120, 100, 40_960
"""Of a row, that a block has from which on threads have more, that a thread has where an SM has three blocks, and that
one of three blocks of softmax has at most."""

_HELD_PART, _HELD_LANES = 32_768, 256
"""Of a row that is only read, that registers of so many threads hold."""

_LAST_BYTES, _WHOLE_LANES = 122_880, 256
"""Of a row, from which on four blocks of so many threads share it where they wait once: it fills their accesses."""

_FEW_ARRIVALS = 8
"""Accesses of a thread that are waited for one by one where a cluster shares a row of softmax."""

_FEW_STEPS = 5
"""Accesses of a thread, besides which it has registers for the ends of rows and for what is loaded ahead."""

_BLOCK_BYTES = 65_536
"""Of rows, that one block takes before a cluster shares it."""

_REGISTERS = 64
"""Elements that registers of a thread hold; they may be f32 then."""

_SM_THREADS = ((32, 1536), (64, 1024))
"""Of an SM, where rows lie in shared memory: by the elements of a thread, all of which it loads at once if registers
last. With 1536, each has 40 registers, with 1024 it has 64."""

_REGISTERS_AHEAD, _SHARED_AHEAD, _CLUSTER_AHEAD = 32, 96, 64
"""Bytes of each row for all rows that a thread loads ahead where registers hold the row, of all of them where shared
memory does, and where a cluster shares the longest rows."""

_HELD = 40
"""Elements of a thread of a row that begins anywhere, up to which registers of 1024 threads hold rows; else of 768."""

_BLOCKS_OF_AN_SM = 32

_LATER_BYTES, _LATER_OF_WARPS = 5 << 20, 3 << 20
"""Of rows: so far behind a row lies the one that L2 is asked for, and the same for rows that one warp has in registers.
Memory reads them in 2.5 us, its latency twice; from 10 MB on L2 throws out again what it was asked for."""

_NARROW = {1: 1024, 2: 4096, 4: 16_384}
"""Bytes of a row, by its grain, from which on whole accesses put it together where it is written elsewhere."""

_FRAMED = 256
"""Bytes of a row from which on it is taken by accesses that begin before it."""


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
    apart: bool = False,
) -> RowsConfig:
    """For rows of ``cols`` elements of at most ``itemsize`` bytes and at least ``smallest``. ``multiple``: of elements,
    what all rows' starts are. ``arrays``: so many rows of that length belong together. ``passes``: how often a thread
    takes its elements. ``beside``: so many rows for all rows are read. ``written``: rows are, too. ``alike``: each
    row begins as far behind a multiple of 16 bytes in all arrays of rows, and the first ones at one. ``apart``: in
    all but the one that is written."""
    widest = ALIGNMENT // itemsize
    grain = math.gcd(cols, multiple, widest)
    size = cols * itemsize
    narrow = grain < widest and size > _NARROW[grain]
    apart = apart and not alike and itemsize == 2 and narrow
    framed = apart or alike and size >= _FRAMED
    wide = widest if framed else grain
    cluster = min(1 << max(nv.cdiv(size * arrays, _BLOCK_BYTES) - 1, 0).bit_length(), MOST_BLOCKS)
    ragged = framed and wide > grain
    moments = passes == 3 and beside > 0 and arrays == 1 and written and itemsize < 4
    once = moments or passes == 2 and beside == 0 and arrays == 1 and written  # softmax: its sums are merged, too
    if once and cluster == 1 and _BLOCK_BYTES // 2 < size and not (moments and size == _BLOCK_BYTES):
        cluster = 2  # its blocks wait once
    whole = once and not moments and _LAST_BYTES < size <= 2 * _BLOCK_BYTES
    if whole:
        cluster = 4
    each = nv.cdiv(size, cluster)
    waits_once = passes == 2 and (beside > 0 or arrays > 1)  # threads without a part wait once
    lanes = _lanes(size, each, written, ragged, not waits_once)
    if lanes == _LANES[0][1]:  # at most as many as have an access
        lanes = min(lanes, 1 << (nv.cdiv(cols, wide) - 1).bit_length())
    if waits_once and lanes > ALONE:
        lanes = 1 << (lanes - 1).bit_length()
    long = not moments and each > _LONGEST_OF_SOFTMAX
    several = cluster == 2 and (once and not long or ragged and written and arrays == 1)
    if whole:
        lanes = _WHOLE_LANES
    elif several:
        lanes = _of_several(each, _ENOUGH_BYTES if moments or ragged else _ENOUGH_OF_SOFTMAX)
    held = ragged and not apart and arrays == 1 and passes < 4 and 32 <= lanes <= ALONE and size <= _LANES[-1][0]
    if held:
        lanes = _held_lanes(cols, wide, lanes, not written or passes == 2 and lanes == 32)
    short = arrays == 1 and (lanes == 32 or not written and each <= _HELD_PART)
    if held or short:  # a warp waits for no other one, or nothing is written: registers are as good
        shared = not held and wide > grain
    else:
        shared = wide * (smallest or itemsize) >= COPY_BYTES and lanes >= 32
    while not shared and arrays * nv.cdiv(cols, lanes * cluster) > _REGISTERS and lanes < MOST_LANES:
        lanes *= 2
    alone = lanes == 32 and arrays == 1 and written and (passes == 2 or beside > 0 and passes == 3)
    config = shared_by(cols, RowsConfig(wide, lanes, cluster, 0, 0, alone=alone, grain=grain))
    if framed and (shared or wide > grain):
        most = ALIGNMENT if beside and not shared else LINE  # a weight's copies lie at lines then, where L1 has them
        config = framed_by(cols, config, itemsize, multiple, most, wraps=not shared)
    same = (smallest or itemsize) == itemsize and (framed or grain == widest)  # accesses of 16 bytes from one on
    later = written and same
    if not shared:
        if arrays * config.steps * wide > _REGISTERS:
            return replace(config, keep="memory")
        found = replace(config, ahead=_REGISTERS_AHEAD if beside else 0)
        if later and (held or lanes == 32):
            found = replace(found, later=_LATER_BYTES if lanes > 32 else _LATER_OF_WARPS)
        if not held:
            return found
        threads = _SM_THREADS[1][1] if config.steps * wide <= _HELD or not written else _SM_THREADS[1][1] * 3 // 4
        return replace(found, blocks_per_sm=threads // config.threads)
    taken = arrays * config.groups * config.part * itemsize
    threads, ahead = _sm_threads(config, itemsize, arrays, passes, beside, written)
    if (several or whole) and passes < 4:
        most = _REGISTERS_AHEAD if ragged and passes == 2 and itemsize > 2 else _SHARED_AHEAD
        if ragged and moments and beside == 1 and size > _BLOCK_BYTES:
            most = _CLUSTER_AHEAD
        threads, ahead = _SM_THREADS[1][1], most // beside if beside else 0
    if whole:
        threads = 3 * _WHOLE_LANES
    blocks = min(SHARED_BYTES // (taken + BESIDE + config.exchanged), threads // config.threads, _BLOCKS_OF_AN_SM)
    if not blocks:
        return replace(config, keep="memory")
    piecewise = beside and passes == 3 or once and (several or cluster > 2) and config.steps <= _FEW_ARRIVALS
    arrivals = config.steps if piecewise and cluster > 1 else 1
    return replace(
        config, keep="shared", blocks_per_sm=blocks, ahead=ahead, arrivals=arrivals, apart=apart,
        later=_LATER_BYTES if later else 0,
    )  # fmt: skip


def _lanes(size: int, each: int, written: bool, ragged: bool, twice: bool) -> int:
    """For rows of ``size`` bytes, of which a block has ``each``: a multiple of a warp, so that rows of no power of two
    leave few threads without a part of them. ``twice``: they wait for each other more than once."""
    fewest = ALONE if written or ragged else _READ_LANES
    for most, lanes in _LANES:
        if size <= most and (size < _LANES[-1][0] or fewest == ALONE):
            return lanes
    part = _LANE_BYTES
    if not written:
        if each > _LONG_PART:
            return _HELD_LANES if each <= _HELD_PART and not ragged else _of_several(each, _ENOUGH_BYTES)
        part = _ODD_READ_BYTES if ragged else _LANE_BYTES
    elif ragged and (twice or each > _LONG_PART):
        part = _READ_BYTES
    elif ragged:  # whose ends take registers, so that threads are few
        return max(each // (part * 32) * 32, ALONE)
    return min(max(nv.cdiv(each, part * 32) * 32, fewest), MOST_LANES)


def _held_lanes(cols: int, wide: int, lanes: int, few: bool) -> int:
    """Lanes for a row that begins anywhere and that registers hold: half as many where fewer elements of theirs are
    missing then, since what such a kernel executes bounds it. ``few``: also where as many are."""
    half = lanes // 2
    fewer = nv.cdiv(cols, wide * half) * half < nv.cdiv(cols, wide * lanes) * lanes
    return half if fewer or few else lanes


def _of_several(each: int, enough: int) -> int:
    """Lanes of a block that has ``each`` bytes of a row, where an SM has three blocks or more: as few as have enough on
    their way with registers for what is loaded ahead. While two wait, nothing comes."""
    for blocks in range(3, 9):
        lanes = _SM_THREADS[1][1] // (blocks * 32) * 32
        if each >= lanes * enough:
            break
    return lanes


def _sm_threads(
    config: RowsConfig, itemsize: int, arrays: int, passes: int, beside: int, written: bool
) -> tuple[int, int]:
    """Threads on an SM, where rows lie in shared memory, and the bytes of each row for all rows that a thread loads
    ahead. For that it needs the registers of one of 1024, which many blocks have to be, or have long rows. Blocks of a
    large cluster that wait for each other, or of one that does so twice, are better off with few registers."""
    elements = arrays * config.steps * config.wide
    if not written:
        return _SM_THREADS[1][1], 0
    threads = next((threads for most, threads in _SM_THREADS if elements <= most), 512)
    if config.ragged:  # the ends of rows take registers
        threads = min(threads, _SM_THREADS[1][1] if arrays == 1 else _SM_THREADS[1][1] * 3 // 4)
    if passes > 3:  # results are computed twice
        return (512 if arrays > 1 and elements > _SM_THREADS[0][0] else min(threads, _SM_THREADS[1][1])), 0
    if passes > 2 and config.cluster > (2 if itemsize < 4 else 1):
        return threads, 0
    few = elements <= _SM_THREADS[0][0] and config.lanes == MOST_LANES
    if not beside or few or arrays > 1 or config.lanes <= 32:
        return threads, 0
    whole = config.lanes <= SMALLEST_BLOCK or _SM_THREADS[1][1] % config.lanes == 0
    if passes > 2 and not whole and not config.ragged:  # blocks of so many threads would leave some of 1024 out
        return threads, 0
    ahead = _SHARED_AHEAD
    if config.ragged and (passes == 2 or config.steps > _FEW_STEPS):
        ahead = _REGISTERS_AHEAD if passes == 2 else _CLUSTER_AHEAD
    if passes > 2 and config.cluster > 1 and elements == _SM_THREADS[1][0]:  # what merges moments takes registers
        ahead = min(ahead, _CLUSTER_AHEAD)
    return _SM_THREADS[1][1], ahead // beside
