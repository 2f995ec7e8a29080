"""How threads share rows whose sums of columns they keep: chosen as for rows that are read once."""

from __future__ import annotations

import math
from dataclasses import replace

from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import (
    ALONE,
    BESIDE,
    COPY_BYTES,
    LINE,
    MOST_BLOCKS,
    MOST_LANES,
    SECTOR,
    SHARED_BYTES,
    SMALLEST_BLOCK,
    RowsConfig,
    fitted,
    framed_by,
    shared_by,
)

_SUMS_AHEAD = 32
"""Bytes of a row for all rows that a thread loads ahead which also keeps sums."""

_SUMS_BYTES = 64
"""Of a row, that a thread has which keeps two sums of each column, at most."""

_SUMS_THREADS = 512
"""On an SM then, of which each has 128 registers. A warp with a row of its own has 168 in each thread, and threads
with a half of the columns get along with 80."""

_MOST_SLOTS = 6

_CLUSTERS = 1, 2, 4, MOST_BLOCKS

_RAGGED = (
    (1, 64, 16), (1, 128, 16), (1, 96, 24), (1, 64, 48), (1, 128, 48), (1, 512, 16), (1, 256, 48),
    (2, 256, 40), (4, 256, 40), (6, 256, 40), (MOST_BLOCKS, 256, 40),
)  # fmt: skip
"""Blocks of a cluster, threads of each, and columns of a thread at most, for rows that begin anywhere. Their ends take
registers and instructions: few threads with many columns, or several blocks on an SM. Clusters of six are on more SMs
at the same time than those of eight, clusters of three on half as many as those of four."""

_RAGGED_TIGHT, _RAGGED_TIGHTER = 40, 32
"""Columns of a thread, at most, beside a wide weight or of three arrays, and of three arrays in a cluster."""

_WARPS = ((16, 16), (24, 12), (48, 8))
"""Of an SM then, by the columns of a thread: registers are given to four of them at once."""


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
    framed = alike and cols > widest * ALONE
    wide = widest if framed else grain
    shared = wide * (smallest or itemsize) >= COPY_BYTES
    most, threads = _SUMS_BYTES // itemsize if shared else _SUMS_BYTES // 4, _SUMS_THREADS
    half = most // 2
    alone = most if wide == widest else most * 3 // 4  # narrow accesses take registers, too: more were spilled
    if shared and cols <= alone * 32 and wide == grain:
        lanes, threads = next(lanes for lanes in (8, 16, 32) if cols <= alone * lanes), _SUMS_THREADS * 3 // 4
    else:
        extent = cols + wide - grain
        lanes = next((lanes for lanes in (8, 16, 32, 64, 128, 256) if extent <= half * lanes), MOST_LANES)
        lanes = max(lanes, ALONE) if framed else lanes
        threads = _SUMS_THREADS * 3 // 2 if shared and extent <= half * lanes else threads
    found: RowsConfig | None = None
    if shared and framed and wide > grain and itemsize == 2:
        found = _ragged(cols, RowsConfig(wide, 0, 0, 0, 0, grain=grain), arrays, multiple, beside)
    if found is not None:
        return found
    for cluster in _CLUSTERS:
        config = shared_by(cols, RowsConfig(wide, lanes, cluster, 0, 0, grain=grain))
        if framed and config.groups == 1:
            config = framed_by(cols, config, itemsize, multiple, LINE if wide == grain else _frame(cluster))
        config = fitted(cols, config) if lanes >= SMALLEST_BLOCK else config
        elements = config.steps * wide
        tight = config.ragged or config.frame > 0 and beside > itemsize
        if lanes >= SMALLEST_BLOCK and elements > (_tight_sums(config, half) if tight else most):
            continue
        if config.ragged:  # the ends of rows take registers, too
            threads = min(threads, _SUMS_THREADS)
        blocks = max(threads // config.threads, 1)
        found = replace(config, blocks_per_sm=blocks, ahead=_SUMS_AHEAD)
        if not shared:
            return found
        found = _with_ring(found, arrays * itemsize, itemsize, beside)
        if found.groups > 1 or found.slots > 2 and (found.weights or not beside):  # a cluster shares one row
            break
    return found or replace(config, keep="memory")


def _ragged(cols: int, config: RowsConfig, arrays: int, multiple: int, beside: int) -> RowsConfig | None:
    """For rows of 16 bits that begin anywhere; None where they are too long."""
    itemsize = ALIGNMENT // config.wide
    for cluster, lanes, most in _RAGGED:
        if beside > itemsize or arrays > 2:
            most = min(most, _RAGGED_TIGHT if cluster == 1 or arrays == 2 else _RAGGED_TIGHTER)
        tried = shared_by(cols, replace(config, lanes=lanes, cluster=cluster))
        tried = framed_by(cols, tried, itemsize, multiple, _frame(cluster))
        columns = tried.steps * tried.wide
        if columns > most or not tried.full:
            continue
        warps = next(warps for up_to, warps in _WARPS if columns <= up_to)
        tried = replace(tried, blocks_per_sm=max(warps * 32 // tried.threads, 1))
        tried = _with_ring(tried, arrays * itemsize, itemsize, beside)
        if tried.slots > 1:
            return tried
    return None


def _frame(cluster: int) -> int:
    """Bytes of the frame of rows that begin anywhere. As many blocks as there are placements of rows in it, or a
    multiple, work on them, and of large clusters there are few."""
    return SECTOR if cluster <= 2 else ALIGNMENT


def _tight_sums(config: RowsConfig, half: int) -> int:
    """Columns whose sums a thread keeps, where the ends of rows take registers, too, or a wide weight of theirs."""
    return half * 3 // 2 if config.lanes <= _SUMS_THREADS * 3 // 4 else half


def _with_ring(config: RowsConfig, each: int, itemsize: int, beside: int) -> RowsConfig:
    """With as many slots as shared memory has room for, and the weight where three of them leave room for it: or two,
    where no larger cluster could share the row. ``each``: bytes of the arrays' elements of a column."""
    slot = each * config.groups * config.part
    more = 4 * config.groups * config.width if config.groups > 1 else 0  # for sums
    exchanged = config.threads * config.cluster  # two numbers of each warp of the cluster, of four turns
    room = SHARED_BYTES // config.blocks_per_sm - BESIDE - exchanged - more
    fewest = 2 if config.cluster == MOST_BLOCKS else 3
    fits = room >= beside * config.part + fewest * slot
    weights = beside > 0 and (config.groups > 1 or config.ragged or fits)
    slots = (room - beside * config.part * weights) // slot
    ahead = 0 if weights or beside > itemsize else _SUMS_AHEAD
    return replace(config, keep="shared", slots=min(slots, _MOST_SLOTS), ahead=ahead, weights=weights)
