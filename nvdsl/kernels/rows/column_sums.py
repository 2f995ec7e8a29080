"""Sums of columns: the last step of what many blocks have added up for a weight."""

from __future__ import annotations

import nvdsl as nv

_LANES, _WARPS = 32, 16


def add_up(partial: nv.Array, out: nv.Array, count: nv.Int) -> None:
    """In a host function: ``out[n]`` gets the sums of the ``count`` rows of ``partial``, which lie one behind the
    other. A warp adds up every 16th of them, for 32 columns."""
    cols = out.shape[0]

    @nv.kernel(grid=nv.cdiv(cols, _LANES), block=_LANES * _WARPS)
    def sum_of_columns() -> None:
        lane, warp = nv.thread_id.x % _LANES, nv.thread_id.x // _LANES
        col = nv.block_id.x * _LANES + lane
        total = nv.f32(0.0)
        for row in nv.range(warp, count, _WARPS):
            if col < cols:
                total += partial[row * cols + col]
        shared = nv.smem(_LANES * _WARPS, nv.f32)
        shared[warp * _LANES + lane] = total
        nv.sync_threads()
        if warp == 0:
            for other in range(1, _WARPS):
                total += shared[other * _LANES + lane]
            if col < cols:
                out[col] = total

    sum_of_columns()
