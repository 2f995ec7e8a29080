"""The time of a product by a configuration, in clocks of an SM, from first principles and few fitted constants.

A GEMM takes as long as its fullest SM, which computes rounds of tiles, a slice of K (128 bytes) at a time:

    slice   = the longest of  multiplying: tile / 32, or what wgmma reads of shared memory;
                              loading: what the SM gets from L2, and all SMs together;  waiting: LATENCY / stages
    rounds  = ceil(tiles / blocks that run at once)        (stream-K, split-K: the tiles are cut along K)
    compute = rounds * slices * slice + all epilogues but the last      (ping-pong hides these)
    memory  = (bytes of A, B and the result + FLUSHED) / MEMORY
    cycles  = START + the longer of compute and memory + the last epilogue + sums that other blocks add

"The longest" is a p-norm: what takes nearly as long disturbs, too. The constants were fitted to times on an H200
(`benchmarks/fit_model.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.launch import blocks_of_an_sm, resident_clusters
from nvdsl.kernels.gemm.rolling import LEAST as LEAST_SLICES
from nvdsl.kernels.gemm.splitk_parts import GROUPS
from nvdsl.kernels.gemm.splitk_parts import LEAST as LEAST_PART
from nvdsl.kernels.gemm.streamk_scheduler import LEAST as LEAST_PIECE
from nvdsl.kernels.gemm.streamk_scheduler import UNEVEN, WORTH
from nvdsl.kernels.gemm.tiles import slots

LOAD, REQUEST = 91.4, 402.0
"""Bytes that an SM gets in a clock, and that it asks L2 for: blocks of a cluster ask once for what they share."""
OFF_GRID, OFF_SECTOR = 6.61, 11.9
"""How much more L2 is asked for where rows don't start at multiples of 128 bytes, so that a box's row lies in two
lines; and where they don't start at multiples of 32, so that it also lies in five sectors."""
DELIVER, PANELS = 90.7, 1.39
LINES_OFF_GRID, LINES_OFF_SECTOR = 1.2, 1.16
"""Bytes for each SM that all SMs together get in a clock, whoever has asked for them, so that those of few SMs come
faster; how many more these are where M or N is contiguous, divided by the blocks that share them; and where rows lie in
two lines."""
APART = 1.03
"""How much longer a slice takes where consumers divide columns: each reads all rows of A."""
RAGGED, TURNED = 1.034, 1.53
"""How much longer a slice takes where columns of a tile of an N-major B end within a panel; how much more L2 is asked
for a tile with M or N contiguous that several blocks share."""
LATENCY = 2430.0
"""Clocks from asking for a slice to having it, while all SMs ask."""
CALM = 0.638
"""What part of waiting for L2 an SM is spared where all others are idle."""
READ = 300.0
"""Clocks in which a consumer reads 64 rows of a slice of a turned A of 32 bits into registers, before it multiplies."""
LEAST = 165.0
"""Clocks of a slice at least: a consumer waits for it, multiplies it, and gives its slot back."""
NORM = 8.28
"""p of multiplying, loading and waiting."""
TAIL, DRAIN = 265.0, 0.0262
"""Clocks of an epilogue, and of each element of 16 bits that one warpgroup stores."""
WIDE = 0.62
"""What part of an epilogue it takes where 64 rows are stored at once, and other products follow."""
ROLLED, LONG = 0.5, 3.0
"""How much of such an epilogue is hidden, of a slice's products; and how much longer an element takes whose epilogue
computes an exponential or tanh. Of others rolling hides little, as their pieces wait for each other."""
WRITTEN = 9000.0
"""Bytes of their tiles that all SMs together write in a clock, when they end at the same time."""
CUT = 5.81
"""How much longer it takes to store tiles whose rows begin or end within a sector of 32 bytes."""
FIXUP = 14640.0
"""Clocks in which stream-K hands the sums of a piece to the block that owns the tile."""
EXCHANGE, EXCHANGED = 164.0, 0.402
"""Clocks of split-K's reduction in a cluster, and of each element of a tile."""
PARTED, GIVEN = 1150.0, 0.0636
"""Clocks of handing over sums from cluster to cluster, once and each time that their number doubles, and of each
element that a block adds."""
ADDED, SUMMED = 3760.0, 3100.0
"""Clocks of the kernel that adds up sums in memory, and bytes of these that are written and read in a clock."""
START = 742.0
"""Clocks before the first slice."""
TOGETHER, COUPLED = 155.0, 1.01
"""Clocks more for a cluster's blocks to meet, and how much longer slices take in one."""
HANGING, HANGING_MORE = 0.469, 0.172
"""How much longer slices take in pairs of blocks, and in clusters of four and eight, times the part of their tiles that
lies beyond the result: what a block loads for another one it loads whole, and boxes beyond the edge take longer."""
EMPTY = 0.132
"""The same, times the part of a cluster's blocks that have nothing of the result."""
SPLIT = 1.06
"""How much longer slices take with split-K, whose warpgroups share out no registers."""
MEMORY, FLUSHED = 1760.0, 19.8e6
"""Bytes of memory in a clock; bytes that L2 writes back meanwhile."""
OVERLAP = 1.45
"""p of computing and of memory."""
POWER, USUAL, LASTING = 3.0, 0.0128, 120e3
"""Power lowers the clock as more comes into an SM: how much longer a product takes for each line of 128 bytes that an
element of a tile needs for a slice, beyond the usual number; and after how many clocks half of that shows."""


