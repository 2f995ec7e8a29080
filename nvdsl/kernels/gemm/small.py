"""Small products of 16-bit types, by mma.sync: what takes few microseconds is mostly the way to the first product.

So nothing is set up: no barriers, no tensor maps, no copies. A warp has a tile of the result. Its lanes read operands
of any strides from memory into registers, as mma.sync takes them, and multiply. Warps share K, and so do the blocks of
a cluster where K is long; their sums meet in shared memory.

    warp 0      slices 0, 8, 16 ... of K: read, multiply | sums to shared memory |
    warp 1      slices 1, 9, 17 ...                      |                       | each thread adds up and stores
    ...

Which element of K is which in a product does not matter, as long as A and B agree. Where K is contiguous in both and
rows are aligned, a lane takes eight neighbours, 16 bytes; else neighbouring lanes take neighbours.
"""

from __future__ import annotations

import itertools
from typing import Any

import nvdsl as nv
from nvdsl import sim
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.gemv import batch_of, exponent, wide
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.problem import GemmProblem
from nvdsl.lang.packing import as_words, words_of

ROWS, COLS, WARPS = 16, 32, 8
"""Of a warp's tile; and warps of a block."""
SLICE, STEP, N = 32, 16, 8
"""Elements of K that a warp reads at a time, and of K and columns of one mma.sync."""
EACH = SLICE // 4
"""Elements along K of a lane: four lanes have those of a row."""
AHEAD, ALONE = 2, 1
"""Slices that a warp asks for before it multiplies one; and where elements are read one by one."""
PADDING = 8
"""Columns beside those of a tile in shared memory: rows lie in different banks."""


DEEP, SPLIT = 64, 8
"""Slices of K from which on a cluster shares a tile, and its blocks."""
MOST, SIMULATED = 32, 1
"""Slices of tiles that an SM may have. More take as long as it takes to set up another kernel, which reads faster. The
simulator executes each thread's instructions, and multiplies the tiles of wgmma at once."""


def pays(problem: GemmProblem, target: str | None) -> bool:
    """Whether a product is small."""
    most = SIMULATED if sim.wanted(target) else MOST
    return problem.a.dtype.bits == 16 and problem.acc_dtype == nv.f32 and work(problem, sms(target)) <= most


