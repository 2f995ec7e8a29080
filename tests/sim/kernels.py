"""Small kernels, each with switches that leave out one thing that it needs."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.mlir.dialects import math as math_dialect
from nvdsl.ops import tma


@nv.jit
def exchange(out, *, meet=True, meet_again=True, rounds=2):
    """Warp w reads what warp w+1 stored."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        s = nv.smem((64,), nv.i32)
        t = nv.thread_id.x
        for i in nv.range(rounds):
            s[t] = t + i
            if meet:
                nv.sync_threads()
            out[t] = s[(t + 32) % 64]
            if meet_again:
                nv.sync_threads()

    kernel()


@nv.jit
def same_place(out, *, guard=True):
    """Two warps store to the same bytes."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        s = nv.smem((32,), nv.i32)
        t = nv.thread_id.x
        if guard:
            if t < 32:
                s[t] = t
        else:
            s[t % 32] = t
        nv.sync_threads()
        out[t] = s[t % 32]

    kernel()


@nv.jit
def same_element(out, *, guard=True):
    """Two blocks store to the same element of global memory."""

    @nv.kernel(grid=2, block=32)
    def kernel():
        if guard:
            if nv.block_id.x == 0:
                out[nv.thread_id.x] = 1
        else:
            out[nv.thread_id.x] = 1

    kernel()


@nv.jit
def tma_load(
    x, out, *, init_sync=True, wait=True, extra_bytes=0, arrivals=1, parity=0, load=True, twice=False
):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.init(arrivals)
            nv.fence_mbarrier_init()
        if init_sync:
            nv.sync_threads()
        if t == 0:
            full.arrive_expect_tx(tile.bytes + extra_bytes)
            if twice:
                full.arrive()
            if load:
                x_tma.load(tile, full, (0, 0))
        if wait:
            full.wait(parity)
        for i in nv.range(16):
            out[i, t] = tile[i, t]

    kernel()


@nv.jit
def tma_store(out, *, fence=True, meet=True, commit=True, wait=True, reuse=False):
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
            if commit:
                tma.bulk_commit_group()
            if reuse:
                tile[0, 0] = 7.0
            if wait:
                tma.bulk_wait_group(0)

    kernel()


@nv.jit
def mma(a, b, d, *, wait=True, fence=True, refill=False, release=True):
    """One 64 x 64 x 64 product; ``refill``: a second load into A's tile."""
    a_tma = nv.TMA(a, tile=(64, 64), swizzle=128)
    b_tma = nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((64, 64), a.dtype, swizzle=128)
        B = nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(2, arrivals=1)
        if nv.thread_id.x == 0:
            full[0].arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full[0], (0, 0))
            b_tma.load(B, full[0], (0, 0))
        full[0].wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        if release:
            nv.wgmma_wait(0)
        if refill:
            if nv.thread_id.x == 0:
                full[1].arrive_expect_tx(A.bytes)
                a_tma.load(A, full[1], (0, 0))
            full[1].wait(0)
        if wait:
            nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


@nv.jit
def staged_mma(b, d, *, fence=True):
    """A is stored by ordinary stores, then read by wgmma."""
    b_tma = nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((64, 64), b.dtype, swizzle=128)
        B = nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(B.bytes)
            b_tma.load(B, full, (0, 0))
        if t < 64:
            for i in nv.range(64):
                A[i, t] = nv.f16(nv.f32((i + t) % 5))
        if fence:
            nv.fence_proxy_async()
        nv.sync_threads()
        full.wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


@nv.jit
def indexed(x, out, *, shift=0):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        out[t] = x[t + shift]

    kernel()


@nv.jit
def divergent(out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        if nv.thread_id.x < 16:
            nv.sync_threads()
        out[nv.thread_id.x] = 1

    kernel()


@nv.jit
def half_of_the_block(out):
    @nv.kernel(grid=1, block=64)
    def kernel():
        if nv.thread_id.x < 32:
            nv.sync_threads()
        out[nv.thread_id.x] = 1

    kernel()


@nv.jit
def registers(out):
    """The first warpgroup gives registers to the other two."""

    @nv.kernel(grid=1, block=384)
    def kernel():
        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(24)
        else:
            nv.setmaxnreg_inc(240)
        out[nv.thread_id.x] = 1

    kernel()


@nv.jit
def unknown(out):
    @nv.kernel(grid=1, block=32)
    def kernel():
        out[nv.thread_id.x] = math_dialect.acos(nv.f32(0.5))

    kernel()
