"""Specifications carried out: threads as tensors, moves, products, reductions and pointwise operations."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.layout import E, Layout, mma_c

TILINGS = {
    "a block": lambda t: t,
    "warps": lambda t: t.tile(32),
    "a warp as 2x2x8": lambda t: t.tile(32).reshape(2, 2, 8),
    "a warpgroup as 4x8x4": lambda t: t.reshape(4, 8, 4),
    "quads of warps": lambda t: t.tile(32).tile(4),
    "lanes of both halves": lambda t: t.tile(32).tile(Layout((4, 2), (1, 16))),
    "tiles of a grid": lambda t: t.reshape(8, 16).tile((4, 8)),
    "every fourth": lambda t: t.tile(Layout(32, 4)),
}


@nv.jit
def numbered(out, *, tiling):
    """Each thread writes its number in its group, its group's number, and the sum of digits of its coordinates."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        t = nv.thread_id.x
        threads = TILINGS[tiling](nv.spec.threads())
        out[t, 0] = threads.number
        out[t, 1] = threads.group_number
        index = threads.index
        coordinates = index if isinstance(index, tuple) else (index,)
        weight, total = 1, 0
        for x, extent in zip(coordinates, threads.members, strict=False):
            total = total + x * weight
            weight *= extent.size
        out[t, 2] = total if isinstance(index, tuple) else index

    kernel()


@nv.jit
def moved(x, out, *, swizzle=0, turned=False, using=None, dtype=None, groups=None):
    """x goes to a tile and from there to ``out``, all by moves."""
    rows, cols = x.shape

    @nv.kernel(grid=1, block=64)
    def kernel():
        block = nv.spec.threads()
        tile = nv.smem((cols, rows) if turned else (rows, cols), dtype or x.dtype, swizzle=swizzle)
        tile = tile.T if turned else tile
        nv.spec.move(x, tile, block)(using)
        nv.sync_threads()
        back = nv.spec.move(tile, out, block)
        if groups is None:
            back(using)
        else:
            for part in back.tile(groups, block.tile(32)):
                part(using)

    kernel()


@nv.jit
def by_cp_async(x, out, *, swizzle=128, wait=True, parts=None):
    """x goes to a tile by cp.async, and from there to ``out``."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        block = nv.spec.threads()
        tile = nv.smem(x.shape, x.dtype, swizzle=swizzle)
        move = nv.spec.move(x, tile, block, asynchronous=True)
        if parts is None:
            move()
        else:
            for part in move.tile(parts, block.tile(32)):
                part()
        nv.cp_async_commit()
        if wait:
            nv.cp_async_wait(0)
        nv.sync_threads()
        nv.spec.move(tile, out, block)()

    kernel()


@nv.jit
def by_tma(x, out):
    x_tma, out_tma = nv.TMA(x, tile=(32, 64), swizzle=128), nv.TMA(out, tile=(32, 64), swizzle=128)

    @nv.kernel(grid=1, block=64)
    def kernel():
        block = nv.spec.threads()
        tile = nv.smem((32, 64), x.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(tile.bytes)
        nv.spec.move(x_tma, tile, block, barrier=full, coords=(32, 0))()
        full.wait(0)
        nv.spec.move(tile, out_tma, block, coords=(0, 64))()
        if nv.thread_id.x == 0:
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


@nv.jit
def of_registers(x, y, out, sums, greatest):
    """``out = 2 x + y`` in the registers of a warp; row sums and column maxima of it."""
    rows, cols = x.shape

    @nv.kernel(grid=1, block=32)
    def kernel():
        warp = nv.spec.threads()
        layout = mma_c(rows, cols)
        a, b = (nv.spec.move(z, layout, warp)() for z in (x, y))
        c = nv.spec.pointwise(lambda p, q: p + p + q, [a, b], threads=warp)()
        nv.spec.move(c, out, warp)()
        row, col = layout[0](warp.number)
        by_row = nv.spec.reduce("sum", c, warp, axis=1)
        for at, value in zip(by_row.places, by_row(), strict=True):
            sums[row + at] = value
        by_col = nv.spec.reduce("max", c, warp, axis=0)
        for at, value in zip(by_col.places, by_col(), strict=True):
            greatest[col + at] = value

    kernel()


@nv.jit
def reduced(x, out, *, op, tiling, using=None):
    """``out[t]``: what ``op`` makes of x over thread t's group."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        t = nv.thread_id.x
        out[t] = nv.spec.reduce(op, x[t], TILINGS[tiling](nv.spec.threads()))(using)

    kernel()


@nv.jit
def scaled(x, y, out, *, factor, tile=None):
    """``out = factor x + y``, from memory to memory."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        block = nv.spec.threads()
        spec = nv.spec.pointwise(lambda p, q: p * factor + q, [x, y], out, threads=block)
        if tile is None:
            spec()
        else:
            for part in spec.tile(tile, block.tile(32)):
                part()

    kernel()


FMA = Layout(((4, 8), (4, 2)), ((E(0, 4), E(2, 0)), (E(0, 1), E(1, 0))))
"""A warp of 4x8 threads, each of 2 rows of 4 columns: 16 x 16."""


@nv.jit
def by_fma(a, b, d):
    """A 16 x 16 product by fused multiply-adds, in an order of the threads that no tensor core has."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        warp = nv.spec.threads()
        acc = nv.spec.move(d, FMA, warp)()
        for k in nv.range(0, a.shape[1], 4):
            left, right = nv.spec.of(a, (0, k), (16, 4)), nv.spec.of(b, (k, 0), (4, 16))
            acc = nv.spec.mma(acc, left, right, warp)()
        nv.spec.move(acc, d, warp)()

    kernel()


@nv.jit
def by_wgmma(a, b, d, *, held=False):
    @nv.kernel(grid=1, block=128)
    def kernel():
        group = nv.spec.threads()
        A, B = nv.smem(a.shape, a.dtype, swizzle=128), nv.smem(b.shape, b.dtype, swizzle=128)
        nv.spec.move(a, A, group)()
        nv.spec.move(b, B, group)()
        nv.fence_proxy_async()
        nv.sync_threads()
        acc = nv.accumulator(64, b.shape[1])
        if held:
            left = nv.spec.move(nv.spec.of(a, (0, 0), (64, 16)), nv.layout.wgmma_a(2), group)()
            acc = nv.spec.mma(acc, left, B[0:16, :], group)()
        else:
            acc = nv.spec.mma(acc, A, B, group)()
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()
