"""Small products of 8 and 16 bits, by mma.sync: what takes few microseconds is mostly the way to the first product.

So nothing is set up: no barriers, no tensor maps, no copies. A warp has a tile of the result. Its lanes read operands
of any strides from memory into registers, as mma.sync takes them, and multiply. Warps share K, and so do the blocks of
a cluster where K is long; their sums meet in shared memory.

    warp 0      slices 0, 8, 16 ... of K: read, multiply | sums to shared memory |
    warp 1      slices 1, 9, 17 ...                      |                       | each thread adds up and stores
    ...

Which element of K is which in a product does not matter, as long as A and B agree. Where K is contiguous in both and
rows are aligned, a lane takes eight neighbours; else neighbouring lanes take neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.gemv import batch_of, exponent
from nvdsl.kernels.gemm.launch import resident_clusters, sms
from nvdsl.kernels.gemm.problem import GemmProblem
from nvdsl.kernels.gemm.short import lie_at
from nvdsl.lang.packing import as_words, words_of

ROWS, COLS, WARPS = 16, 32, 8
"""Of a warp's tile; and warps of a block."""
SLICE, STEP, N = 32, 32, 8
"""Elements of K that a warp reads at a time; bytes of K, and columns, of one mma.sync."""
EACH = SLICE // 4
"""Elements along K of a lane: four lanes have those of a row."""
AHEAD, ALONE = 2, 1
"""Slices that a warp asks for before it multiplies one; and where elements are read one by one."""
PADDING = 3
"""Columns beside those of a tile in shared memory: neighbours of a row, and of a column, lie in different banks."""
AT_ONCE = 4
"""Elements of the result that a thread adds up at a time."""
ROUNDS, SPLIT = 2, 8
"""Times that a block's warps may read, one after the other, before a cluster shares the tile; and its blocks."""
RESIDENT = 2
"""Blocks of an SM."""


def takes(problem: GemmProblem) -> bool:
    """Whether mma.sync multiplies these types as they are, into sums of 32 bits."""
    return problem.a.dtype.bits <= 16 and problem.acc_dtype.bits == 32


def blocks_of_tile(problem: GemmProblem, vectors: bool, target: str | None) -> int:
    """Blocks that share a tile. ``vectors``: 16 bytes are read at a time."""
    m, n, k = problem.sizes
    return split(k, vectors, problem.batches * tiles(m, n), sms(target))


def split(k: int, vectors: bool, tiles: int, sms: int) -> int:
    """The same of one of so many tiles."""
    rounds = nv.cdiv(k, SLICE * WARPS * (AHEAD if vectors else ALONE))
    return SPLIT if rounds > ROUNDS and at_once(tiles, sms) else 1


def at_once(tiles: int, sms: int) -> bool:
    """Whether the clusters of so many tiles run at the same time. A second round takes as long as the first one:
    16 x 1384 x 1144 took 12.4 us in 44 clusters, and 9.3 by tensor cores."""
    return tiles <= RESIDENT * resident_clusters(SPLIT, sms)


