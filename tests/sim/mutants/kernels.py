"""Small correct kernels whose warps, blocks and launches tell each other that something is done, each in its way."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.pointer import GLOBAL, address_of, byte_offset
from nvdsl.values.traced import const, wrap


def count(counter: Any, order: str = "acq_rel") -> Any:
    """``counter[0]++`` of the device; what it was."""
    add, kind = llvm.AtomicBinOp.add, getattr(llvm.AtomicOrdering, order)
    at = address_of(counter, space=GLOBAL)
    return wrap(llvm.atomicrmw(add, at, const(1, nv.i32), kind, syncscope="device"), nv.i32)


@nv.jit
def warp_exchange(x, out):
    """Each warp turns a tile of 32 x 4 around in its part of shared memory, twice."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        tiles = nv.smem((2, 4, 32), x.dtype)
        tile, lane = tiles[nv.warp_id()], nv.lane_id()
        row, col = lane // 8, lane % 8 * 4
        for turn in nv.range(2):
            for i in range(4):
                tile[i, lane] = x[turn, nv.warp_id() * 4 + i, lane]
            nv.sync_warp()
            for i in range(4):
                out[turn, nv.warp_id() * 4 + row, col + i] = tile[row, col + i] + 1.0
            nv.sync_warp()

    kernel()


@nv.jit
def warp_sums(x, out):
    """Sums within warps by shuffles; one lane of each hands its sum to the first warp."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        sums = nv.smem((2,), x.dtype)
        warp, total = nv.warp_id(), x[nv.thread_id.x]
        for distance in (16, 8, 4, 2, 1):
            total += nv.shuffle_xor(total, distance)
        if nv.lane_id() == 0:
            sums[warp] = total
        nv.sync_threads()
        if nv.thread_id.x == 0:
            out[0] = sums[0] + sums[1]

    kernel()


@nv.jit
def released_by_a_lane(x, out, *, rounds=5):
    """Warp 0 fills a slot with ordinary stores, and its first lane releases it; warp 1 reads and gives it back."""

    @nv.kernel(grid=1, block=64)
    def kernel():
        slots = nv.smem((2, 1, 32), x.dtype)
        full, empty = nv.Mbarriers(2, arrivals=1, sync=False), nv.Mbarriers(2, arrivals=1)
        lane = nv.lane_id()
        if nv.warp_id() == 0:
            for i in nv.range(rounds):
                if i >= 2:
                    empty[i % 2].wait((i // 2 + 1) % 2)
                slots[i % 2][0, lane] = x[i, lane]
                nv.sync_warp()
                if lane == 0:
                    full[i % 2].arrive()
        else:
            for i in nv.range(rounds):
                full[i % 2].wait(i // 2 % 2)
                out[i, lane] = slots[i % 2][0, lane] * 2.0
                nv.sync_warp()
                if lane == 0:
                    empty[i % 2].arrive()

    kernel()


@nv.jit
def elected_store(x, out):
    """A tile is written by all threads and stored by TMA, which one elected lane issues."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = x[i, t] * 2.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.warp_id() == 0:
            if nv.elect():
                out_tma.store(tile, (0, 0))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

    kernel()


@nv.jit
def peer_ring(x, out, *, cluster=4):
    """Each block of a cluster passes what it got on to the next one's shared memory, until each has seen all."""

    @nv.kernel(grid=cluster, block=32, cluster=cluster)
    def kernel():
        slots = nv.smem((cluster - 1, 32), x.dtype)
        full = nv.Mbarriers(cluster - 1, arrivals=32, sync=False)
        nv.cluster_sync()
        t, rank = nv.thread_id.x, nv.cluster_rank()
        value = x[rank, t]
        total = value
        peer = nv.mapa(slots.pointer(), (rank + 1) % cluster)
        for i in nv.range(cluster - 1):
            llvm.store(value, byte_offset(peer, (i * 32 + t) * 4), alignment=4)
            full[i].arrive_cluster((rank + 1) % cluster)
            full[i].wait(0)
            value = slots[i, t]
            total += value
        out[rank, t] = total

    kernel()


@nv.jit
def launches(x, y, z, out):
    """Three launches, each of which may start before the one before has ended."""

    @nv.kernel(grid=2, block=32)
    def first():
        nv.griddep_launch_dependents()
        i = nv.block_id.x * 32 + nv.thread_id.x
        y[i] = x[i] + 1.0

    @nv.kernel(grid=2, block=32, programmatic=True)
    def second():
        nv.griddep_launch_dependents()
        nv.griddep_wait()
        i = nv.block_id.x * 32 + nv.thread_id.x
        z[i] = y[63 - i] * 2.0

    @nv.kernel(grid=2, block=32, programmatic=True)
    def third():
        nv.griddep_wait()
        i = nv.block_id.x * 32 + nv.thread_id.x
        out[i] = y[i] + z[63 - i]

    first()
    second()
    third()


@nv.jit
def flagged(x, data, flag, out):
    """Block 0 writes and releases a flag; block 1 acquires it and reads."""

    @nv.kernel(grid=2, block=64)
    def kernel():
        t = nv.thread_id.x
        if nv.block_id.x == 0:
            data[t] = x[t] + 7.0
            nv.sync_threads()
            if t == 0:
                store_release(flag, 0, 1)
        else:
            if t == 0:
                while load_acquire(flag, 0) == 0:
                    pass
            nv.sync_threads()
            out[t] = data[63 - t]

    kernel()