@dataclass(frozen=True)
class Shape:
    """What the choice depends on: ``batches`` products (m, k) @ (k, n), their types, which axis of A and B is
    contiguous ("k" or "mn"), and how many bytes the rows of A and B start at multiples of, see `grid` (None: as packed
    ones do).
    ``unaligned``: TMA can't store the result. ``epilogue``: something is done with each sum; ``turns``: as well where
    the result's transpose is computed; ``slight``: which takes few registers then;
    ``long``: which computes more than a few instructions.
    """

    m: int
    n: int
    k: int
    dtype: nv.DType = nv.f16
    out: nv.DType = nv.f16
    acc: nv.DType = nv.f32
    batches: int = 1
    a_major: str = "k"
    b_major: str = "mn"
    grids: tuple[int, int] | None = None
    unaligned: bool = False
    epilogue: bool = False
    turns: bool = True
    slight: bool = False
    long: bool = False


def grid(pitch: Any) -> Any:
    """The largest of 128, 64, 32 ... bytes that rows so many bytes apart start at multiples of."""
    return np.gcd(pitch, 128)


class Columns:
    """The numbers of many configurations side by side, as columns: what `cycles` computes with."""

    tile_m: np.ndarray
    tile_n: np.ndarray
    cluster_m: np.ndarray
    cluster_n: np.ndarray
    split: np.ndarray
    parts: np.ndarray
    consumers: np.ndarray
    rows: np.ndarray
    cols: np.ndarray

    def __init__(self, configs: Sequence[Config], dtype: nv.DType, a_major: str, b_major: str, sms: int) -> None:
        def column(of: Any, kind: Any = np.int64) -> Any:
            return np.array([[of(config)] for config in configs], kind)

        for name in ("tile_m", "tile_n", "cluster_m", "cluster_n", "split", "parts", "consumers", "rows", "cols"):
            setattr(self, name, column(lambda config: getattr(config, name)))  # noqa: B023
        majors = a_major, b_major
        self.swap = column(lambda c: c.swap_ab, bool)
        self.splitk, self.streamk, self.pingpong = (
            column(lambda c: c.schedule == schedule, bool) for schedule in ("splitk", "streamk", "pingpong")  # noqa: B023
        )
        self.in_memory = column(lambda c: c.schedule != "splitk" and c.parts > 1, bool)
        self.hidden = self.streamk | self.pingpong
        most = lambda c: slots(c, dtype, b_major=majors[not c.swap_ab])  # noqa: E731
        self.wide = column(lambda c: c.stores_wide(dtype, nv.f16, majors[not c.swap_ab]), bool)
        self.rolls = column(lambda c: c.rolls, bool)
        self.ring = column(lambda c: c.stages if c.schedule == "splitk" else most(c))
        self.together = column(lambda c: blocks_of_an_sm(c, dtype, majors[not c.swap_ab]))
        self.clusters = column(lambda c: resident_clusters(c.cluster * c.split, sms))


@functools.lru_cache(maxsize=64)
def columns(configs: tuple[Config, ...], dtype: nv.DType, a_major: str, b_major: str, sms: int) -> Columns:
    return Columns(configs, dtype, a_major, b_major, sms)


def cycles(config: Config, shape: Shape, sms: int = arch.SMS) -> Any:
    """The model's time of one configuration."""
    return float(times((config,), shape, sms)[0, 0])


