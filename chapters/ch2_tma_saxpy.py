# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %python %s --M 24 --N 96 --tile 8x32 2>&1 | FileCheck %s --check-prefix=OTHER
"""Chapter 2: 2-D saxpy through TMA and an mbarrier.

The Tensor Memory Accelerator copies a box of a 2-D array into shared memory. One thread asks for it; the copy
runs on its own and reports to an *mbarrier*, a counter in shared memory. A phase of an mbarrier completes
when as many threads have arrived as `init` said *and* as many bytes have come in as were expected.

    thread 0      init(1) | fence | sync |  arrive.expect_tx(bytes)  TMA x  TMA y  |  wait ........ | work
    TMA                                                              ....... bytes ....... complete |
    others                  (wait)  sync |  wait ................................................. | work

In the simulator the two tiles look like docs/pictures/ch2_slots.svg (``nvdsl run --picture``).

What is new: a tensor map (`nv.TMA`, encoded on the host), shared memory tiles (`nv.smem`), `nv.Mbarriers`: init, fence,
expect, wait. A wait names a phase by its parity: the first phase has parity 0.

Measured on an H200 over 8192 x 8192: 4037 GB/s, 0.95 of torch.add beside it (chapter 1: 0.80).

Try: leave out `nv.sync_threads()` after the init (a VerifyError: threads 32-63 may wait too early); ``loaded.wait(1)``
(another one: it returns at once); swizzle=128 for both tiles and both tensor maps (it passes, with nothing else
changed: a tile knows where its elements are).

Next: shared memory is also where the tensor cores read. Chapter 3 multiplies what TMA has brought.

Break it: expect the bytes of one tile only.

    -             loaded.arrive_expect_tx(x_tile.bytes + y_tile.bytes)
    +             loaded.arrive_expect_tx(x_tile.bytes)

    VerifyError: ch2_tma_saxpy.py:68: the mbarrier expects 4,096 bytes, and the copies that complete on it bring 4,096
          (line 69) + 4,096 (line 70) = 8,192
      rule: a phase completes when exactly the expected bytes have arrived, a box counting whole even where it leaves
            the array (PTX ISA, Tracking asynchronous operations by the mbarrier object); with another count the wait
            hangs
      fix:  expect 8,192 bytes: the sum of the tiles' .bytes

On the GPU the phase would never complete, and every thread would wait for ever. nvdsl adds up what the copies bring
before it compiles.
"""

import numpy as np

import nvdsl as nv


@nv.jit
def saxpy(x, y, alpha, *, tile=(16, 64)):
    (M, N), (ROWS, COLS) = x.shape, tile
    nv.require_multiples(M=(M, ROWS), N=(N, COLS))
    x_tma = nv.TMA(x, tile=(ROWS, COLS))
    y_tma = nv.TMA(y, tile=(ROWS, COLS))

    @nv.kernel(grid=(M // ROWS, N // COLS), block=COLS)
    def kernel():
        x_tile = nv.smem((ROWS, COLS), x.dtype)
        y_tile = nv.smem((ROWS, COLS), y.dtype)
        loaded = nv.Mbarriers(1)[0]
        row, col = nv.block_id.x * ROWS, nv.block_id.y * COLS
        t = nv.thread_id.x

        if t == 0:
            loaded.init(1)
            nv.fence_mbarrier_init()
        nv.sync_threads()  # nobody waits on a barrier that is not there yet

        if t == 0:
            loaded.arrive_expect_tx(x_tile.bytes + y_tile.bytes)
            x_tma.load(x_tile, loaded, (row, col))
            y_tma.load(y_tile, loaded, (row, col))
        loaded.wait(0)

        for i in nv.range(ROWS):  # one column a thread
            y[row + i, col + t] = alpha * x_tile[i, t] + y_tile[i, t]

    kernel()


# CHECK-LABEL: func.func @saxpy
# CHECK:         nvgpu.tma.create.descriptor
# CHECK-SAME:      box[%{{.*}}, %{{.*}}]
# CHECK:         gpu.launch blocks
# CHECK:           %[[BAR:.*]] = nvgpu.mbarrier.create
# CHECK:           nvgpu.mbarrier.init %[[BAR]]
# CHECK:           nvvm.fence.mbarrier.init
# CHECK:           gpu.barrier
# CHECK:           nvgpu.mbarrier.arrive.expect_tx %[[BAR]]
# CHECK:           nvgpu.tma.async.load {{.*}}, %[[BAR]]
# CHECK:           nvgpu.tma.async.load {{.*}}, %[[BAR]]
# CHECK:           nvgpu.mbarrier.try_wait.parity %[[BAR]]
# CHECK:           scf.for
# OTHER: 32 threads
# OTHER: PASS


def main(M=256, N=128, tile=(16, 64)):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, N), dtype=np.float32)
    y = rng.standard_normal((M, N), dtype=np.float32)
    expected = 2.0 * x + y
    print(saxpy.compile(x, y, 2.0, tile=tile).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    saxpy(x, y, 2.0, tile=tile)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
