"""Copies of arrays that TMA can't read or write, and the result where there are no keys."""

from __future__ import annotations

import math

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor

THREADS = (32, 8)

Heads = nv.Shaped[nv.Array, "batch", "rows", "heads", ...]
Logarithms = nv.Shaped[nv.Array, 1, "batch", "heads", "rows"]


class _Rows:
    """The rows of an array (batch, rows, heads, size), a row of threads for each."""

    def __init__(self, x: nv.Array) -> None:
        batch, rows, heads, self.size = x.shape
        self.count = batch * rows * heads
        self.grid = nv.cdiv(self.count, THREADS[1])
        self._rows, self._heads = Divisor.of(rows), Divisor.of(heads)

    def mine(self) -> tuple[nv.Value, tuple[nv.Int, nv.Int, nv.Int]]:
        """Whether this thread has a row, and which one."""
        number = nv.block_id.x * THREADS[1] + nv.thread_id.y
        outer, head = self._heads.divmod(number)
        batch, row = self._rows.divmod(outer)
        return number < self.count, (batch, row, head)


@nv.jit
def copy(source: Heads, result: Heads) -> None:
    """``result = source``, in any strides."""
    rows = _Rows(source)

    @nv.kernel(grid=rows.grid, block=THREADS)
    def copy_heads() -> None:
        inside, at = rows.mine()
        if inside:
            for i in nv.range(nv.thread_id.x, rows.size, THREADS[0]):
                result[(*at, i)] = source[(*at, i)]

    copy_heads()


@nv.jit
def nothing_seen(out: Heads, lse: Logarithms | None) -> None:
    """What attention gives where there are no keys: zeros, and -infinity."""
    rows = _Rows(out)

    @nv.kernel(grid=rows.grid, block=THREADS)
    def clear() -> None:
        inside, (batch, row, head) = rows.mine()
        if inside:
            for i in nv.range(nv.thread_id.x, rows.size, THREADS[0]):
                out[batch, row, head, i] = 0.0
            if lse is not None:
                lse.store((0, batch, head, row), -math.inf, predicate=nv.thread_id.x == 0)

    clear()