@nv.jit
def flagged_by_fences(x, data, flag, out):
    """The same with relaxed accesses to the flag, and a memory barrier on each side."""

    @nv.kernel(grid=2, block=64)
    def kernel():
        t = nv.thread_id.x
        relaxed = {"ordering": llvm.AtomicOrdering.monotonic, "syncscope": "device", "alignment": 4}
        at = address_of(flag, space=GLOBAL)
        if nv.block_id.x == 0:
            data[t] = x[t] + 7.0
            nv.sync_threads()
            if t == 0:
                nv.threadfence()
                llvm.store(const(1, nv.i32), at, **relaxed)
        else:
            if t == 0:
                seen = wrap(llvm.load(nv.i32.ir, at, **relaxed), nv.i32)
                while seen == 0:
                    seen = wrap(llvm.load(nv.i32.ir, at, **relaxed), nv.i32)
                nv.threadfence()
            nv.sync_threads()
            out[t] = data[63 - t]

    kernel()


@nv.jit
def last_block(x, parts, counter, out, *, fences=False):
    """Each block writes its part and counts itself; the last one sums all. ``fences``: with `__threadfence`."""

    @nv.kernel(grid=x.shape[0], block=64)
    def kernel():
        seen = nv.smem((1,), nv.i32)
        t = nv.thread_id.x
        parts[nv.block_id.x, t] = x[nv.block_id.x, t] * 2.0
        nv.sync_threads()
        if t == 0:
            if fences:
                nv.threadfence()
            seen[0] = count(counter, "monotonic" if fences else "acq_rel")
            if fences:
                nv.threadfence()
        nv.sync_threads()
        if seen[0] == x.shape[0] - 1:
            total = nv.f32(0.0)
            for i in nv.range(x.shape[0]):
                total += parts[i, t]
            out[t] = total

    kernel()


@nv.jit
def atomic_sums(x, out):
    """Blocks add their parts of K to one result, which the launch before set to zero."""

    @nv.kernel(grid=1, block=64)
    def clear():
        out[nv.thread_id.x] = 0.0

    @nv.kernel(grid=x.shape[0], block=64)
    def kernel():
        t = nv.thread_id.x
        at = byte_offset(address_of(out, space=GLOBAL), t * 4)
        add, relaxed = llvm.AtomicBinOp.fadd, llvm.AtomicOrdering.monotonic
        llvm.atomicrmw(add, at, x[nv.block_id.x, t], relaxed, syncscope="device")

    clear()
    kernel()


@nv.jit
def drawn(x, counter, out):
    """Blocks take rows from a queue: one thread draws them, a warp doubles them."""

    @nv.kernel(grid=2, block=64)
    def kernel():
        queue = nv.TileQueue(counter, x.shape[0], readers=1)
        lane, work = nv.lane_id(), queue.begin()
        if nv.warp_id() == 0:
            if lane == 0:
                while work.valid:
                    work = queue.draw(work)
        else:
            while work.valid:
                out[work.tile, lane] = x[work.tile, lane] * 2.0
                work = queue.next(work)

    kernel()


@nv.jit
def in_turns(x, out, *, count=3):
    """Warps take turns: each adds its row to what the ones before left."""

    @nv.kernel(grid=1, block=32 * count)
    def kernel():
        sums, turns = nv.smem((32,), x.dtype), nv.Turns(count, threads=32)
        warp, lane = nv.warp_id(), nv.lane_id()
        if warp == 0:
            sums[lane] = 0.0
        turns.begin(warp)
        for i in nv.range(x.shape[0] // count):
            turns.wait(warp)
            total = sums[lane] + x[i * count + warp, lane]
            sums[lane] = total
            turns.pass_on(warp)
            out[i * count + warp, lane] = total
        turns.end(warp)

    kernel()


@nv.jit
def privatized(x, out):
    """A histogram: each block counts in shared memory, and adds its counts to the result of a launch before."""

    @nv.kernel(grid=1, block=32)
    def clear():
        out[nv.thread_id.x] = 0.0

    @nv.kernel(grid=x.shape[0], block=64)
    def kernel():
        t = nv.thread_id.x
        bins = nv.smem((32,), nv.i32)
        if t < 32:
            bins[t] = 0
        nv.sync_threads()
        bins.atomic_add(nv.i32(x[nv.block_id.x, t]) + 3, 1)
        nv.sync_threads()
        out.atomic_add(t, bins[t % 32], predicate=t < 32)

    clear()
    kernel()


@nv.jit
def column_sums(x, out):
    """Sums of columns, which four warps hold, through the same shared memory again and again."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        scratch = nv.smem(4 * 8, nv.f32)
        for turn in nv.range(3):
            part = nv.fragment(x, (turn, 0, 0), (64, 8))
            part.sum(axis=0, scratch=scratch).store(out, (turn, 0))

    kernel()


@nv.jit
def around_the_grid(x, y, counter, out):
    """Each block takes the row of the one before it, twice, with a barrier of the grid between."""

    @nv.kernel(grid=x.shape[0], block=64)
    def kernel():
        b, t, blocks = nv.block_id.x, nv.thread_id.x, x.shape[0]
        y[b, t] = x[(b + blocks - 1) % blocks, t] + 1.0
        nv.grid_sync(counter)
        out[b, t] = y[(b + blocks - 1) % blocks, t] + 1.0

    kernel()
