# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %python %s --n 777 --bins 7 --threads 96 --blocks 3 2>&1 | FileCheck %s --check-prefix=OTHER
"""Chapter 13: a histogram, ``bins[v] = how many elements of x are v``.

Any thread may find any value, so that two threads may want to count in the same bin at the same time. ``bins[v] += 1``
is a load, an addition and a store: if both have loaded before one stores, one of the two is lost.

What is new: atomics. ``mine.atomic_add(v, 1)`` adds in one step that nothing comes between. It is a method of arrays
and tiles, in global and in shared memory (docs/atomics.md). Where nobody uses the number that was there before, as
here, the thread doesn't wait for it.

    block 0    counts its elements in shared memory, in bins of its own   |
    block 1    the same                                                   | adds them to the result
    block 2    the same                                                   |

Blocks count for themselves first (a *privatized* histogram): an atomic in shared memory is near, and threads of
other blocks are not in its way. What then goes to global memory is one addition a bin and block, however long x is.

Atomics order nothing but themselves, and for counting that is enough. That the zeros are there before the first count,
and the last count before the sums leave, is what the two barriers say.

Try: --bins 2, where all lanes of a warp are in each other's way; --blocks 1.

Break it: count without an atomic.

    -             mine.atomic_add(x[i], 1)
    +             mine[x[i]] += 1

    SimError: ch13_histogram.py:51: load by warp 0 of block 0 at ch13_histogram.py:51 touches bytes 16..19 of shared
          memory (and more) of store by warp 7 of block 0 at ch13_histogram.py:51: nothing orders the two
      first:  store by warp 7 of block 0 at ch13_histogram.py:51
      second: load by warp 0 of block 0 at ch13_histogram.py:51
      rule: of a load, a computation and a store of two threads at one place one may be lost
      fix:  an atomic where they add (nv.atomic_add), or a barrier between one thread's turn and the other's
"""

import numpy as np

import nvdsl as nv


@nv.jit
def histogram(x, bins, *, threads=256, blocks=8):
    @nv.kernel(grid=blocks, block=threads)
    def kernel():
        mine = nv.smem(bins.shape, nv.i32)
        for b in nv.range(nv.thread_id.x, bins.shape[0], threads):
            mine[b] = 0
        nv.sync_threads()
        for i in nv.range(nv.block_id.x * threads + nv.thread_id.x, x.shape[0], blocks * threads):
            mine.atomic_add(x[i], 1)
        nv.sync_threads()
        for b in nv.range(nv.thread_id.x, bins.shape[0], threads):
            bins.atomic_add(b, mine[b])

    kernel()


# CHECK-LABEL: func.func @histogram
# CHECK:         gpu.launch blocks
# CHECK:           memref.store
# CHECK:           gpu.barrier
# CHECK:           scf.for
# CHECK:             memref.load {{.*}} memref<10000xi8>
# CHECK:             llvm.atomicrmw add {{.*}} syncscope("block") monotonic : !llvm.ptr<3>, i32
# CHECK:           gpu.barrier
# CHECK:             llvm.atomicrmw add {{.*}} syncscope("device") monotonic : !llvm.ptr<1>, i32
# OTHER: 96 threads
# OTHER: PASS


def main(n=10000, bins=256, threads=256, blocks=8):
    x = np.random.default_rng(0).integers(0, bins, n).astype(np.uint8)
    counts = np.zeros(bins, np.int32)
    print(histogram.compile(x, counts, threads=threads, blocks=blocks).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    histogram(x, counts, threads=threads, blocks=blocks)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=bins))
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
