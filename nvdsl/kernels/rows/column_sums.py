"""Sums of columns: what weight and bias of a norm get from all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig

_LANES, _WARPS, _AT_ONCE = 32, 32, 8
_THREADS = 128


def add_up(partial: Sequence[nv.Array], outs: Sequence[nv.Array], count: nv.Int, config: RowsConfig) -> None:
    """In a host function: each of ``outs`` gets the sums of the ``count`` rows of one of ``partial``, which lie one
    behind the other. A lane has a column, or four where rows are long and blocks are many. Each warp of a block adds
    up every 32nd row, some at a time."""
    cols = outs[0].shape[0]
    wide = math.gcd(config.grain or config.wide, 4) if config.cluster > 1 else 1
    at_once = _AT_ONCE // wide

    @nv.kernel(grid=(nv.cdiv(cols, _LANES * wide), len(outs)), block=_LANES * _WARPS, programmatic=True)
    def sums_of_columns() -> None:
        lane, warp = nv.thread_id.x % _LANES, nv.thread_id.x // _LANES
        col = (nv.block_id.x * _LANES + lane) * wide
        shared = nv.smem(_LANES * _WARPS * wide, nv.f32)
        nv.griddep_wait()
        for i, (rows, out) in enumerate(zip(partial, outs, strict=True)):
            if nv.block_id.y == i:
                total = nv.vector([0.0] * wide, nv.f32)
                for row in nv.range(warp, count, _WARPS * at_once, unroll=False):
                    found = []
                    for k in range(at_once):
                        one = nv.vector([0.0] * wide, nv.f32)
                        if col < cols and row + k * _WARPS < count:
                            one = rows.vector((row + k * _WARPS) * cols + col, wide)
                        found.append(one)
                    for one in found:
                        total += one
                shared.store_vector(total, nv.thread_id.x * wide)
                nv.sync_threads()
                if warp == 0 and col < cols:
                    for other in range(1, _WARPS):
                        total += shared.vector((other * _LANES + lane) * wide, wide)
                    out.store_vector(total.to(out.dtype), col)

    sums_of_columns()


def column_gradients(
    dy: nv.Array,
    x: nv.Array,
    mean: nv.Array | None,
    rstd: nv.Array,
    dweight: nv.Array | None,
    partial: Sequence[nv.Array],
    count: nv.Int,
    config: RowsConfig,
) -> None:
    """In a host function, for rows of which a thread has too much to keep sums: each of ``partial`` gets ``count`` rows
    of sums, for ``dweight`` first if there is one, then for dbias. A thread has the columns of an access of every
    ``count``-th row: a column where rows begin anywhere."""
    rows, cols = x.shape
    wide = config.grain or config.wide

    @nv.kernel(grid=(nv.cdiv(cols, _THREADS * wide), count), block=_THREADS)
    def columns() -> None:
        col = (nv.block_id.x * _THREADS + nv.thread_id.x) * wide
        zero = nv.vector([0.0] * wide, nv.f32)
        totals: list[Any] = [zero for _ in partial]
        if col < cols:
            for row in nv.range(nv.block_id.y, rows, count):
                gradient, given = dy.vector((row, col), wide).to(nv.f32), x.vector((row, col), wide).to(nv.f32)
                apart = given if mean is None else given - mean[row]
                for i in range(len(partial)):
                    more = gradient * (apart * rstd[row]) if dweight is not None and i == 0 else gradient
                    totals[i] = totals[i] + more
            for i, into in enumerate(partial):
                put(into, nv.block_id.y * cols + col, totals[i])

    columns()


def put(into: nv.Array, start: nv.Int, values: Any, most: int = 4) -> None:
    """Store a vector of f32, ``most`` at a time, four or less."""
    wide, most = values.shape[0], min(most, 4)
    for i in range(0, wide, most):
        piece = nv.vector([values[k] for k in range(i, min(i + most, wide))])
        into.store_vector(piece, start + i)
