"""A GEMM of a warpgroup that multiplies and a fifth warp that loads, in blocks of 160 threads; two blocks of a cluster
load half of B each, for both."""

import nvdsl as nv


@nv.jit
def loading_warp(a, b, d, *, stages=2):
    """d = a @ b.T; b is stored (N, K)."""
    (M, K), (N, _) = a.shape, b.shape
    a_tma, b_tma = nv.TMA(a, (64, 64), swizzle=128), nv.TMA(b, (32, 64), swizzle=128)

    @nv.kernel(grid=(M // 64, N // 64), block=160, cluster=2)
    def kernel():
        A, B = nv.smem((stages, 64, 64), a.dtype, swizzle=128), nv.smem((stages, 64, 64), b.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=8, sync=False)
        nv.cluster_sync()
        row, col, part = nv.block_id.x * 64, nv.block_id.y * 64, nv.cluster_rank() * 32
        if nv.warp_id() == 4:
            if nv.lane_id() == 0:
                slot = ring.producer_state()
                for k in nv.range(K // 64):
                    full = ring.acquire(slot)
                    a_tma.load(A[slot.stage], full, (row, k * 64))
                    b_tma.load(B[slot.stage][part : part + 32, :], full, (col + part, k * 64), multicast_mask=3)
                    slot = slot.next()
        else:
            acc = nv.accumulator(64, 64)
            slot = ring.consumer_state()
            for _ in nv.range(K // 64):
                ring.wait(slot)
                acc += A[slot.stage] @ B[slot.stage].T
                nv.wgmma_wait(0)
                for rank in range(2):
                    ring.release(slot, nv.lane_id() == 0, rank=rank)
                slot = slot.next()
            acc.store(d, (row, col))
        nv.cluster_sync()

    kernel()
