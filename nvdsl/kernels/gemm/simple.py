"""GEMM with a thread for each element of the result: any strides, any sizes, no tensor cores.

The slow way that is always open: where K is empty, where strides break TMA's rules and the product is too small to be
worth a copy, and as the reference that the fast kernels are compared with. Neighbouring threads take neighbouring
columns, so that reads of a row-major B and writes of the result are coalesced; A's element is one for a whole warp.
Where the result has fewer elements than the GPU has threads, several of them share one (`few`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.elementwise import place
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm import gemv

THREADS = (32, 8)  # columns, rows
AT_ONCE = 8
"""Elements of a row and of a column that a thread asks for at a time."""


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: Callable[..., Any] | None = None,
) -> None:
    """out[batch, M, N] = a[batch, M, K] @ b[batch, K, N]; all three of three axes, with any strides.

    An operand of one batch serves all. Products are summed in the order of K in ``acc_dtype``, each factor converted
    to it first. ``epilogue_op``: see `nvdsl.kernels.blocks.epilogue_visitor.EpilogueOp`; ``operands`` are handed to it.
    """

    def dot(batch: Any, row: Any, col: Any) -> Any:
        of_a, of_b = place(a, batch, row, col)[0], place(b, batch, row, col)[0]
        total, whole = acc_dtype(0), a.shape[2] // AT_ONCE * AT_ONCE
        for first in nv.range(0, whole, AT_ONCE, unroll=False):
            loaded = [(a[of_a, row, first + i], b[of_b, first + i, col]) for i in range(AT_ONCE)]
            for x, y in loaded:
                total += acc_dtype(x) * acc_dtype(y)
        for k in nv.range(whole, a.shape[2], unroll=False):
            total += acc_dtype(a[of_a, row, k]) * acc_dtype(b[of_b, k, col])
        return total

    _each_element(dot, out, operands, epilogue_op)


@nv.jit
def few(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: Callable[..., Any] | None = None,
) -> None:
    """The same of a result of few elements: each is the sum of neighbouring threads, which take turns along K.

    A power of two of threads share an element: as many as the GPU runs at once, while each has something to load. So
    their sums are not in the order of K, but in one that depends on the sizes and on ``sms`` alone.
    """
    batches, M, N = out.shape
    k, elements, dtype = a.shape[2], batches * M * N, gemv.sums_of(acc_dtype)
    resident = sms * gemv.BLOCKS * gemv.THREADS
    bits = gemv.exponent(nv.min(nv.cdiv(resident, nv.max(elements, 1)), nv.cdiv(k, gemv.AT_END)), gemv.THREADS)
    of_matrix, of_row = Divisor.of(nv.max(M * N, 1)), Divisor.of(nv.max(N, 1))

    @nv.kernel(grid=nv.cdiv(elements, gemv.THREADS >> bits), block=gemv.THREADS)
    def kernel() -> None:
        lane = nv.thread_id.x & ((1 << bits) - 1)
        element = nv.block_id.x * (gemv.THREADS >> bits) + (nv.thread_id.x >> bits)
        batch, within = of_matrix.divmod(nv.min(element, elements - 1))
        row, col = of_row.divmod(within)
        of_a, of_b = gemv.batch_of(a, batch), gemv.batch_of(b, batch)

        def plus(total: Any, steps: list[Any], exist: list[Any]) -> Any:
            loaded = [(a[of_a, row, x], b[of_b, x, col]) for x in steps]
            for (x, y), here in zip(loaded, exist, strict=True):
                total += gemv.only(here, dtype(x) * dtype(y), dtype)
            return total

        total = gemv.added_up(gemv.summed(plus, dtype(0), nv.i32(0), k, lane, bits), bits, dtype)
        if (lane == 0) & (element < elements):
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
    _each_element(lambda batch, row, col: acc_dtype(0), out, operands, epilogue_op)


def blocks(m: int, n: int) -> int:
    """Of an m x n result."""
    return nv.cdiv(m, THREADS[1]) * nv.cdiv(n, THREADS[0])


def _each_element(
    total: Callable[..., Any], out: nv.Array, operands: tuple[Any, ...], epilogue_op: Callable[..., Any] | None
) -> None:
    """Launch the kernel that stores ``epilogue_op(total(batch, row, col))`` to each element of ``out``."""
    batches, M, N = out.shape
    tiles = TileScheduler(M, N, THREADS[1], THREADS[0], group=1, batches=batches)

    @nv.kernel(grid=tiles.count, block=THREADS)  # along x: there are at most 65,535 blocks along y and along z
    def kernel() -> None:
        batch, row, col = tiles.start(nv.block_id.x)
        row, col = row + nv.thread_id.y, col + nv.thread_id.x
        if row < M and col < N:
            value = total(batch, row, col)
            if epilogue_op is not None:
                value = epilogue_op(value, batch, row, col, *operands)
            out[batch, row, col] = out.dtype(value)

    kernel()