def work(problem: GemmProblem, count: int) -> float:
    """Slices of tiles that each of ``count`` SMs has."""
    m, n, k = problem.sizes
    return problem.batches * min(tiles(m, n), tiles(n, m)) * nv.cdiv(k, SLICE) / count


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
    """out[batch, M, N] = a[batch, M, K] @ b[batch, N, K] transposed, of f16 or bf16, with any strides and sums in f32.
    An operand of one batch serves all. ``split``: blocks of a cluster, each with a part of K."""
    (batches, m, n), k = out.shape, a.shape[2]
    vectors = wide(a) == wide(b) == EACH
    nv.require_multiples(K=(k, EACH if vectors else 1))
    each = nv.cdiv(nv.cdiv(k, SLICE), split)  # slices of a block
    ahead = AHEAD if vectors else ALONE
    bits = exponent(2 * each - 1, WARPS)  # of warps that share a tile
    places = TileScheduler(m, n, ROWS, COLS, group=1, batches=batches)

    down = out.strides[1] == 1  # neighbours in memory are those of a column

    @nv.kernel(
        grid=nv.cdiv(places.count, WARPS >> bits) * split, block=WARPS * WARP_SIZE, cluster=split, blocks_per_sm=2,
        programmatic=True,
    )  # fmt: skip
    def kernel() -> None:
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        rank = nv.cluster_rank() if split > 1 else 0
        team, part = nv.warp_id() >> bits, nv.warp_id() & ((1 << bits) - 1)
        tile = nv.block_id.x // split * (WARPS >> bits) + team
        batch, row, col = places.start(nv.min(tile, places.count - 1))
        group, lane = nv.lane_id() // 4, nv.lane_id() % 4
        rows = [(batch_of(a, batch), nv.min(row + group + i, m - 1)) for i in range(0, ROWS, 8)]
        cols = [(batch_of(b, batch), nv.min(col + group + i, n - 1)) for i in range(0, COLS, N)]

        sums = [nv.f32(0)] * (COLS // N * 4)
        end = nv.min((rank + 1) * each, nv.cdiv(k, SLICE))
        for first in nv.range(rank * each + part, end, ahead << bits, unroll=False):
            starts = [first + (i << bits) for i in range(ahead)]
            ends = [nv.select(start < end, k, 0) for start in starts]
            slices = list(zip(starts, ends, strict=True))
            of_a = [[words(a, at, x * SLICE, y, lane, vectors) for at in rows] for x, y in slices]
            of_b = [[words(b, at, x * SLICE, y, lane, vectors) for at in cols] for x, y in slices]
            for left, right in zip(of_a, of_b, strict=True):
                sums = multiplied(left, right, sums, a.dtype)

        shared = nv.smem((WARPS * ROWS, COLS + PADDING), nv.f32)
        for register, value in enumerate(sums):
            r, c = nv.layout.mma_c(ROWS, COLS)(nv.lane_id(), register)
            shared[nv.warp_id() * ROWS + r, c] = value
        nv.sync_threads()

        # The warps that share a tile add up and store it: of a cluster's blocks each some rows.
        threads = WARP_SIZE << bits
        thread, top = nv.thread_id.x & (threads - 1), (team << bits) * ROWS
        if split > 1:
            for number in nv.range(thread, ROWS * COLS, threads, unroll=False):
                r, c = top + number // COLS, number % COLS
                shared[r, c] = added_up(shared, r, c, bits)
            nv.cluster_sync()
        height = ROWS // split
        for number in nv.range(thread, height * COLS, threads, unroll=False):
            r = nv.select(down, number % height, number // COLS) + rank * height
            c = nv.select(down, number // height, number % COLS)
            total = nv.f32(0)
            if split > 1:
                for block in range(split):
                    total += shared.at(block)[top + r, c]
            else:
                total = added_up(shared, top + r, c, bits)
            if (tile < places.count) & (row + r < m) & (col + c < n):
                value = acc_dtype(total)
                if epilogue_op is not None:
                    value = epilogue_op(value, batch, row + r, col + c, *operands)
                out[batch, row + r, col + c] = out.dtype(value)
        if split > 1:
            nv.cluster_sync()  # a block stays while others read its sums

    kernel()


def words(x: nv.Array, at: tuple[Any, Any], first: Any, end: Any, lane: Any, vectors: bool) -> list[Any]:
    """A lane's elements of a slice of a row, as registers of two; zeros from ``end`` on. ``lane``: of four that have
    the row; ``vectors``: whether it takes neighbours, by one access."""
    last = x.shape[2]
    if vectors:
        k = first + lane * EACH
        found = as_words([x.vector((*at, nv.min(k, last - EACH)), EACH)], x.dtype)
        return [nv.select(k < end, word, nv.i32(0)) for word in found]
    places = [first + lane + 4 * i for i in range(EACH)]
    loaded = [x[(*at, nv.min(k, last - 1))] for k in places]
    return words_of([nv.select(k < end, value, x.dtype(0)) for k, value in zip(places, loaded, strict=True)], x.dtype)


def multiplied(a: list[list[Any]], b: list[list[Any]], sums: list[Any], dtype: nv.DType) -> list[Any]:
    """``sums`` and the product of a slice: of two rows of A and four columns of B that a lane has."""
    new = list(sums)
    for step, j in itertools.product(range(SLICE // STEP), range(COLS // N)):
        pair = slice(2 * step, 2 * step + 2)
        (low, high), right = zip(*(x[pair] for x in a), strict=True), b[j][pair]
        of_a = [low[0], low[1], high[0], high[1]]
        new[4 * j : 4 * j + 4] = nv.mma_sync(of_a, right, new[4 * j : 4 * j + 4], k=STEP, a_dtype=dtype)
    return new


def added_up(shared: nv.Tile, row: Any, col: Any, bits: Any) -> Any:
    """The sum of what the warps that share a tile have at a place, in their order."""
    total = nv.f32(0)
    for i in nv.range(1 << bits):
        total += shared[row + i * ROWS, col]
    return total
