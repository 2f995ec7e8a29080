"""Kernels in which one lane of a warp speaks, or all do; the switches say who, and whether the lanes meet."""

import nvdsl as nv
from nvdsl.ops import memory


@nv.jit
def arrived(x, out, *, by, meet):
    """A warp stores, and arrives for another that waits and reads. ``by``: "one" lane, or "all"."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        s = nv.smem((32,), nv.f32)
        full = nv.Mbarriers(1, arrivals=1 if by == "one" else 32)[0]
        t, lane = nv.thread_id.x, nv.lane_id()
        if nv.warp_id() == 0:
            s[lane] = x[lane]
            if meet:
                nv.sync_warp()
            full.arrive(predicate=lane == 7 if by == "one" else None)
        else:
            full.wait(0)
            out[t - 32] = s[31 - lane]

    kernel()


@nv.jit
def own_part(x, out):
    """The lane that arrives alone tells of what it stored itself, and that is all that is read."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        s = nv.smem((32,), nv.f32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        lane = nv.lane_id()
        if nv.warp_id() == 0:
            s[lane] = x[lane]
            full.arrive(predicate=lane == 7)
        else:
            full.wait(0)
            out[lane] = s[7]

    kernel()


@nv.jit
def waited(x, out, *, by, meet):
    """A copy that one lane of the reading warp waits for, or all."""
    x_tma = nv.TMA(x, tile=(8, 32))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((8, 32), nv.f32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 32:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        if t < 32:
            if by == "all":
                full.wait(0)
            elif t == 3:
                full.wait(0)
            if meet:
                nv.sync_warp()
            out[t] = tile[2, t]

    kernel()


@nv.jit
def fenced_by(out, *, by, meet):
    """Ordinary stores that a bulk store reads, fenced by one lane or by all."""
    out_tma = nv.TMA(out, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((8, 32), nv.f32)
        t = nv.thread_id.x
        for i in nv.range(8):
            tile[i, t] = nv.f32(i * 32 + t)
        if by == "all":
            nv.fence_proxy_async()
        elif t == 0:
            nv.fence_proxy_async()
        if meet:
            nv.sync_warp()
        if t == 0:
            out_tma.store(tile, (0, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


@nv.jit
def flagged(flag, data, out, *, before, after):
    """Blocks of one warp that hand data over by a flag; the warp meets ``before`` a release, ``after`` an acquire."""

    @nv.kernel(grid=2, block=32)
    def kernel():
        t = nv.thread_id.x
        if nv.block_id.x == 0:
            data[t] = t + 5
            if before:
                nv.sync_warp()
            if t == 31:
                memory.store_release(flag, 0, 1)
        else:
            if t == 31:
                seen = memory.load_acquire(flag, 0)
                while seen == 0:
                    seen = memory.load_acquire(flag, 0)
            if after:
                nv.sync_warp()
            out[t] = data[31 - t]

    kernel()


@nv.jit
def refilled(out, *, by, meet):
    """Lane 0 stores a tile by TMA; the warp stores into the tile again."""
    out_tma = nv.TMA(out, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((8, 32), nv.f32)
        t = nv.thread_id.x
        for i in nv.range(8):
            tile[i, t] = nv.f32(t)
        nv.fence_proxy_async()
        nv.sync_warp()
        if t == 0:
            out_tma.store(tile, (0, 0))
            nv.bulk_commit_group()
            if by == "one":
                nv.bulk_wait_group(0)
        if by == "all":
            nv.bulk_wait_group(0)
        if meet:
            nv.sync_warp()
        tile[0, t] = 1.0

    kernel()


@nv.jit
def within(x, out, *, hazard, mask):
    """Lanes of one warp, which meet as ``mask`` says (0: not): what a lane does to the place of its neighbour."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((32,), nv.f32)
        t = nv.thread_id.x
        following = (t + 1) % 32
        s[t] = x[t]
        if hazard != "raw":
            nv.sync_warp()
        y = x[t]
        if hazard == "war":
            y = s[following]
        if hazard == "waw":
            s[t] = y
        if mask == 0xFFFFFFFF:
            nv.sync_warp()
        elif mask:
            if t < 16:
                nv.sync_warp(mask)
        if hazard == "raw":
            out[t] = s[following]
        elif hazard == "war":
            s[t] = y
        else:
            s[following] = y

    kernel()


@nv.jit
def half(x, out, *, mask):
    """The lower lanes exchange among each other, and meet alone."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((32,), nv.f32)
        t = nv.thread_id.x
        s[t] = x[t]
        if t < 16:
            if mask:
                nv.sync_warp(mask)
            out[t] = s[15 - t]

    kernel()


@nv.jit
def one_line(out, *, meet, shared):
    """One line stores to many places in turn: to those of its own lane first, to those of others later."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((64, 32), nv.i32) if shared else out
        t = nv.thread_id.x
        for row, column in ((1, t), (t + 32, t), (t, 1), (2, t)):
            s[row, column] = row + column + t
            if meet and row is t:
                nv.sync_warp()

    kernel()


@nv.jit
def flag_set_by_two(x, out, *, same):
    """Two warps set a flag in shared memory, to the ``same`` value or each to its own."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        s = nv.smem((32,), nv.f32)
        t = nv.thread_id.x
        if x[t % 32] > 3.0:
            if t % 32 == 9:
                s[0] = 1.0 if same else nv.f32(nv.warp_id())
        nv.sync_threads()
        if t < 32:
            out[t] = s[0]

    kernel()