def times(configs: tuple[Config, ...], shape: Shape, sms: int = arch.SMS, rows: Any = None) -> Any:
    """The model's times of each configuration (down), for each of ``rows`` in place of ``shape.m`` (right)."""
    c = columns(configs, shape.dtype, shape.a_major, shape.b_major, sms)
    given = np.asarray([shape.m] if rows is None else rows, np.int64)[None, :]
    m, n = np.where(c.swap, shape.n, given), np.where(c.swap, given, shape.n)
    size = shape.dtype.bytes
    tiles = shape.batches * _cdiv(m, c.tile_m * c.cluster_m) * _cdiv(n, c.tile_n * c.cluster_n)
    at_once = c.together * c.clusters
    slices = nv.cdiv(shape.k * size, 128)
    parts = np.minimum(at_once // np.maximum(tiles, 1), slices // (c.split * LEAST_PART))
    parts = np.maximum(np.minimum(parts, c.parts), 1)
    steps, units = _cdiv(slices, c.split * parts), tiles * parts
    steps = np.where(c.rolls, np.maximum(steps, LEAST_SLICES), steps)
    rounds = _cdiv(units, at_once)
    sharing = np.minimum(c.together, _cdiv(np.minimum(units, at_once) * c.split, sms))  # blocks of the fullest SM
    count, handed = rounds * steps, np.zeros(())
    if c.streamk.any():
        cut, moved = _cut(tiles, slices, sms)
        count, handed = np.where(c.streamk, cut, count), np.where(c.streamk, moved, 0.0)
    area = c.tile_m * c.tile_n
    if c.splitk.any():
        given_over = np.where(parts > 1, PARTED * np.log2(2 * parts) + GIVEN * _added(parts) * area / c.split, 0.0)
        exchanged = np.where(c.split > 1, EXCHANGE + EXCHANGED * area * (c.split - 1) / c.split, 0.0)
        handed = np.where(c.splitk, rounds * (exchanged + given_over), handed)
    turned = np.where(c.swap, shape.b_major != "k", shape.a_major != "k") & (size == 4)
    multiplying = sharing * (_multiplying(c) + np.where(turned, READ * c.rows // 64, 0.0))
    loading, asked, delivered, ragged = _loading(c, shape, m, n, sharing)
    blocks = np.minimum(units, at_once) * c.split * c.cluster_m * c.cluster_n
    busy = np.where(c.streamk, 1.0, np.minimum(blocks / sms, 1.0))  # of the SMs
    crowd = 1 - CALM * (1 - busy)
    waiting = LATENCY / c.ring * crowd
    slice = ragged * _norm(NORM, multiplying, loading, asked * crowd, delivered * busy, waiting, LEAST * sharing)
    slice = slice * np.where(c.cols < c.tile_n, APART, 1.0) * np.where(c.splitk, SPLIT, 1.0)
    cluster, whole = c.cluster_m * c.cluster_n, tiles / shape.batches * c.cluster_m * c.cluster_n
    beyond = 1 - m * n / (whole * c.tile_m * c.tile_n)
    empty = 1 - _cdiv(m, c.tile_m) * _cdiv(n, c.tile_n) / whole
    hanging = np.where(cluster == 2, HANGING, np.where(cluster > 2, HANGING_MORE, 0.0))
    slice = slice * (1 + hanging * beyond) * (1 + EMPTY * empty) * np.where(cluster > 1, COUPLED, 1.0)
    along_n = np.where(c.swap, c.tile_m, c.tile_n)
    cut = np.gcd(along_n, shape.n) * shape.out.bytes % 32 != 0
    stored = np.where(c.in_memory, 4, shape.out.bytes)
    epilogue = TAIL + DRAIN * c.rows * c.cols * stored / 2 * np.where(cut, CUT, 1.0)
    epilogue = epilogue + blocks * area / c.split * stored / WRITTEN
    epilogues = np.where(c.hidden, 1, rounds)
    meeting = np.where(cluster > 1, TOGETHER, 0.0)
    operands = (given + shape.n) * shape.k * size
    moved = shape.batches * (operands + given * shape.n * shape.out.bytes)
    added = np.where(c.in_memory, ADDED + 8 * parts * given * shape.n / SUMMED, 0.0)
    if shape.batches > 1:
        added = np.where(c.in_memory, np.inf, 0.0)  # a batch has no parts
    # With fewer tiles than SMs all blocks wait for each other's sums: never the fastest of 14 products that were timed,
    # and up to 1.7 times as long.
    added = np.where(c.streamk & (tiles < sms), np.inf, added)
    wide = c.wide & (shape.out.bits == 16 and not shape.unaligned)
    more = LONG * DRAIN * c.rows * c.cols if shape.long else 0.0
    inner = np.where(wide, np.maximum(WIDE * epilogue + more - ROLLED * multiplying, 0.0), epilogue)
    compute = count * slice + (epilogues - 1) * inner
    beside = START + meeting + epilogue + handed + added
    total = _norm(OVERLAP, compute, (moved + FLUSHED) / MEMORY) + beside
    busy = np.minimum(shape.batches * m * n * slices / (32 * sms * total), 1.0)
    return total * (1 + POWER * ((c.tile_m + c.tile_n) / area - USUAL) * busy / (1 + LASTING / total))


def _multiplying(c: Columns) -> Any:
    """Clocks of a slice of a tile: 128 bytes of K are four wgmmas for each 64 rows. One of N columns takes N / 2
    clocks, and as long as it takes to read 64 rows and N columns of 32 bytes, 128 in a clock."""
    groups = c.rows // 64 * np.where(c.hidden, 1, c.consumers)
    return 4 * groups * np.maximum(c.cols / 2, (64 + c.cols) / 4)


def _loading(c: Columns, shape: Shape, m: Any, n: Any, sharing: Any) -> tuple[Any, Any, Any, Any]:
    """Clocks in which an SM gets a slice of both operands for each of its blocks, in which L2 is asked for them,
    and in which it would deliver them to all SMs; and how much longer than all of that a slice takes."""
    panel = 128 // shape.dtype.bytes
    loaded: Any = 0.0
    asked: Any = 0.0
    delivered: Any = 0.0
    ragged: Any = 1.0
    for which, tile, extent, sharers in ((0, c.tile_m, m, c.cluster_n), (1, c.tile_n, n, c.cluster_m)):
        operand = np.where(c.swap, 1 - which, which)
        by_k = np.where(operand == 0, shape.a_major == "k", shape.b_major == "k")
        # Of a K-major operand the rows that exist; else whole panels of 128 bytes (`TmaOperand`).
        rows = np.where(by_k, np.minimum(tile, _cdiv(extent, 8) * 8), _cdiv(tile, panel) * panel)
        pitch = np.where(by_k, shape.k, extent) * shape.dtype.bytes
        start = grid(pitch) if shape.grids is None else np.where(operand == 0, *shape.grids)
        start = np.where(by_k, start, np.gcd(start, tile * shape.dtype.bytes))  # of a panel in its row
        more = np.where(start == 128, 1.0, np.where(start < 32, OFF_SECTOR, OFF_GRID))
        lines = np.where(start == 128, 1.0, np.where(start < 32, LINES_OFF_SECTOR, LINES_OFF_GRID))
        delivered = delivered + 128 * rows * lines * np.where(by_k, 1.0, 1 + (PANELS - 1) / sharers)
        more = more * np.where(~by_k & (sharers > 1), TURNED, 1.0)
        if which == 1:
            ragged = np.where(~by_k & (tile % panel != 0), RAGGED, 1.0)
        loaded = loaded + 128 * rows
        asked = asked + 128 * rows / sharers * more
    return sharing * loaded / LOAD, sharing * asked / REQUEST, sharing * delivered / DELIVER, ragged


def _cut(tiles: Any, steps: int, sms: int) -> tuple[Any, Any]:
    """Slices of a stream-K block, and clocks of its handing over: about as `StreamKScheduler` cuts."""
    whole = tiles // sms
    cut = tiles - whole * sms
    line = cut * steps
    pieces = np.maximum(np.maximum(cut, np.minimum(sms, line // LEAST_PIECE)), 1)
    longest = _cdiv(line, pieces) + steps // UNEVEN
    saves = (longest * WORTH <= steps * (WORTH - 1)) & (cut < pieces)
    longest = np.where(saves, longest, np.where(cut > 0, steps, 0))
    handed = np.where(saves, FIXUP * (_cdiv(pieces, np.maximum(cut, 1)) - 1), 0.0)
    return whole * steps + longest, handed


def _added(parts: Any) -> Any:
    """Sums that split-K adds one after the other: of a group's parts, then of groups (`splitk_parts`)."""
    group = np.select([parts <= most for most, _ in GROUPS], [1 << bits for _, bits in GROUPS])
    return np.minimum(parts, group) + _cdiv(parts, group) - 2


def _cdiv(a: Any, b: Any) -> Any:
    return -(-a // b)


def _norm(p: float, *values: Any) -> Any:
    return sum(value**p for value in values) ** (1 / p)
