# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 128 --N 256 --K 192 --tile 64x64x64 --stages 2 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 14: D = gelu(scale * (A @ B) + bias) + R, computed where the sums are: in registers.

A layer of a network is a product and then some arithmetic on each element. As kernels of their own, these steps would
read and write the whole matrix each time. Here they cost no memory traffic but their own inputs: a scale for each row,
a bias for each column, and a residual for each element.

What is new: an accumulator is a tensor with rows and columns (docs/fragments.md). Its elements lie spread over 128
threads, and arithmetic on it is arithmetic on each thread's registers:

    scale    nv.row_vector       scale[:, None]     two registers a thread for each 64 rows
    bias     nv.column_vector    bias[None, :]      two registers a thread for each 8 columns
    R        nv.fragment         the elements of this tile that lie beside the sums

``scale * acc + bias`` is one fused multiply-add a register. ``y.store(D)`` converts to f16 and writes the tile with
stmatrix, through the swizzle, and TMA stores it in whole lines.

The main loop is chapter 4's.

Try: --tile 64x128x64; another activation; a gated layer, D = up * silu(gate), where B holds the columns of both side by
side: ``gate, up = y[:, 0:64], y[:, 64:128]`` moves nothing.

Next: rows and columns that only the call knows. Chapter 15 compiles one kernel for all sizes.

Break it: say that the bias belongs to the rows.

    -         y = acc * scales[:, None] + biases[None, :]
    +         y = acc * scales[:, None] + biases[:, None]

    TraceError: ch14_fused_epilogue.py:89: [:, None] of a vector of shape (128,)
      rule: it has one value for each column, and is repeated along the other axis
      fix:  write v[None, :]; `for i, x in v.elements():` reads what this thread has

The tile is square, so that shapes alone would not tell. A vector knows which axis it was loaded for: the thread holds
other elements of it.
"""

import numpy as np

import nvdsl as nv


def gelu(x):
    """x * Phi(x), by the approximation with tanh (Hendrycks and Gimpel, arXiv 1606.08415)."""
    return 0.5 * x * (1.0 + nv.math.tanh_approx(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@nv.jit
def layer(a, b, scale, bias, residual, d, *, stages=3, tile=(128, 128, 64)):
    """d[M, N] = gelu(scale[:, None] * (a[M, K] @ b[K, N]) + bias[None, :]) + residual[M, N]; f16, f32 sums."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, BN))
    steps = nv.cdiv(K, BK)
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)
    d_tma = nv.TMA(d, tile=(BM, BN), swizzle=128)

    @nv.kernel(grid=(M // BM, N // BN), block=128)
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        D = nv.smem((BM, BN), d.dtype, swizzle=128)
        full = nv.Mbarriers(stages, arrivals=1)
        row, col = nv.block_id.x * BM, nv.block_id.y * BN

        def load(k):
            slot = k % stages
            if nv.thread_id.x == 0:
                full[slot].arrive_expect_tx(A.bytes + B.bytes)
                a_tma.load(A[slot], full[slot], (row, k * BK))
                b_tma.load(B[slot], full[slot], (k * BK, col))

        for k in range(min(stages - 1, steps)):
            load(k)
        acc = nv.accumulator(BM, BN, nv.f32)
        for k in nv.range(steps):
            full[k % stages].wait((k // stages) & 1)
            acc += A[k % stages] @ B[k % stages]
            nv.wgmma_wait(1)
            nv.sync_threads()
            if k + stages - 1 < steps:
                load(k + stages - 1)
        nv.wgmma_wait(0)

        # Epilogue: rows, columns, elements.
        scales, biases = nv.row_vector(scale, row, BM), nv.column_vector(bias, col, BN)
        y = acc * scales[:, None] + biases[None, :]
        y = gelu(y) + nv.fragment(residual, (row, col), (BM, BN)).to(nv.f32)
        y.store(D)
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            d_tma.store(D, (row, col))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


# CHECK-LABEL: func.func @layer
# CHECK:         gpu.launch blocks
# CHECK:           scf.for
# CHECK:             nvvm.wgmma.mma_async
# CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
# The scale of a row: two loads for each 64 rows. Of a column: two for each 8 columns.
# CHECK-COUNT-4:   memref.load {{.*}} memref<512xf32>
# CHECK-COUNT-32:  memref.load {{.*}} memref<384xf32>
# CHECK:           llvm.intr.fma
# CHECK:           nvvm.stmatrix
# CHECK:           nvgpu.tma.async.store
# OTHER: 128 threads
# OTHER: PASS


def main(M=512, N=384, K=256, stages=3, tile=(128, 128, 64)):
    rng = np.random.default_rng(0)
    a, b, residual = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N), (M, N)))
    scale, bias = rng.random(M, dtype=np.float32) / 8, rng.standard_normal(N, dtype=np.float32)
    d = np.zeros((M, N), np.float16)
    print(layer.compile(a, b, scale, bias, residual, d, stages=stages, tile=tile).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    layer(a, b, scale, bias, residual, d, stages=stages, tile=tile)
    x = scale[:, None] * (a.astype(np.float32) @ b.astype(np.float32)) + bias
    expected = 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))) + residual
    np.testing.assert_allclose(d, expected, rtol=4e-3, atol=4e-3)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
