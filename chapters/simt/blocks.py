# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 20 --N 40 --K 24 --threads 4x8 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""SIMT 1: a product of f32 without tensor cores, and why threads should share what they read.

Multiplications and additions of f32 are done by each thread for itself (the H200 has 128 multiply-adds a clock in each
SM). The ladder of this folder is the blocked matrix product of "Dive into Deep Learning Compiler" (TVM), with two more
steps. Each row stands here twice: written by hand, and as a schedule, a list of steps that make the kernel
(docs/schedules.md).

**0 naive.** A thread has one element of C, and reads a row of A and a column of B. Neighbouring threads are below each
other in C: what a warp reads of A in one instruction lies in 32 rows, so that memory serves it in 32 parts.

**1 blocks.** The same with neighbouring threads side by side. A warp reads one or two elements of A, which all of its
threads get at once, and neighbours of B. Nothing else has changed.

**2 shared memory.** A block of threads needs few rows of A and few columns of B, again and again. ``nv.copy`` lets all
threads fetch a tile of each, an element a thread in each turn ("cooperative fetching"), between two barriers. Every
element of a tile of 16 x 16 is then read from memory once and used 16 times.

What a thread still does for each multiply-add: two loads from shared memory. Those are the limit now, and the next
chapter takes them away.

Try: --threads 32x32, --M 100 (edges: a part that reaches past its array is zeros, and ``if`` guards the store);
``nvdsl show chapters/simt/blocks.py steps --after copies``.

Next: sums of many elements in the registers of each thread, in ``chapters/simt/registers.py``.

Break it: no barrier behind the products.

    -             nv.sync_threads()  # before the next step overwrites them

    SimError: blocks.py:78: store by warp 0 of block (0, 0) at blocks.py:78 touches bytes 1024..1535 of shared memory of
          load by warp 7 of block (0, 0) at blocks.py:81: nothing orders the two
      first:  load by warp 7 of block (0, 0) at blocks.py:81
      second: store by warp 0 of block (0, 0) at blocks.py:78
      rule: a barrier must order another warp's load before this store
      fix:  nv.sync_threads(), a named barrier or an mbarrier between the two
"""

import numpy as np

import nvdsl as nv
from nvdsl import schedule as sc


@nv.jit
def one_each(a, b, c, *, threads=(16, 16), down=False):
    (m, k), (_, n) = a.shape, b.shape
    rows, columns = threads

    @nv.kernel(grid=(nv.cdiv(n, columns), nv.cdiv(m, rows)), block=rows * columns)
    def kernel():
        t = nv.thread_id.x
        y, x = (t % rows, t // rows) if down else (t // columns, t % columns)
        row, column = nv.block_id.y * rows + y, nv.block_id.x * columns + x
        if row < m and column < n:
            total = nv.f32(0)
            for i in nv.range(k):
                total = nv.math.fma(a[row, i], b[i, column], total)
            c[row, column] = total

    kernel()


@nv.jit
def shared(a, b, c, *, threads=(16, 16), depth=16):
    (m, k), (_, n) = a.shape, b.shape
    rows, columns = threads

    @nv.kernel(grid=(nv.cdiv(n, columns), nv.cdiv(m, rows)), block=rows * columns)
    def kernel():
        A, B = nv.smem((rows, depth), nv.f32), nv.smem((depth, columns), nv.f32)
        top, left = nv.block_id.y * rows, nv.block_id.x * columns
        y, x = nv.thread_id.x // columns, nv.thread_id.x % columns
        total = nv.f32(0)
        for step in nv.range(0, k, depth):
            nv.copy(a[top : top + rows, step : step + depth], A)
            nv.copy(b[step : step + depth, left : left + columns], B)
            nv.sync_threads()
            for i in range(depth):
                total = nv.math.fma(A[y, i], B[i, x], total)
            nv.sync_threads()  # before the next step overwrites them
        if top + y < m and left + x < n:
            c[top + y, left + x] = total

    kernel()


def rows(threads, depth):
    """Name, kernel with its options, and schedule of each row."""
    m, n = threads
    alone = ["stage", "merge_barriers", "copies"]
    below = sc.fma_steps((m * n, 1, depth), (m * n, 1), without=alone)
    yield "0 naive", one_each, {"threads": threads, "down": True}, below
    yield "1 blocks", one_each, {"threads": threads}, sc.fma_steps((m, n, depth), threads, without=alone)
    yield "2 shared memory", shared, {"threads": threads, "depth": depth}, sc.fma_steps((m, n, depth), threads)


def check(rows, M, N, K):
    """Each row, by hand and as a schedule, beside NumPy's product."""
    a, b = (np.random.default_rng(M).integers(-2, 3, shape).astype(np.float32) for shape in ((M, K), (K, N)))
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    forms = [
        (name, len(steps), ((by_hand, options), (sc.compile(sc.matmul(M, N, K, nv.f32), steps), {})))
        for name, by_hand, options, steps in rows
    ]
    compiled = [[form.compile(a, b, a @ b, **more) for form, more in both] for *_, both in forms]
    for (name, count, both), made in zip(forms, compiled, strict=True):
        for run, more in both:
            c = np.full((M, N), np.nan, np.float32)
            run(a, b, c, **more)
            np.testing.assert_array_equal(c, a @ b)
        kernels = [kernel for one in made for kernel in one.kernels.values()]
        used = [f"{k.resources.registers:3} registers, {k.smem_bytes:6,} bytes of shared memory" for k in kernels]
        print(f"{name:20} {used[0]}; {count} steps: {used[1]}")
    print("PASS")


# CHECK: 0 naive
# CHECK: 2 shared memory {{.*}} 2,048 bytes of shared memory; 7 steps
# CHECK: PASS
# OTHER: 2 shared memory
# OTHER: PASS


def main(M=32, N=32, K=32, threads=(16, 16)):
    check(rows(threads, 16), M, N, K)


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from command_line import run

    run(main)
