"""What fast GEMMs are made of, each in a small kernel; some with switches that leave out what one part needs."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.lang.accumulator import pack_pair
from nvdsl.mlir.dialects import arith, memref
from nvdsl.ops import cluster, memory, smem, tma, warp
from nvdsl.values.traced import const


def stage(acc, tile):
    """An accumulator of 64 rows as f16 into a swizzled tile, by stmatrix.x4: 16 columns at a time."""
    lane, row0 = nv.lane_id(), nv.warpgroup_thread() // 32 * 16
    row = row0 + lane % 8 + lane // 8 % 2 * 8
    values = acc.registers()[0]
    packed = [pack_pair(a, b, nv.f16) for a, b in zip(values[::2], values[1::2], strict=True)]
    for i in range(0, len(packed), 4):
        at = tile.layout.offset(row, i * 4 + lane // 16 * 8)
        smem.stmatrix(tile.pointer(at), packed[i : i + 4])


@nv.jit
def stored_matrices(x, out, *, count, transpose):
    """A warp stores ``count`` 8 x 8 matrices of 16-bit elements; x holds each lane's registers."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        s = nv.smem((count * 64,), nv.i16)
        t = nv.thread_id.x
        registers = [x[i, t] for i in range(count)]
        smem.stmatrix(smem.smem_pointer(t % (8 * count) * 16), registers, transpose=transpose)
        nv.sync_warp()
        for i in range(2 * count):
            out[i * 32 + t] = s[i * 32 + t]

    kernel()


