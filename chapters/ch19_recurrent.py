# RUN: env NVDSL_DUMP=trace %python %s --N 64 --steps 2 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 128 --N 128 --steps 3 --units 32 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 19: an LSTM in one kernel. The weights stay in shared memory, and the blocks of the grid wait for each other.

A recurrent layer multiplies the same weights with another h in each step, and each step needs the one before. A launch
for each step would read all weights again, and leave the GPU idle in between. Here a block keeps its part of the
weights for the whole sequence, and the grid stays:

    gates = x[t] + h @ r^T          x: the inputs' part of all gates, one product made before (chapter 7)
    i, f, o = sigmoid(...), g = tanh(...)
    c = f * c + i * g,  h = o * tanh(c)

A block owns some hidden units, and 64 rows of the batch. It has the four rows of ``r`` for each of its units: one box
of a tensor map with an axis for the gates brings them, one gate below the other. So ``acc[:, 0:16]`` and the three
parts beside it are the four gates of 16 units, in the same registers of the same threads, and c never leaves them.

What is new: every block needs the new h of all units. ``y`` hands it around: a block writes its units of ``y[t + 1]``,
and all read ``y[t + 1]`` in the next step. In between come ``nv.grid_sync``, a barrier of all blocks of the grid, and
a fence: h was written by ordinary stores, and TMA reads it through another proxy. A barrier of the grid needs all
blocks to run at the same time, so there are no more of them than the GPU holds.

``nvdsl/kernels/recurrent/forward.py`` (``nv.lstm``) waits for less: blocks with other rows of the batch have nothing to
tell each other. It counts for each 64 rows, with a release and acquires, and has a producer and two consumers, of which
one multiplies while the other waits.

Try: --units 32, half as many blocks with twice the weights; --M 128, two groups of blocks, which need not wait for each
other, but do.

Next: nothing. Chapters 1 to 10 make the product, 11 to 19 what stands around it.

Break it: no barrier of the grid.

    -             nv.grid_sync(told)  # all blocks have written their units

    SimError: ch19_recurrent.py:82: TMA load by warp 0 of block 0 at ch19_recurrent.py:82 touches elements of global
          memory of store by warp 3 of block 0 at ch19_recurrent.py:92: nothing orders the two
      first:  store by warp 3 of block 0 at ch19_recurrent.py:92
      second: TMA load by warp 0 of block 0 at ch19_recurrent.py:82
      rule: two accesses to the same element of which one writes need an order; blocks have none but by atomics
      fix:  let one thread write it, or add to it by nv.atomic_add; or release it (nv.ops.memory.store_release, or
            nv.threadfence() and an atomic) and acquire it (load_acquire, or an atomic and nv.threadfence()), with
            barriers of the blocks around these
"""

import numpy as np

import nvdsl as nv


@nv.jit
def lstm(x, r, y, *, units=16):
    """y[t + 1] = h of step t; y[0]: h at first. x: [T, 4, M, N], r: [4, N, N], y: [T + 1, M, N], f16; gates i f g o."""
    T, _, M, N = x.shape
    nv.require_multiples(M=(M, 64), N=(N, max(units, 64)), units=(units, 8))
    r_tma = nv.TMA(r, tile=(4, units, 64), swizzle=128)
    h_tma = nv.TMA(y, tile=(1, 64, 64), swizzle=128)
    told = nv.zeros(1, nv.i32)
    slices = N // 64

    def sigmoid(x):
        return nv.math.rcp_approx(1.0 + nv.math.exp_approx(-x))

    @nv.kernel(grid=(N // units, M // 64), block=128)
    def kernel():
        R = nv.smem((slices, 4 * units, 64), r.dtype, swizzle=128)
        H = nv.smem((slices, 64, 64), y.dtype, swizzle=128)
        kept, full = nv.Mbarriers(1, arrivals=1)[0], nv.Mbarriers(1, arrivals=1)[0]
        first, row = nv.block_id.x * units, nv.block_id.y * 64

        # Prologue: weights, once
        if nv.thread_id.x == 0:
            kept.arrive_expect_tx(slices * R.bytes)
            for k in range(slices):
                r_tma.load(R[k], kept, (0, first, 64 * k))
        kept.wait(0)

        c = nv.accumulator(64, units)
        for t in nv.range(T):
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(slices * H.bytes)
                for k in range(slices):
                    h_tma.load(H[k], full, (t, row, 64 * k))
            given = [nv.fragment(x, (t, gate, row, first), (64, units)) for gate in range(4)]
            full.wait(t & 1)
            acc = nv.accumulator(64, 4 * units)
            for k in range(slices):
                acc += H[k] @ R[k].T
            nv.wgmma_wait(0)
            i, f, g, o = (acc[:, n * units : (n + 1) * units] + part.to(nv.f32) for n, part in enumerate(given))
            c = sigmoid(f) * c + sigmoid(i) * nv.math.tanh(g)
            h = sigmoid(o) * nv.math.tanh(c)
            h.store(y, (t + 1, row, first))
            nv.grid_sync(told)  # all blocks have written their units
            nv.fence_proxy_async("global")  # ordinary stores, which TMA reads

    kernel()


# CHECK-LABEL: func.func @lstm
# CHECK:         gpu.launch blocks
# CHECK:           scf.for
# CHECK:             nvvm.wgmma.mma_async
# CHECK:             vector.store
# CHECK:             llvm.atomicrmw add {{.*}} release
# CHECK:             scf.while
# CHECK:               llvm.load {{.*}} acquire
# CHECK:             nvvm.fence.proxy
# OTHER: 128 threads
# OTHER: PASS


def main(M=64, N=256, steps=4, units=16):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((steps, 4, M, N)).astype(np.float16)
    r = (rng.standard_normal((4, N, N)) / np.sqrt(N)).astype(np.float16)
    y = np.full((steps + 1, M, N), np.nan, np.float16)
    y[0] = 0
    print(lstm.compile(x, r, y, units=units).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    lstm(x, r, y, units=units)
    h, c = np.zeros((M, N)), np.zeros((M, N))
    for t in range(steps):
        i, f, g, o = x[t].astype(np.float64) + h @ r.astype(np.float64).swapaxes(1, 2)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(y[t + 1], h, atol=4e-3)
    print(f"{steps} steps, one launch")
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
