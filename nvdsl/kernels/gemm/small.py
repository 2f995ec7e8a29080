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
from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
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
PADDING = 8
"""Columns beside those of a tile in shared memory: rows lie in different banks."""
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
    rounds = nv.cdiv(k, SLICE * WARPS * (AHEAD if vectors else ALONE))
    return SPLIT if rounds > ROUNDS and at_once(problem.batches * tiles(m, n), sms(target)) else 1


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
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[batch, M, N] = a[batch, M, K] @ b[batch, N, K] transposed, of 8 or 16 bits, with any strides and sums of 32.
    An operand of one batch serves all. ``split``: blocks of a cluster, each with a part of K."""
    (batches, m, n), k = out.shape, a.shape[2]
    vectors = lie_at(EACH, a, b)
    each = nv.cdiv(nv.cdiv(k, SLICE), split)  # slices of a block
    bits = exponent(2 * each - 1, WARPS)  # of warps that share a tile
    scheduler = TileScheduler(m, n, ROWS, COLS, group=1, batches=batches)

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
        group, lane = nv.lane_id() // 4, nv.lane_id() % 4
        rows = [(batch_of(a, batch), nv.min(row + group + i, m - 1)) for i in range(0, ROWS, 8)]
        cols = [(batch_of(b, batch), nv.min(col + group + i, n - 1)) for i in range(0, COLS, N)]

        def multiplied_by(read: Any, ahead: int) -> list[Any]:
            """The sums of this warp's slices, so many of them read at a time."""
            sums = [acc_dtype(0)] * (COLS // N * 4)
            end = nv.min((rank + 1) * each, nv.cdiv(k, SLICE))
            places = [(a, at) for at in rows] + [(b, at) for at in cols]
            for first in nv.range(rank * each + part, end, ahead << bits, unroll=False):
                starts = [first + (i << bits) for i in range(ahead)]
                found = [read(places, start * SLICE, nv.select(start < end, k, 0), lane) for start in starts]
                for words in found:
                    sums = multiplied(words, sums, (a.dtype, b.dtype, acc_dtype))
            return sums

        if vectors:
            sums = multiplied_by(by_vectors, AHEAD)
        else:
            sums = multiplied_by(by_elements, ALONE)
        shared = nv.smem((WARPS * ROWS, COLS + PADDING), acc_dtype)
        for register, value in enumerate(sums):
            r, c = nv.layout.mma_c(ROWS, COLS)(nv.lane_id(), register)
            shared[nv.warp_id() * ROWS + r, c] = value
        nv.sync_threads()

        # The warps that share a tile add up and store it: of a cluster's blocks each some rows.
        threads, height = WARP_SIZE << bits, ROWS // split
        thread, top = nv.thread_id.x & (threads - 1), (team << bits) * ROWS
        if split > 1:
            for first in nv.range(thread, ROWS * COLS, threads * AT_ONCE, unroll=False):
                spots = [(x // COLS, x % COLS) for x in several(first, threads, ROWS * COLS)]
                for (r, c), value in zip(spots, added_up(shared, top, spots, nv.min(each, 1 << bits)), strict=True):
                    shared[top + r, c] = value
            nv.cluster_sync()
        for first in nv.range(thread, height * COLS, threads * AT_ONCE, unroll=False):
            numbers = several(first, threads, height * COLS)
            spots = [
                (nv.select(down, x % height, x // COLS) + rank * height, nv.select(down, x // height, x % COLS))
                for x in numbers
            ]
            if split > 1:
                given = [[shared.at(block)[top + r, c] for block in range(split)] for r, c in spots]
                totals = [sum(values[1:], values[0]) for values in given]
            else:
                totals = added_up(shared, top, spots, nv.min(each, 1 << bits))
            for i, ((r, c), total) in enumerate(zip(spots, totals, strict=True)):
                new = (tile < scheduler.count) & (first + i * threads < height * COLS)
                if new & (row + r < m) & (col + c < n):
                    value = total
                    if epilogue_op is not None:
                        value = epilogue_op(value, batch, row + r, col + c, *operands)
                    out[batch, row + r, col + c] = out.dtype(value)
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


def multiplied(words: list[list[Any]], sums: list[Any], dtypes: tuple[nv.DType, nv.DType, nv.DType]) -> list[Any]:
    """``sums`` and the product of a slice. ``dtypes``: of A, B and the sums."""
    new = list(sums)
    (upper, lower), right = words[:2], words[2:]
    a, b, acc = dtypes
    for step, j in itertools.product(range(0, len(upper), 2), range(COLS // N)):
        of_a, of_b = [upper[step], lower[step], upper[step + 1], lower[step + 1]], right[j][step : step + 2]
        new[4 * j : 4 * j + 4] = nv.mma_sync(
            of_a, of_b, new[4 * j : 4 * j + 4], k=STEP // a.bytes, a_dtype=a, b_dtype=b, d_dtype=acc
        )
    return new


def several(first: Any, step: Any, count: int) -> list[Any]:
    """The numbers that a thread has at a time: its first one instead of those beyond the last."""
    return [nv.select(first + i * step < count, first + i * step, first) for i in range(AT_ONCE)]


def added_up(shared: nv.Tile, top: Any, spots: list[tuple[Any, Any]], warps: Any) -> list[Any]:
    """The sums of what the warps that share a tile have at some places, in their order."""
    totals = [shared.dtype(0)] * len(spots)
    for i in nv.range(warps, unroll=False):
        totals = [total + shared[top + i * ROWS + r, c] for total, (r, c) in zip(totals, spots, strict=True)]
    return totals
