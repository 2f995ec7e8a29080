"""Kernels of the truth tables, global memory: each switch leaves out one fence, wait or meeting."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import cluster, tma
from nvdsl.ops.pointer import GLOBAL, address_of
from nvdsl.values.traced import const


@nv.jit
def stored_and_read(out, copy, *, wait, read, meet):
    """A bulk store to global memory that other threads of the block then read there."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = nv.f32(i)
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            out_tma.store(tile, (0, 0))
            tma.bulk_commit_group()
            if wait:
                tma.bulk_wait_group(0, read=read)
        if meet:
            nv.sync_threads()
        for i in nv.range(16):
            copy[i, t] = out[i, t]
        if t == 0:
            tma.bulk_wait_group(0)

    kernel()


def _order(name):
    return getattr(llvm.AtomicOrdering, name)


@nv.jit
def handed_over(flag, data, out, *, release, acquire, meet_before, meet_after):
    """Block 0 writes and raises a flag, block 1 polls it and reads. ``release``, ``acquire``: "order" (st.release,
    ld.acquire), "fence" (relaxed with a fence), "relaxed"."""

    @nv.kernel(grid=2, block=64)
    def kernel():
        t = nv.thread_id.x
        at = address_of(flag, space=GLOBAL)
        i32 = ir.IntegerType.get_signless(32)
        if nv.block_id.x == 0:
            data[t] = t + 7
            if meet_before:
                nv.sync_threads()
            if t == 0:
                if release == "fence":
                    nv.threadfence()
                order = _order("release" if release == "order" else "monotonic")
                llvm.store(const(1, i32), at, ordering=order, syncscope="device", alignment=4)
        else:
            if t == 0:
                order = _order("acquire" if acquire == "order" else "monotonic")
                seen = llvm.load(i32, at, ordering=order, syncscope="device", alignment=4)
                while seen == 0:
                    seen = llvm.load(i32, at, ordering=order, syncscope="device", alignment=4)
                if acquire == "fence":
                    nv.threadfence()
            if meet_after:
                nv.sync_threads()
            out[t] = data[t]

    kernel()


@nv.jit
def copied_over(flag, data, out, *, fence, release):
    """Block 0 writes global memory with ordinary stores, block 1 reads it by TMA."""
    data_tma = nv.TMA(data, tile=(16, 64))

    @nv.kernel(grid=2, block=64)
    def kernel():
        tile = nv.smem((16, 64), data.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        at = address_of(flag, space=GLOBAL)
        i32 = ir.IntegerType.get_signless(32)
        order = {"syncscope": "device", "alignment": 4}
        if nv.block_id.x == 0:
            for i in nv.range(16):
                data[i, t] = nv.f32(t)
            if fence is not None:
                nv.fence_proxy_async(None if fence == "all" else fence)
            nv.sync_threads()
            if t == 0:
                kind = _order("release" if release else "monotonic")
                llvm.store(const(1, i32), at, ordering=kind, **order)
        else:
            if t == 0:
                seen = llvm.load(i32, at, ordering=_order("acquire"), **order)
                while seen == 0:
                    seen = llvm.load(i32, at, ordering=_order("acquire"), **order)
                full.arrive_expect_tx(tile.bytes)
                data_tma.load(tile, full, (0, 0))
            full.wait(0)
            out[t] = tile[3, t]

    kernel()


@nv.jit
def dependent(x, y, z, *, programmatic, wait):
    """Two launches, of which the second may start early."""

    @nv.kernel(grid=1, block=64)
    def first():
        cluster.griddep_launch_dependents()
        y[nv.thread_id.x] = x[nv.thread_id.x] + 1.0

    @nv.kernel(grid=1, block=64, programmatic=programmatic)
    def second():
        if wait == "all":
            nv.griddep_wait()
        elif wait == "one":
            if nv.thread_id.x < 32:
                nv.griddep_wait()
        z[nv.thread_id.x] = y[nv.thread_id.x] * 2.0

    first()
    second()