@nv.jit
def pingpong(a, b, d, *, stages=3, blocks=2, fence=True, meet=True, read=True, turns=True):
    """Persistent, warp-specialized: a producer, and two consumers that take turns; stores through staging tiles.

    Each consumer multiplies while the other stores: named barriers 1 and 2 hand over the turn, 3 and 4 are a consumer's
    own. ``turns=False``: nobody waits for a turn.
    """
    (M, K), (_, N) = a.shape, b.shape
    steps, columns = K // 64, N // 64
    each = (M // 64) * columns // blocks // 2  # tiles of one consumer
    a_tma = nv.TMA(a, tile=(64, 64), swizzle=128)
    b_tma = nv.TMA(b, tile=(64, 64), swizzle=128)
    d_tma = nv.TMA(d, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=blocks, block=384)
    def kernel():
        A = nv.smem((stages, 64, 64), a.dtype, swizzle=128)
        B = nv.smem((stages, 64, 64), b.dtype, swizzle=128)
        D = nv.smem((2, 64, 64), d.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4)
        group = nv.warpgroup_id()
        first = nv.block_id.x * each * 2
        if group == 0:
            nv.setmaxnreg_dec(40)
            if nv.thread_id.x == 0:
                slot = ring.producer_state()
                for i in nv.range(each * 2):
                    tile = first + i
                    for k in nv.range(steps):
                        full = ring.acquire(slot)
                        a_tma.load(A[slot.stage], full, (tile // columns * 64, k * 64))
                        b_tma.load(B[slot.stage], full, (k * 64, tile % columns * 64))
                        slot = slot.next()
        else:
            nv.setmaxnreg_inc(232)
            me = group - 1
            slot = ring.consumer_state()
            if me == 1:
                slot = slot.advance(steps)
                if turns:
                    warp.named_barrier_arrive(1, 256)
            for i in nv.range(each):
                tile = first + 2 * i + me
                if turns:
                    warp.named_barrier_sync(1 + me, 256)
                acc = nv.accumulator(64, 64, nv.f32)
                for _ in nv.range(steps):
                    ring.wait(slot)
                    acc += A[slot.stage] @ B[slot.stage]
                    nv.wgmma_wait(0)
                    ring.release(slot, nv.lane_id() == 0)
                    slot = slot.next()
                slot = slot.advance(steps)
                if turns:
                    if me * each + i < 2 * each - 1:  # the last one hands over to nobody
                        warp.named_barrier_arrive(2 - me, 256)
                if nv.warpgroup_thread() == 0:
                    if read:
                        tma.bulk_wait_group(0, read=True)
                if meet:
                    warp.named_barrier_sync(3 + me, 128)
                stage(acc, D[me])
                if fence:
                    nv.fence_proxy_async()
                if meet:
                    warp.named_barrier_sync(3 + me, 128)
                if nv.warpgroup_thread() == 0:
                    d_tma.store(D[me], (tile // columns * 64, tile % columns * 64))
                    tma.bulk_commit_group()
            if nv.warpgroup_thread() == 0:
                tma.bulk_wait_group(0, read=True)

    kernel()


@nv.jit
def shared_b(a, b, d, *, stages=2, relaxed=True, remote=True, wide=True):
    """A cluster of two blocks: block 0 loads B's tile for both, and waits for the consumers of both (``remote``)."""
    K = a.shape[1]
    a_tma = nv.TMA(a, tile=(64, 64), swizzle=128)
    b_tma = nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=2, block=256, cluster=2)
    def kernel():
        A = nv.smem((stages, 64, 64), a.dtype, swizzle=128)
        B = nv.smem((stages, 64, 64), b.dtype, swizzle=128)
        full, empty = nv.Mbarriers(stages), nv.Mbarriers(stages)
        rank = cluster.cluster_rank()
        if nv.thread_id.x == 0:
            for i in range(stages):
                full[i].init(1)
                empty[i].init(nv.select(rank == 0, 8 if remote else 4, 4))
            nv.fence_mbarrier_init()
        if wide:
            cluster.cluster_sync()
        else:
            nv.sync_threads()
        if nv.warpgroup_id() == 0:
            if nv.thread_id.x == 0:
                slot = nv.PipelineState(stages, 0, 1)
                for k in nv.range(K // 64):
                    empty[slot.stage].wait(slot.phase)
                    full[slot.stage].arrive_expect_tx(A.bytes + B.bytes)
                    a_tma.load(A[slot.stage], full[slot.stage], (rank * 64, k * 64))
                    if rank == 0:
                        b_tma.load(B[slot.stage], full[slot.stage], (k * 64, 0), multicast_mask=3)
                    slot = slot.next()
        else:
            acc = nv.accumulator(64, 64, nv.f32)
            slot = nv.PipelineState(stages)
            for _ in nv.range(K // 64):
                full[slot.stage].wait(slot.phase)
                acc += A[slot.stage] @ B[slot.stage]
                nv.wgmma_wait(0)
                if nv.lane_id() == 0:
                    empty[slot.stage].arrive_cluster(rank, relaxed=relaxed)
                    if rank != 0:
                        if remote:
                            empty[slot.stage].arrive_cluster(0, relaxed=relaxed)
                slot = slot.next()
            acc.store(d, (rank * 64, 0))
        cluster.cluster_sync()

    kernel()


@nv.jit
def read_by_all(x, out, *, relaxed):
    """A slot in two blocks that ordinary loads read, freed by arrivals at block 0's barrier."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=2, block=64, cluster=2)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full, empty = nv.Mbarriers(1)[0], nv.Mbarriers(1)[0]
        rank, t = cluster.cluster_rank(), nv.thread_id.x
        if t == 0:
            full.init(1)
            empty.init(128)
            nv.fence_mbarrier_init()
        cluster.cluster_sync()
        for k in nv.range(2):
            if t == 0:
                full.arrive_expect_tx(tile.bytes)
                if rank == 0:
                    empty.wait(1 - k)
                    x_tma.load(tile, full, (16 * k, 0), multicast_mask=3)
            full.wait(k)
            for i in nv.range(16):
                out[32 * rank + 16 * k + i, t] = tile[i, t]
            empty.arrive_cluster(0, relaxed=relaxed)
        cluster.cluster_sync()

    kernel()


@nv.jit
def turnstile(x, flags, out, *, acquire=True, release=True, meet=True):
    """Split-K: each block adds its part to the sum, in the order of the blocks."""
    parts = x.shape[0]

    @nv.kernel(grid=parts, block=64)
    def kernel():
        t, me = nv.thread_id.x, nv.block_id.x
        if t == 0:
            turn = memory.load_acquire(flags, 0) if acquire else flags[0]
            while turn != me:
                turn = memory.load_acquire(flags, 0) if acquire else flags[0]
        nv.sync_threads()
        out[t] = out[t] + x[me, t]
        if meet:
            nv.sync_threads()
        if t == 0:
            if release:
                memory.store_release(flags, 0, me + 1)
            else:
                flags[0] = me + 1

    kernel()


@nv.jit
def added(x, out):
    """Split-K: each block adds its part by atomics."""

    @nv.kernel(grid=x.shape[0], block=64)
    def kernel():
        t = nv.thread_id.x
        memref.atomic_rmw(arith.AtomicRMWKind.addf, x[nv.block_id.x, t], out, [nv.index(t)])

    kernel()


@nv.jit
def last_one(x, work, counter, out, *, before=True, after=True):
    """Split-K: each block writes its part; the last one to count itself sums them all."""
    parts = x.shape[0]

    @nv.kernel(grid=parts, block=64)
    def kernel():
        share = nv.smem((1,), nv.i32)
        t, me = nv.thread_id.x, nv.block_id.x
        work[me, t] = x[me, t] * 2.0
        nv.sync_threads()
        if t == 0:
            if before:
                nv.threadfence()
            share[0] = memref.atomic_rmw(arith.AtomicRMWKind.addi, const(1, nv.i32), counter, [const(0)])
            if after:
                nv.threadfence()
        nv.sync_threads()
        if share[0] == parts - 1:
            total = nv.f32(0.0)
            for i in nv.range(parts):
                total = total + work[i, t]
            out[t] = total

    kernel()


@nv.jit
def reduced(a, b, d, *, fence=True, parts=2):
    """Split-K: each block's product is added to the result by a TMA reduction, staged in halves of 32 columns."""
    steps = a.shape[1] // 64 // parts
    a_tma = nv.TMA(a, tile=(64, 64), swizzle=128)
    b_tma = nv.TMA(b, tile=(64, 64), swizzle=128)
    d_tma = nv.TMA(d, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=parts, block=128)
    def kernel():
        A = nv.smem((64, 64), a.dtype, swizzle=128)
        B = nv.smem((64, 64), b.dtype, swizzle=128)
        D = nv.smem((64, 64), d.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        acc = nv.accumulator(64, 64, nv.f32)
        for k in nv.range(steps):
            if t == 0:
                full.arrive_expect_tx(A.bytes + B.bytes)
                a_tma.load(A, full, (0, (nv.block_id.x * steps + k) * 64))
                b_tma.load(B, full, ((nv.block_id.x * steps + k) * 64, 0))
            full.wait(k & 1)
            acc += A @ B
            nv.wgmma_wait(0)
            nv.sync_threads()
        for row, col, value in acc.elements():
            D[row, col] = value
        if fence:
            nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            d_tma.reduce_add(D, (0, 0))
            tma.bulk_commit_group()
            tma.bulk_wait_group(0, read=True)

    kernel()
