# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 64 --N 128 --K 192 --stages 3 --tile 64x128x64 --consumers 1 2>&1 \
# RUN:   | FileCheck %s --check-prefix=OTHER %}
"""Chapter 6: an epilogue through shared memory: stmatrix, then a TMA store.

A thread's part of an accumulator is pairs of neighbouring columns, 8 columns from one pair to the next. Stored from
there (chapter 5's ``acc.store``), every warp writes 16 bytes into each of 8 rows at a time: the memory system moves
32-byte sectors half full, and nobody multiplies meanwhile. So the tile is put together in shared memory and leaves in
whole rows:

    registers --cvt--> f16 pairs --stmatrix--> 64 x 64 piece of shared memory --TMA--> global memory
                                               (128-byte swizzle: no bank conflicts)

This is the longest step of all chapters, so take it in two. `write` fills one piece:

- ``stmatrix`` writes four 8x8 matrices of a warp at once, in the register layout that wgmma leaves. Each lane gives the
  address of one row of one of them; it need not hold anything of that row.

`store` decides who may write a piece, and when:

- Ordinary writes and TMA see shared memory through different *proxies*. So everyone who wrote executes
  ``fence.proxy.async``, then the warpgroup meets, then one thread stores. They meet at a *named* barrier: the other
  consumer has its own.
- Nobody waits for the store to end. Only before a piece is written again must TMA have read it: ``wait_group.read``.
- With two pieces a consumer fills one while TMA reads the other.

In the simulator it looks like docs/pictures/ch6_slots.svg: the stores come at the end, when nothing is loaded.

What is new: `nv.stmatrix`, `nv.fence_proxy_async`, `nv.named_barrier_sync`, TMA stores and their groups.

Measured on an H200 at M = N = K = 8192: 675 TFLOPS, 1.01 of cuBLAS beside it.

Try: one piece a consumer instead of two (the simulator reports the second stmatrix, until the wait before it is for 0
groups).

Next: while a block stores, its SM multiplies nothing. In chapter 7 the ring fills for the next tile meanwhile.

Break it: leave out the fence.

    -         nv.fence_proxy_async()  # TMA reads through another proxy than stmatrix wrote through

    VerifyError: ch6_tma_store_gemm.py:122: this TMA store reads shared memory that ordinary stores wrote at line 135,
          with no proxy fence in between
      rule: stores go through the generic proxy, TMA and wgmma read through the async proxy: each thread that stored
            orders the two with fence.proxy.async (PTX ISA, Async proxy, membar/fence)
      fix:  nv.fence_proxy_async() behind the stores, then nv.sync_threads()

The barrier behind it does not help: it orders what threads do, and TMA is no thread. A GPU may well give right results
all the same.
"""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(a, b, d, *, stages=4, tile=(128, 256, 64), consumers=2):
    """d[M, N] = a[M, K] @ b[K, N]; f16 in, f32 sums, f16 out."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, BN))
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    nv.require(BM == 64 * consumers, f"{BM} rows for {consumers} consumers", rule="each consumer sums 64 rows")
    steps = nv.cdiv(K, BK)
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)
    d_tma = nv.TMA(d, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=(M // BM, N // BN), block=128 * (1 + consumers))
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        D = nv.smem((2 * consumers, 64, 64), d.dtype, swizzle=128)  # two pieces for each consumer
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4 * consumers)
        row, col = nv.block_id.x * BM, nv.block_id.y * BN
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for k in nv.range(steps):
                    full = ring.acquire(state)
                    a_tma.load(A[state.stage], full, (row, k * BK))
                    b_tma.load(B[state.stage], full, (k * BK, col))
                    state = state.next()
        else:  # consumers
            nv.setmaxnreg_inc(232)
            consumer = warpgroup - 1
            acc = nv.accumulator(64, BN, nv.f32)
            state = ring.consumer_state()
            previous = state
            for k in nv.range(steps):
                ring.wait(state)
                acc += A[state.stage].rows(consumer * 64, 64) @ B[state.stage]
                nv.wgmma_wait(1)
                ring.release(previous, predicate=nv.lane_id() == 0 and k > 0)
                previous = state
                state = state.next()
            nv.wgmma_wait(0)
            store(acc, D, d_tma, row + consumer * 64, col, consumer)
            if nv.warpgroup_thread() == 0:
                nv.bulk_wait_group(0, read=True)  # the block's shared memory ends with it

    kernel()


def store(acc, pieces, d_tma, row, col, consumer):
    """Convert ``acc`` to f16 and store it at (row, col), 64 x 64 elements at a time, through two of ``pieces``."""
    leader = nv.warpgroup_thread() == 0
    registers = acc.registers()  # a list for each 64 rows
    places = [(top, left) for top in range(acc.m // 64) for left in range(acc.n // 64)]
    for number, (top, left) in enumerate(places):
        piece = pieces[consumer * 2 + number % 2]
        if leader:
            nv.bulk_wait_group(1, read=True)  # TMA has read what this piece held before
        nv.named_barrier_sync(consumer + 1, 128)  # all know that they may write
        write(registers[top][left * 32 : left * 32 + 32], piece)
        nv.fence_proxy_async()  # TMA reads through another proxy than stmatrix wrote through
        nv.named_barrier_sync(consumer + 1, 128)  # all have written
        if leader:
            d_tma.store(piece, (row + top * 64, col + left * 64))
            nv.bulk_commit_group()  # and go on: nobody waits for it here


def write(sums, piece):
    """Write 64 x 64 sums, 32 in each thread, into ``piece`` as f16: 16 rows a warp, 16 columns a stmatrix."""
    thread = nv.warpgroup_thread()
    # Of the four 8x8 matrices two are rows 0-7 and 8-15, the other two lie 8 columns to the right. Lanes 0-15 give the
    # addresses of the 16 rows on the left, lanes 16-31 those on the right.
    start = piece.layout.offset(thread // 32 * 16 + thread % 16, thread % 32 // 16 * 8)
    for i in range(4):
        x = sums[i * 8 : i * 8 + 8]
        packed = [nv.pack_pair(low, high, nv.f16) for low, high in zip(x[::2], x[1::2], strict=True)]
        nv.stmatrix(piece.pointer(start ^ (i * 32)), packed)  # 16 columns on: an XOR under the swizzle


# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch blocks
# CHECK:           nvvm.setmaxregister decrease 40
# CHECK:           nvvm.setmaxregister increase 232
# CHECK:             nvvm.wgmma.wait.group.sync.aligned 0
# The first of four pieces.
# CHECK:             nvvm.cp.async.bulk.wait_group 1 {read}
# CHECK:             nvvm.barrier
# CHECK-COUNT-4:     nvvm.stmatrix
# CHECK:             nvvm.fence.proxy
# CHECK:             nvvm.barrier
# CHECK:             nvgpu.tma.async.store
# CHECK:             nvvm.cp.async.bulk.commit.group
# OTHER: PASS


def main(M=256, N=512, K=512, stages=4, tile=(128, 256, 64), consumers=2):
    chosen = {"stages": stages, "tile": tile, "consumers": consumers}
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float16)
    print(f"stmatrix and TMA store: {M} x {N} x {K}, f16 in, f16 out")
    print(gemm.compile(a, b, d, **chosen).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm(a, b, d, **chosen)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    error = np.linalg.norm(d - expected) / np.linalg.norm(expected)
    print(f"relative error against NumPy in float32: {error:.1e}")
    assert error < 1e-3  # d is rounded to f16
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
