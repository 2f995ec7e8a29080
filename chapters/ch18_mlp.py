# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 70 --width 64 --layers 3 --rows 128 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 18: layers in a row, x = relu(x @ W[l].T + b[l]), in one kernel: the data stays in shared memory.

As a kernel each, the layers of a narrow network do little but read and write: 20 layers of 128 over 65,536 rows move
33 MB twenty times, which takes three times as long as the products. But a row of x needs no other row. So a block takes
some rows, keeps them, and lets the weights of all layers pass by:

    X = rows of x                       TMA, once
    for each layer:
        acc = X @ W[l].T                wgmma; W[l + 1] is on its way into the other buffer
        X = relu(acc + b[l])            the same shared memory: stmatrix
    rows of y = X                       TMA, once

What is new: a result becomes an operand in place. Two things are in its way. The registers may be written to X only
when the product has read X, which wgmma_wait(0) says. And they are written by ordinary stores, the generic proxy, while
wgmma reads shared memory by the async proxy, as TMA does (docs/ideas/proxies.md). So a fence and a barrier of all
threads stand between the stores and the next product.

The weights are stored as (layers, out, in), as torch.nn.Linear has them. TMA takes a layer as a box of three axes, and
``W.T`` is a view. All blocks read the same weights, from L2.

Try: --rows 128, which reads them half as often; --width 64; and then chapter 16's way, for
``relu(acc + b).to(nv.f16) @ W`` needs no shared memory for x at all. That is what nv.mlp does (docs/mlp.md), with a
producer and several consumers.

Next: steps that need the results of other blocks.

Break it: leave out the barrier between two layers.

    -             nv.sync_threads()

    SimError: ch18_mlp.py:77: wgmma reads A by warp 0 of block 0 at ch18_mlp.py:77 touches bytes 6144..6175 of shared
          memory (and more) of stmatrix by warp 3 of block 0 at ch18_mlp.py:80: nothing orders the two
      first:  stmatrix by warp 3 of block 0 at ch18_mlp.py:80
      second: wgmma reads A by warp 0 of block 0 at ch18_mlp.py:77
      rule: two accesses to the same bytes of which one writes need an order
      fix:  synchronize the two
"""

import numpy as np

import nvdsl as nv


@nv.jit
def mlp(x, weights, biases, y, *, rows=64):
    """y = the last of x = relu(x @ weights[l].T + biases[l]); x, y: [M, D], weights: [L, D, D], f16; biases: [L, D]."""
    (M, D), (L, _, _) = x.shape, weights.shape
    nv.require_multiples(D=(D, 64), rows=(rows, 64))
    x_tma, y_tma = (nv.TMA(a, tile=(rows, D), swizzle=128) for a in (x, y))
    w_tma = nv.TMA(weights, tile=(1, D, D), swizzle=128)

    @nv.kernel(grid=nv.cdiv(M, rows), block=128)
    def kernel():
        X = nv.smem((rows, D), x.dtype, swizzle=128)
        W = nv.smem((2, D, D), x.dtype, swizzle=128)
        full, ready = nv.Mbarriers(2, arrivals=1), nv.Mbarriers(1, arrivals=1)[0]
        row = nv.block_id.x * rows

        def load(layer):
            if nv.thread_id.x == 0:
                full[layer % 2].arrive_expect_tx(W.bytes)
                w_tma.load(W[layer % 2], full[layer % 2], (layer, 0, 0))

        if nv.thread_id.x == 0:
            ready.arrive_expect_tx(X.bytes)
            x_tma.load(X, ready, (row, 0))
        load(nv.i32(0))
        ready.wait(0)

        for layer in nv.range(L):
            if layer + 1 < L:
                load(layer + 1)
            full[layer % 2].wait((layer // 2) & 1)
            acc = nv.accumulator(rows, D)
            acc += X @ W[layer % 2].T
            bias = nv.column_vector(biases, (layer, 0), D)
            nv.wgmma_wait(0)  # X has been read
            nv.maximum(acc + bias[None, :], 0.0).store(X)
            nv.fence_proxy_async()  # before the next product reads X
            nv.sync_threads()

        if nv.thread_id.x == 0:
            y_tma.store(X, (row, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


# CHECK-LABEL: func.func @mlp
# CHECK:         gpu.launch blocks
# CHECK:           nvgpu.tma.async.load
# CHECK:           scf.for
# CHECK:             nvgpu.tma.async.load
# CHECK:             nvvm.wgmma.mma_async
# CHECK:             nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:             nvvm.stmatrix
# CHECK:             nvvm.fence.proxy
# CHECK:             barrier
# CHECK:           nvgpu.tma.async.store
# OTHER: 128 threads
# OTHER: PASS


def main(M=200, width=128, layers=4, rows=64):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((M, width)).astype(np.float16)
    weights = (rng.standard_normal((layers, width, width)) * np.sqrt(2 / width)).astype(np.float16)
    biases = rng.standard_normal((layers, width), dtype=np.float32) / 8
    y = np.zeros_like(x)
    print(mlp.compile(x, weights, biases, y, rows=rows).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    mlp(x, weights, biases, y, rows=rows)
    for weight, bias in zip(weights.astype(np.float32), biases, strict=True):
        x = np.maximum(x.astype(np.float32) @ weight.T + bias, 0).astype(np.float16)
    np.testing.assert_allclose(y.astype(np.float32), x.astype(np.float32), rtol=1e-2, atol=1e-2)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
