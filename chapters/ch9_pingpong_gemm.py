# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 384 --N 128 --K 128 --stages 6 --tile 128x128x64 --blocks 1 2>&1 \
# RUN:   | FileCheck %s --check-prefix=OTHER %}
"""Chapter 9: ping-pong. Each consumer has a tile of its own; one multiplies while the other stores.

In chapter 7 both consumers work on one tile, so both store at the same time, and the tensor cores wait. Here they take
turns: consumer 0 has the even tiles of its block, consumer 1 the odd ones.

    producer     load 0     | load 1     | load 2     | load 3
    consumer 0   multiply 0 | store 0 .. | multiply 2 | store 2 ..
    consumer 1              | multiply 1 | store 1 .. | multiply 3

- One ring serves both. A consumer skips the slots of the other's tiles: ``state.advance(steps)``.
- *Turns* are passed with two named barriers of all 256 threads: the one whose turn begins waits (``sync``), the other
  says so without waiting (``arrive``). It says so when its last products are issued, not when they are done, so that
  the other's first ones queue up right behind them.
- The turn is also what makes skipping safe. A wait names only a parity, so it would return at once in a slot that is
  still a round behind. When its turn begins, a consumer knows that all slots before its own have been filled.
- The tile is 128 x 192 for one warpgroup: two wgmmas of 64 x 192 a step, 192 registers of sums a thread.

In the simulator it looks like docs/pictures/ch9_slots.svg: one consumer's stores lie beside the other one's wgmmas. The
epilogue is chapter 6's `store` again. It has no clusters: chapter 8's did not pay.

What is new: two accumulator blocks a consumer, `nv.named_barrier_arrive`, ``state.advance``.

Measured on an H200 at M = N = K = 8192: 773 TFLOPS, 1.03 of cuBLAS beside it.

Try: leave the turns out, in the simulator: what does consumer 1 find in its first slot (the loads that it does not wait
for)? Also --tile 128x128x64 --stages 6.

Next: chapters 7 and 9 are each the fastest for some shapes. Chapter 10 finds out which, and with which numbers.

Break it: pass the turn on, but never wait for it.

    -                 nv.named_barrier_sync(my_turn, 256)

    VerifyError: ch9_pingpong_gemm.py:107: named barrier 3 waits for 256 threads, and 128 come: 256-383; the others are
          kept out at line 105
      rule: a barrier opens when all its threads have come (PTX ISA, barrier); here it never does
      fix:  pass 128, or let the others sync or arrive at it too

A named barrier opens when as many threads have come as it counts. The 128 that pass the turn on are half of them; the
other half are those who wait for it.
"""

import sys
from pathlib import Path

import numpy as np

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also when it is run as a program
from chapters.ch6_tma_store_gemm import store


@nv.jit
def gemm(a, b, d, *, stages=4, tile=(128, 192, 64), blocks=132, group=16):
    """d[M, N] = a[M, K] @ b[K, N]; f16 in, f32 sums, f16 out."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, 64))  # TMA cuts off what a tile has beyond the last column
    steps, rows, cols = nv.cdiv(K, BK), M // BM, nv.cdiv(N, BN)
    tiles, group = rows * cols, min(group, rows)
    pieces = BM * BN // (64 * 64)
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    nv.require(pieces % 2 == 0, f"a tile of {pieces} pieces", rule="pieces take turns in two buffers, tile after tile")
    blocks = min(blocks, tiles)  # a block without a tile would pass on a turn that nobody takes
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)
    d_tma = nv.TMA(d, tile=(64, 64), swizzle=128)

    def place(t):
        """First row and column of tile ``t``: groups of ``group`` rows of tiles, in a group column by column."""
        band, within = t // (group * cols), t % (group * cols)
        first = band * group
        height = group if rows % group == 0 else nv.min(group, rows - first)
        return (first + within % height) * BM, (within // height) * BN

    @nv.kernel(grid=blocks, block=384)
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        D = nv.smem((4, 64, 64), d.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4)  # one consumer's warps read a slot
        first = nv.block_id.x
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for t in nv.range(first, tiles, blocks):
                    row, col = place(t)
                    for k in nv.range(steps):
                        full = ring.acquire(state)
                        a_tma.load(A[state.stage], full, (row, k * BK))
                        b_tma.load(B[state.stage], full, (k * BK, col))
                        state = state.next()
        else:  # consumers
            nv.setmaxnreg_inc(232)
            consumer = warpgroup - 1
            my_turn, others_turn = 3 + consumer, 4 - consumer  # barriers 1 and 2 are the epilogue's
            state = ring.consumer_state()
            if consumer == 1:
                state = state.advance(steps)  # the first tile is consumer 0's
                nv.named_barrier_arrive(others_turn, 256)
            for t in nv.range(first + consumer * blocks, tiles, 2 * blocks):
                row, col = place(t)
                nv.named_barrier_sync(my_turn, 256)
                acc = nv.accumulator(BM, BN, nv.f32)
                ring.wait(state)
                acc += A[state.stage] @ B[state.stage]
                previous = state
                state = state.next()
                for _ in nv.range(1, steps, unroll=False):
                    ring.wait(state)
                    acc += A[state.stage] @ B[state.stage]
                    nv.wgmma_wait(1)
                    ring.release(previous, nv.lane_id() == 0)
                    previous = state
                    state = state.next()
                if t + blocks < tiles:
                    nv.named_barrier_arrive(others_turn, 256)
                nv.wgmma_wait(0)
                ring.release(previous, nv.lane_id() == 0)
                state = state.advance(steps)
                store(acc, D, d_tma, row, col, consumer)
            if nv.warpgroup_thread() == 0:
                nv.bulk_wait_group(0, read=True)

    kernel()


# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch blocks
# CHECK:           nvvm.setmaxregister increase 232
# CHECK:           nvvm.barrier.arrive
# CHECK:           scf.for
# CHECK:             nvvm.barrier
# CHECK-COUNT-8:     nvvm.wgmma.mma_async
# CHECK:             scf.for
# CHECK:             nvvm.barrier.arrive
# CHECK:             nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:             nvgpu.tma.async.store
# OTHER: PASS


def main(M=512, N=384, K=256, stages=4, tile=(128, 192, 64), blocks=2, group=16):
    chosen = {"stages": stages, "tile": tile, "blocks": blocks, "group": group}
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float16)
    print(f"ping-pong: {M} x {N} x {K}, f16 in, f16 out")
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
