# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %python %s --M 3 --N 777 --threads 64 --lanes 64 2>&1 | FileCheck %s --check-prefix=OTHER
"""Chapter 11: softmax of rows, ``y[i, j] = exp(x[i, j]) / sum of exp(x[i, :])``.

Nothing here multiplies matrices: what costs time is memory, and what has to be organized is who has what. ``lanes``
threads share a row. Each reads every ``lanes``-th part of 16 bytes and keeps a maximum and a sum of its own; then the
threads of the row agree on both.

What is new: vectors and collectives. ``x.vector((row, col), 8)`` and ``y.store_vector`` move 16 bytes in one access,
and vectors compute element by element. ``nv.block.max(x, width=lanes)`` gives each thread the maximum of its group: by
shuffles within a warp, through shared memory and a barrier where a row has more threads (docs/collectives.md).

    thread t of a row      reads x[t*8 : t*8+8], x[(t+lanes)*8 : ...], ... in turn
                           keeps their maximum m, and the sum s of exp(x - m), times exp(m - m') when m grows to m'
    all threads of a row   M = the maximum of m, S = the sum of s * exp(m - M)
    thread t of a row      writes y = exp(x - M) / S; the row comes from the cache this time

A maximum is subtracted because exp(89) is infinite in f32. It is kept while reading (an *online* softmax), so the first
pass reads a row once whatever its length. Threads whose row is beyond the last one work on the last row and store
nothing: all threads of a group have to come to its collectives.

Try: --lanes 8 with --N 50; --lanes 256, so that eight warps share a row; f16 arrays (the vectors get 8 elements).

Next: what a block writes in rows and reads in columns goes through shared memory. Chapter 12 transposes.

Break it: let the threads agree on the maximum at once, in the loop.

    -             higher = nv.max(mine, v.max())
    +             higher = nv.block.max(nv.max(mine, v.max()), width=lanes)

    SimError: ch11_row_softmax.py:59: shfl.sync.bfly in warp 0 of block 0 names lanes 0-31, and lanes 0-25 execute it:
          lanes 26-31 never come
      rule: the lanes that the mask names execute it, and no others (PTX ISA, membermask); else it is undefined
      fix:  move it out of the `if`, or name the lanes that are there

250 parts in turn for 32 threads: the last six have one fewer, have left the loop, and the others wait for their values.
"""

import math

import numpy as np

import nvdsl as nv


@nv.jit
def softmax(x, y, *, threads=256, lanes=32):
    rows, cols = x.shape
    wide = math.gcd(cols, x.strides[0], y.strides[0], 16 // x.dtype.bytes, 16 // y.dtype.bytes)
    nv.require(x.strides[1] == y.strides[1] == 1, "a row's elements lie side by side")

    @nv.kernel(grid=nv.cdiv(rows, threads // lanes), block=threads)
    def kernel():
        place = nv.block_id.x * (threads // lanes) + nv.thread_id.x // lanes
        row, first = nv.min(place, rows - 1), nv.thread_id.x % lanes * wide
        mine, total = nv.f32(nv.f32.min), nv.f32(0.0)
        for col in nv.range(first, cols, lanes * wide, unroll=4):
            v = x.vector((row, col), wide).to(nv.f32)
            higher = nv.max(mine, v.max())
            total = total * nv.math.exp(mine - higher) + nv.math.exp(v - higher).sum()
            mine = higher
        highest = nv.block.max(mine, width=lanes)
        scale = 1.0 / nv.block.sum(total * nv.math.exp(mine - highest), width=lanes)
        if place < rows:
            for col in nv.range(first, cols, lanes * wide):
                v = x.vector((row, col), wide).to(nv.f32)
                y.store_vector(nv.math.exp(v - highest) * scale, (row, col))

    kernel()


# CHECK-LABEL: func.func @softmax
# CHECK:         gpu.launch blocks
# CHECK:           scf.for
# CHECK:             vector.load {{.*}} vector<4xf32>
# CHECK:             arith.maxnumf
# CHECK:           nvvm.shfl.sync bfly
# CHECK:           arith.maxnumf
# CHECK:           nvvm.shfl.sync bfly
# CHECK:           arith.addf
# CHECK:           arith.divf
# CHECK:             vector.store {{.*}} vector<4xf32>
# OTHER: 64 threads
# OTHER: PASS


def main(M=100, N=1000, threads=256, lanes=32):
    x = 50 * np.random.default_rng(0).standard_normal((M, N), dtype=np.float32)
    y = np.full_like(x, np.nan)
    print(softmax.compile(x, y, threads=threads, lanes=lanes).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    softmax(x, y, threads=threads, lanes=lanes)
    e = np.exp(x - x.max(axis=1, keepdims=True).astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
