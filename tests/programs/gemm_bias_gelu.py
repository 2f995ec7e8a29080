"""A layer with any number of rows: d = gelu(x @ w.T + bias), one compiled kernel for all batches.

A block multiplies one tile; the last one may hang over the edge, where TMA reads zeros and drops what is stored.
"""
# ruff: noqa: F821

import nvdsl as nv


@nv.jit
def layer(
    x: nv.Array["m", "k % 8"], w: nv.Array["n % 8", "k % 8"], bias: nv.Array["n % 8"], d: nv.Array["m", "n % 8"],
    *, tile=(64, 64, 64), stages=3,
):  # fmt: skip
    (m, k), (n, _) = x.shape, w.shape
    BM, BN, BK = tile
    steps = nv.cdiv(k, BK)
    x_tma, w_tma, d_tma = (nv.TMA(y, tile=t, swizzle=128) for y, t in ((x, (BM, BK)), (w, (BN, BK)), (d, (BM, BN))))

    @nv.kernel(grid=(nv.cdiv(n, BN), nv.cdiv(m, BM)), block=256)
    def kernel():
        X, W = (nv.smem((stages, rows, BK), x.dtype, swizzle=128) for rows in (BM, BN))
        D = nv.smem((BM, BN), d.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=X[0].bytes + W[0].bytes, consumers=4)
        col, row = nv.block_id.x * BN, nv.block_id.y * BM
        if nv.warpgroup_id() == 0:
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for step in nv.range(steps):
                    full = ring.acquire(state)
                    x_tma.load(X[state.stage], full, (row, step * BK))
                    w_tma.load(W[state.stage], full, (col, step * BK))
                    state = state.next()
        else:
            acc, state = nv.accumulator(BM, BN, nv.f32), ring.consumer_state()
            for _ in nv.range(steps):
                ring.wait(state)
                acc += X[state.stage] @ W[state.stage].T
                nv.wgmma_wait(0)
                ring.release(state, nv.lane_id() == 0)
                state = state.next()
            row0, col0 = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
            for block, sums in enumerate(acc.registers()):
                for i in range(0, len(sums), 2):
                    r, c = nv.layout.accumulator_element(0, i)
                    for j in range(2):
                        y = sums[i + j] + nv.f32(bias[nv.min(col + col0 + c + j, n - 1)])
                        y = 0.5 * y * (1 + nv.math.erf(y * 0.7071067811865476))
                        D[block * 64 + row0 + r, col0 + c + j] = y
            nv.fence_proxy_async()
            nv.named_barrier_sync(1, 128)
            if nv.warpgroup_thread() == 0:
                d_tma.store(D, (row, col))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

    kernel()
