# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 65 --N 72 --K 8 --stages 2 --tile 64x64x64 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 15: dynamic shapes. One compiled GEMM for every M, N and K.

So far a kernel was compiled for the shapes of its arrays, and each new shape cost half a second. Here the annotations
*name* the extents. A named extent is a traced i32 of the host function, and so is what is computed from it:

    a: nv.Array["m", "k % 8"]    a's rows are m, its columns are k; k is a multiple of 8 in every call
    b: nv.Array["k % 8", "n % 8"]     the same k: each call checks that a and b agree in it
    d: nv.Array["m", "n % 8"]

What a call brings, and what becomes of it:

    m, n, k          parameters of the kernel      bounds of the loop, guards
    m, n, k, strides tensor maps                   encoded when the kernel is launched
    m, n             the grid                      nv.cdiv(m, BM) x nv.cdiv(n, BN) blocks
    "k % 8"          known while compiling         rows begin at multiples of 16 bytes, which TMA asks for
    tile, stages     known while compiling         shared memory, registers, unrolling

The kernel is chapter 4's, but for the edges, which may now be anywhere. TMA fills what it loads beyond an array with
zeros, and cuts off what it stores beyond it, so that the tiles at the edges need no code of their own. The prologue
asks whether there is a step left to load, for k may be smaller than the ring is long.

What is new: named extents, promises, a signature without sizes (``gemm.compile`` with names in place of sizes).

Try: --K 8; --M 1 --N 8; --K 12, which the promise forbids; write ``...`` in place of each ``"m"``, and see how long the
sizes take now that each M compiles anew.

Break it: let Python count the steps.

    -         for k in nv.range(steps):
    +         for k in range(steps):

    TraceError: ch15_dynamic_shapes.py:84: a traced value used as a Python int is not known
      rule: the number exists only when the kernel runs
      fix:  write nv.range(n) for a traced loop, nv.vector(numbers)[i] for an element of a list; range() needs a Python
            int; the extent `k` is dynamic: to make it a constant of the compiled kernel, annotate the axis `...` or
            with a number

Python's loop runs while the kernel is traced. By then nobody knows how many steps there are.
"""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(
    a: nv.Array["m", "k % 8"],
    b: nv.Array["k % 8", "n % 8"],
    d: nv.Array["m", "n % 8"],
    *,
    stages=3,
    tile=(128, 128, 64),
):
    """d[m, n] = a[m, k] @ b[k, n]; f16 or bf16 in, f32 sums, d of a 16-bit float type."""
    (m, k), (_, n) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    steps = nv.cdiv(k, BK)
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)
    d_tma = nv.TMA(d, tile=(BM, BN), swizzle=128)

    @nv.kernel(grid=(nv.cdiv(m, BM), nv.cdiv(n, BN)), block=128)
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        D = nv.smem((BM, BN), d.dtype, swizzle=128)
        full = nv.Mbarriers(stages, arrivals=1)
        row, col = nv.block_id.x * BM, nv.block_id.y * BN

        def load(k):
            slot = k % stages
            if nv.thread_id.x == 0 and k < steps:
                full[slot].arrive_expect_tx(A.bytes + B.bytes)
                a_tma.load(A[slot], full[slot], (row, k * BK))
                b_tma.load(B[slot], full[slot], (k * BK, col))

        for k in range(stages - 1):
            load(k)
        acc = nv.accumulator(BM, BN, nv.f32)
        for k in nv.range(steps):
            slot = k % stages
            full[slot].wait((k // stages) & 1)
            acc += A[slot] @ B[slot]
            nv.wgmma_wait(1)  # the products of step k-1 are done
            nv.sync_threads()
            load(k + stages - 1)
        nv.wgmma_wait(0)
        acc.store(D)
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            d_tma.store(D, (row, col))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0, read=True)

    kernel()


# CHECK-LABEL: func.func @gemm
# CHECK-SAME:    memref<f16> {nvdsl.extent = "(m, k % 8)"}
# CHECK-SAME:    %[[M:[a-z0-9]+]]: i32 {nvdsl.extent = "m"}
# CHECK-SAME:    i32 {nvdsl.extent = "k", nvdsl.multiple = 8 : i64}
# CHECK:         memref.reinterpret_cast {{.*}} memref<f16> to memref<?x?xf16, strided<[?, 1]>>
# CHECK:         nvgpu.tma.create.descriptor
# CHECK:         gpu.launch blocks
# CHECK:           scf.for
# CHECK:             nvvm.wgmma.mma_async
# CHECK:           nvgpu.tma.async.store
# CHECK: one kernel
# OTHER: one kernel, 4 sizes
# OTHER: PASS


def main(M=200, N=136, K=200, stages=3, tile=(128, 128, 64)):
    named = (nv.ShapeDtype(("m", "k"), nv.f16), nv.ShapeDtype(("k", "n"), nv.f16), nv.ShapeDtype(("m", "n"), nv.f16))
    print(gemm.compile(*named, stages=stages, tile=tile).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    rng = np.random.default_rng(0)
    sizes = [(M, N, K), (M, N, 8), (1, 8, K), (M + 1, N + 8, K + 8)]
    for m, n, k in sizes:
        a = rng.standard_normal((m, k)).astype(np.float16)
        b = rng.standard_normal((k, n)).astype(np.float16)
        d = np.full((m, n), np.nan, np.float16)
        gemm(a, b, d, stages=stages, tile=tile)
        expected = a.astype(np.float32) @ b.astype(np.float32)
        error = np.linalg.norm(d.astype(np.float32) - expected) / np.linalg.norm(expected)
        print(f"{m} x {n} x {k}: relative error against NumPy in float32 {error:.1e}")
        assert error < 1e-3
    print(f"one kernel, {len(sizes)} sizes")
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