def tiles(m: int, n: int) -> int:
    """Of an m x n result."""
    return nv.cdiv(m, ROWS) * nv.cdiv(n, COLS)


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    split: int,
    sms: int | None = None,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[batch, M, N] = a[batch, M, K] @ b[batch, N, K] transposed, of 8 or 16 bits, with any strides and sums of 32.
    An operand of one batch serves all. ``split``: blocks of a cluster, each with a part of K; ``sms``: as `launch`."""
    (_, m, n), k = out.shape, a.shape[2]
    vectors, dtypes = lie_at(EACH, a, b), (a.dtype, b.dtype, acc_dtype)

    def summed(part: Part) -> list[Any]:
        rows = [(batch_of(a, part.batch), nv.min(row, m - 1)) for row in part.rows]
        cols = [(batch_of(b, part.batch), nv.min(col, n - 1)) for col in part.cols]
        places = [(a, at) for at in rows] + [(b, at) for at in cols]

        def read(by: Any) -> Any:
            return lambda x: by(places, x * SLICE, nv.select(x < part.end, k, 0), part.lane)

        if vectors:
            sums = part.multiplied(read(by_vectors), AHEAD, dtypes)
        else:
            sums = part.multiplied(read(by_elements), ALONE, dtypes)
        return sums

    launch(summed, out, operands, nv.cdiv(k, SLICE), split, acc_dtype, epilogue_op, sms=sms)


@dataclass(frozen=True)
class Part:
    """What a warp computes: the sums of a tile over the slices ``begin``, ``begin + step``, ... before ``end``.
    ``rows``, ``cols``: of the result, those that this lane reads, which may lie beyond its edge; ``lane``: of the four
    that share a row."""

    batch: Any
    rows: list[Any]
    cols: list[Any]
    lane: Any
    begin: Any
    end: Any
    step: Any

    def multiplied(self, read: Callable[[Any], list[list[Any]]], ahead: int, dtypes: Dtypes) -> list[Any]:
        """The sums of all slices, so many of them read at a time. ``read``: the registers of one, zeros where it is
        ``end`` or beyond."""
        sums = [dtypes[2](0)] * (len(self.rows) * len(self.cols) * 2)
        for first in nv.range(self.begin, self.end, self.step * ahead, unroll=False):
            for words in [read(first + i * self.step) for i in range(ahead)]:
                sums = multiplied(words, sums, dtypes, len(self.rows))
        return sums


def launch(
    summed: Callable[[Part], list[Any]], out: nv.Array, operands: Sequence[Any], slices: Any, split: int,
    acc_dtype: nv.DType, epilogue_op: EpilogueOp | None, *, shape: tuple[int, int] = (ROWS, COLS), apart: Any = 1,
    sms: int | None = None,
) -> None:  # fmt: skip
    """Launch a kernel that stores ``out``, (batch, M, N). In a host function. ``summed``: the sums of a warp;
    ``slices``: of K; ``shape``: a tile's; ``apart``: how many rows a tile's rows lie apart. ``sms``: of whose warps no
    more share a tile than there are for each; None: as many as have slices."""
    (batches, m, n), (height, width) = out.shape, shape
    each = nv.cdiv(slices, split)  # slices of a block
    bits = exponent(2 * each - 1, WARPS)  # of warps that share a tile
    alone = isinstance(apart, int) and apart == 1
    of_rows, rows_of_tiles = Divisor.of(apart), m if alone else nv.cdiv(m, height * apart) * apart * height
    scheduler = TileScheduler(rows_of_tiles, n, height, width, group=1, batches=batches)
    if sms is not None:
        bits = nv.min(bits, exponent(sms * RESIDENT * WARPS // (scheduler.count * split), WARPS))

    down = out.strides[1] == 1  # neighbours in memory are those of a column

    @nv.kernel(
        grid=nv.cdiv(scheduler.count, WARPS >> bits) * split, block=WARPS * WARP_SIZE, cluster=split,
        blocks_per_sm=RESIDENT, programmatic=True,
    )  # fmt: skip
    def kernel() -> None:
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        rank = nv.cluster_rank() if split > 1 else 0
        team, part = nv.warp_id() >> bits, nv.warp_id() & ((1 << bits) - 1)
        tile = nv.block_id.x // split * (WARPS >> bits) + team
        batch, row, col = scheduler.start(nv.min(tile, scheduler.count - 1))
        if not alone:
            band, within = of_rows.divmod(row // height)
            row = band * (height * apart) + within
        group, lane = nv.lane_id() // 4, nv.lane_id() % 4
        rows = [row + (group + i) * apart for i in range(0, height, 8)]
        cols = [col + group + i for i in range(0, width, N)]
        end = nv.min((rank + 1) * each, slices)
        sums = summed(Part(batch, rows, cols, lane, rank * each + part, end, 1 << bits))
        shared = nv.smem((WARPS * height, width + PADDING), acc_dtype)
        for register, value in enumerate(sums):
            r, c = nv.layout.mma_c(height, width)(nv.lane_id(), register)
            shared[nv.warp_id() * height + r, c] = value
        nv.sync_threads()

        # The warps that share a tile add up and store it: of a cluster's blocks each some rows.
        threads, lines = WARP_SIZE << bits, height // split
        thread, top = nv.thread_id.x & (threads - 1), (team << bits) * height
        if split > 1:
            for first in nv.range(thread, height * width, threads * AT_ONCE, unroll=False):
                spots = [(x // width, x % width) for x in several(first, threads, height * width)]
                totals = added_up(shared, top, spots, nv.min(each, 1 << bits), height)
                for (r, c), value in zip(spots, totals, strict=True):
                    shared[top + r, c] = value
            nv.cluster_sync()
        for first in nv.range(thread, lines * width, threads * AT_ONCE, unroll=False):
            numbers = several(first, threads, lines * width)
            spots = [
                (nv.select(down, x % lines, x // width) + rank * lines, nv.select(down, x // lines, x % width))
                for x in numbers
            ]
            if split > 1:
                given = [[shared.at(block)[top + r, c] for block in range(split)] for r, c in spots]
                totals = [sum(values[1:], values[0]) for values in given]
            else:
                totals = added_up(shared, top, spots, nv.min(each, 1 << bits), height)
            for i, ((r, c), total) in enumerate(zip(spots, totals, strict=True)):
                new = (tile < scheduler.count) & (first + i * threads < lines * width)
                if new & (row + r * apart < m) & (col + c < n):
                    value = total
                    if epilogue_op is not None:
                        value = epilogue_op(value, batch, row + r * apart, col + c, *operands)
                    out[batch, row + r * apart, col + c] = out.dtype(value)
        if split > 1:
            nv.cluster_sync()  # a block stays while others read its sums

    kernel()


Places = list[tuple[nv.Array, tuple[Any, Any]]]
"""Arrays, and the rows of them that a lane reads: two of A, four of B."""


def by_vectors(places: Places, first: Any, end: Any, lane: Any) -> list[list[Any]]:
    """A lane's elements of a slice of rows, as registers of two: eight neighbours. Zeros from ``end`` on. ``lane``: of
    the four that have a row."""
    k = first + lane * EACH
    loaded = [x.vector((*at, nv.min(k, x.shape[2] - EACH)), EACH) for x, at in places]
    return [[nv.select(k < end, word, nv.i32(0)) for word in as_words([each], each.dtype)] for each in loaded]


def by_elements(places: Places, first: Any, end: Any, lane: Any) -> list[list[Any]]:
    """The same: every fourth element. Those that no lane has are not asked for."""
    dtype = places[0][0].dtype if places[0][0].dtype.bits == 16 else nv.i8  # nothing else is done with floats of 8 bits
    found: list[list[Any]] = [[] for _ in places]
    for i in range(0, SLICE, 4):
        values = [dtype(0)] * len(places)
        if first + i < end:
            values = [nv.bitcast(x[(*at, nv.min(first + i + lane, x.shape[2] - 1))], dtype) for x, at in places]
        for row, value in zip(found, values, strict=True):
            row.append(value)
    exist = [first + i + lane < end for i in range(0, SLICE, 4)]
    return [words_of([nv.select(x, y, dtype(0)) for x, y in zip(exist, row, strict=True)], dtype) for row in found]


Dtypes = tuple[nv.DType, nv.DType, nv.DType]
"""Of A, B and the sums."""


def multiplied(words: list[list[Any]], sums: list[Any], dtypes: Dtypes, rows: int) -> list[Any]:
    """``sums`` and the product of a slice, of so many rows of A, which come first."""
    new, cols = list(sums), len(words) - rows
    a, b, acc = dtypes
    for top, step, j in itertools.product(range(0, rows, 2), range(0, len(words[0]), 2), range(cols)):
        (upper, lower), right, at = words[top : top + 2], words[rows + j], (top // 2 * cols + j) * 4
        of_a, of_b = [upper[step], lower[step], upper[step + 1], lower[step + 1]], right[step : step + 2]
        new[at : at + 4] = nv.mma_sync(
            of_a, of_b, new[at : at + 4], k=STEP // a.bytes, a_dtype=a, b_dtype=b, d_dtype=acc
        )
    return new


def several(first: Any, step: Any, count: int) -> list[Any]:
    """The numbers that a thread has at a time: its first one instead of those beyond the last."""
    return [nv.select(first + i * step < count, first + i * step, first) for i in range(AT_ONCE)]


def added_up(shared: nv.Tile, top: Any, spots: list[tuple[Any, Any]], warps: Any, height: int) -> list[Any]:
    """The sums of what the warps that share a tile of so many rows have at some places, in their order."""
    totals = [shared.dtype(0)] * len(spots)
    for i in nv.range(warps, unroll=False):
        totals = [total + shared[top + i * height + r, c] for total, (r, c) in zip(totals, spots, strict=True)]
    return totals
