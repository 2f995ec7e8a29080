"""Kernels of the truth tables, shared memory: each switch leaves out one fence, wait or meeting."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.ops import cluster, smem, tma, warp
from nvdsl.values.traced import const


@nv.jit
def stored(out, *, fence, meet):
    """Generic writes by two warps, read by a TMA store of the first."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = nv.f32(i * 64 + t)
        if fence:
            nv.fence_proxy_async()
        if meet:
            nv.sync_threads()
        if t == 0:
            out_tma.store(tile, (0, 0))
            tma.bulk_commit_group()
            tma.bulk_wait_group(0)

    kernel()


@nv.jit
def multiplied(b, d, *, fence, meet):
    """Generic writes by four warps, read by wgmma."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((64, 64), b.dtype, swizzle=128)
        B = nv.smem((64, 64), b.dtype, swizzle=128)
        t = nv.thread_id.x
        for i in nv.range(32):
            A[2 * i + t // 64, t % 64] = nv.f16(nv.f32((i + t) % 3))
            B[2 * i + t // 64, t % 64] = b[2 * i + t // 64, t % 64]
        if fence:
            nv.fence_proxy_async()
        if meet:
            nv.sync_threads()
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


@nv.jit
def loaded(x, out, *, meet, wait):
    """A TMA load: the meeting after init, the wait for the bytes."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        t = nv.thread_id.x
        if meet:
            nv.sync_threads()
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        if wait:
            full.wait(0)
        for i in nv.range(16):
            out[i, t] = tile[i, t]

    kernel()


@nv.jit
def fenced(a, b, d, *, fence, commit, wait):
    """One product by hand: wgmma.fence, commit_group, wait_group."""
    a_tma = nv.TMA(a, tile=(64, 16), swizzle=32)
    b_tma = nv.TMA(b, tile=(16, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((64, 16), a.dtype, swizzle=32)
        B = nv.smem((16, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        a_desc = nv.ops.wgmma.descriptor(A.address, A.operand(0))
        b_desc = nv.ops.wgmma.descriptor(B.address, B.operand(1))
        types = {"n": 64, "a_dtype": a.dtype, "b_dtype": b.dtype, "d_dtype": nv.f32, "b_major": "mn"}
        zeros = nv.ops.ptx.pack([const(0.0, nv.f32)] * 32)
        if fence:
            nv.wgmma_fence()
        result = nv.ops.wgmma.mma_async(zeros, a_desc, b_desc, **types)
        if commit:
            nv.wgmma_commit()
        if wait:
            nv.wgmma_wait(0)
        nv.Accumulator(64, 64, nv.f32, [result]).store(d, (0, 0))

    kernel()


@nv.jit
def bulk(out, *, commit, wait, read, reuse):
    """A bulk store whose source is then stored to again (``reuse``)."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            out_tma.store(tile, (0, 0))
            if commit:
                tma.bulk_commit_group()
            if wait:
                tma.bulk_wait_group(0, read=read)
        nv.sync_threads()
        if reuse:
            tile[0, t] = 2.0

    kernel()


@nv.jit
def clustered(x, out, *, fence, meet):
    """Block 0's multicast completes on the barriers of both: inits, fence, the cluster's meeting."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=2, block=64, cluster=2)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1)[0]
        t, rank = nv.thread_id.x, cluster.cluster_rank()
        if t == 0:
            full.init(1)
            if fence:
                nv.fence_mbarrier_init()
        if meet == "cluster":
            cluster.cluster_sync()
        elif meet == "relaxed":
            cluster.cluster_arrive(relaxed=True)
            cluster.cluster_wait()
        elif meet == "block":
            nv.sync_threads()
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            if rank == 0:
                x_tma.load(tile, full, (0, 0), multicast_mask=3)
        full.wait(0)
        for i in nv.range(16):
            out[rank * 16 + i, t] = tile[i, t]
        cluster.cluster_sync()

    kernel()


@nv.jit
def refilled(x, out, *, empty, arrive):
    """Two loads into one slot: the producer waits at an empty barrier, the consumers arrive there."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=96)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        free = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        if t >= 64:
            if t == 64:
                for k in nv.range(2):
                    if empty:
                        free.wait(1 - k)
                    full.arrive_expect_tx(tile.bytes)
                    x_tma.load(tile, full, (16 * k, 0))
        else:
            for k in nv.range(2):
                full.wait(k)
                for i in nv.range(16):
                    out[16 * k + i, t] = tile[i, t]
                if arrive:
                    free.arrive()

    kernel()


@nv.jit
def named(out, *, producer, consumer):
    """Warp 0 stores, warp 1 loads; a named barrier of the two, at which the first only arrives."""

    @nv.kernel(grid=1, block=96)
    def kernel():
        s = nv.smem((32,), nv.i32)
        t = nv.thread_id.x
        if t < 32:
            s[t] = t + 1
            if producer:
                warp.named_barrier_arrive(1, 64)
        elif t < 64:
            if consumer:
                warp.named_barrier_sync(1, 64)
            out[t - 32] = s[t - 32]

    kernel()


@nv.jit
def crossed(out, *, sync, fence, bulk):
    """Lanes read what other lanes of their warp stored; or lane 0 stores it in bulk."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((32,), nv.i32)
        t = nv.thread_id.x
        s[t] = t
        if fence:
            nv.fence_proxy_async()
        if sync:
            nv.sync_warp()
        if bulk:
            if t == 0:
                tma.bulk_store(out, s, 128)
                tma.bulk_commit_group()
                tma.bulk_wait_group(0)
        else:
            out[t] = s[31 - t]

    kernel()


@nv.jit
def matrices(out, *, sync):
    """stmatrix and then ordinary loads of the same warp."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((64,), nv.f16)
        t = nv.thread_id.x
        smem.stmatrix(smem.smem_pointer(t % 8 * 16), [t])
        if sync:
            nv.sync_warp()
        out[t] = s[63 - t]

    kernel()


@nv.jit
def in_registers(b, d, *, fence, wait):
    """A's registers are made, fenced, and multiplied; a loop carries them."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        B = nv.smem((16, 64), b.dtype, swizzle=128)
        t = nv.thread_id.x
        for i in nv.range(8):
            B[2 * i + t // 64, t % 64] = b[2 * i + t // 64, t % 64]
        nv.fence_proxy_async()
        nv.sync_threads()
        b_desc = nv.ops.wgmma.descriptor(B.address, B.operand(1))
        types = {"n": 64, "a_dtype": b.dtype, "b_dtype": b.dtype, "d_dtype": nv.f32, "b_major": "mn"}
        struct = nv.ops.ptx.touch(nv.ops.ptx.pack([const(0.0, nv.f32)] * 32))
        word = nv.i32(0x3C003C00)  # two ones
        nv.wgmma_fence()
        for _ in nv.range(2):
            word = word ^ (t >> 7)
            if fence:
                nv.wgmma_fence()
            struct = nv.ops.wgmma.mma_async(struct, [word] * 4, b_desc, **types)
            nv.wgmma_commit()
            if wait:
                nv.wgmma_wait(0)
        nv.wgmma_wait(0)
        nv.Accumulator(64, 64, nv.f32, [struct]).store(d, (0, 0))

    kernel()
