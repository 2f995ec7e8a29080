"""GEMM with a thread for each element of the result: any strides, any sizes, no tensor cores.

The slow way that is always open: where K is empty, where strides break TMA's rules and the product is too small to be
worth a copy, and as the reference that the fast kernels are compared with. Neighbouring threads take neighbouring
columns, so that reads of a row-major B and writes of the result are coalesced; A's element is one for a whole warp.
Where the result has fewer elements than the GPU has threads, several of them share one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm import gemv

ROWS, COLS = 8, 32
"""Of a block's elements, where each thread has one."""
FEW = 1 << 16
"""Elements of a result up to which threads share one: half as many as a Hopper GPU runs."""
FLAT_K = 16
"""K beyond which they do. A short K takes a thread about as long as the launch of a kernel."""


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: Callable[..., Any] | None = None,
) -> None:
    """out[batch, M, N] = a[batch, M, K] @ b[batch, K, N]; all three of three axes, with any strides.

    An operand of one batch serves all. Of a result of few elements each is the sum of neighbouring threads, which take
    turns along K: a power of two of them, as many as the GPU runs at once, while each has something to load. So sums
    are in an order that depends on the sizes and on ``sms`` alone, in f32, f64 or i32. ``epilogue_op``: see
    `nvdsl.kernels.blocks.epilogue_visitor.EpilogueOp`; ``operands`` are handed to it.
    """
    (batches, m, n), k, dtype = out.shape, a.shape[2], gemv.sums_of(acc_dtype)
    elements, tiles = batches * m * n, _tiles(out)
    wanted = nv.min(nv.cdiv(sms * gemv.BLOCKS * gemv.THREADS, nv.max(elements, 1)), nv.cdiv(k, gemv.AT_END))
    bits = nv.select((elements <= FEW) & (k > FLAT_K), gemv.exponent(wanted, gemv.THREADS), 0)
    of_matrix, of_row = Divisor.of(nv.max(m * n, 1)), Divisor.of(nv.max(n, 1))
    blocks = nv.select(bits > 0, nv.cdiv(elements, gemv.THREADS >> bits), tiles.count)

    @nv.kernel(grid=blocks, block=gemv.THREADS)
    def kernel() -> None:
        lane = nv.thread_id.x & ((1 << bits) - 1)
        if bits > 0:
            element = nv.block_id.x * (gemv.THREADS >> bits) + (nv.thread_id.x >> bits)
            batch, within = of_matrix.divmod(nv.min(element, elements - 1))
            row, col = of_row.divmod(within)
            exists = (element < elements) & (lane == 0)
        else:
            batch, row, col = _place(tiles)
            exists = (row < m) & (col < n)
        of_a, of_b, top, left = gemv.batch_of(a, batch), gemv.batch_of(b, batch), nv.min(row, m - 1), nv.min(col, n - 1)

        def plus(total: Any, steps: list[Any], exist: list[Any]) -> Any:
            loaded = [(a[of_a, top, x], b[of_b, x, left]) for x in steps]
            for (x, y), here in zip(loaded, exist, strict=True):
                total += gemv.only(here, dtype(x) * dtype(y), dtype)
            return total

        total = gemv.summed(plus, dtype(0), nv.i32(0), k, lane, bits)
        if bits > 0:
            total = gemv.added_up(total, bits, dtype)
        if exists:
            value = acc_dtype(total)
            if epilogue_op is not None:
                value = epilogue_op(value, batch, row, col, *operands)
            out[batch, row, col] = out.dtype(value)

    kernel()


@nv.jit
def empty_sums(
    out: nv.Array, *operands: Any, acc_dtype: nv.DType = nv.f32, epilogue_op: Callable[..., Any] | None = None
) -> None:
    """What `matmul` stores where K is 0: every sum is zero, and visited."""
    (_, m, n), tiles = out.shape, _tiles(out)

    @nv.kernel(grid=tiles.count, block=gemv.THREADS)
    def kernel() -> None:
        batch, row, col = _place(tiles)
        if (row < m) & (col < n):
            value = acc_dtype(0)
            if epilogue_op is not None:
                value = epilogue_op(value, batch, row, col, *operands)
            out[batch, row, col] = out.dtype(value)

    kernel()


def blocks(m: int, n: int) -> int:
    """Of an m x n result."""
    return nv.cdiv(m, ROWS) * nv.cdiv(n, COLS)


def _tiles(out: nv.Array) -> TileScheduler:
    """Along x: there are at most 65,535 blocks along y and along z."""
    batches, m, n = out.shape
    return TileScheduler(m, n, ROWS, COLS, group=1, batches=batches)


def _place(tiles: TileScheduler) -> tuple[Any, Any, Any]:
    """A thread's batch, row and column, which may be beyond the edge."""
    batch, row, col = tiles.start(nv.block_id.x)
    return batch, row + nv.thread_id.x // COLS, col + nv.thread_id.x % COLS
