"""A weighted sum of slices: a block of the cluster has a slice each, the weights come by multicast for all of them, and
the products are added through distributed shared memory, each block a share of the rows."""

import nvdsl as nv

COLS = 64


@nv.jit
def cluster_sum(a, weights, y, *, rows=16, threads=64):
    cluster, M, N = a.shape
    weights_tma = nv.TMA(weights, tile=(rows, COLS))

    @nv.kernel(grid=(M // rows * cluster, N // COLS), block=threads, cluster=cluster)
    def kernel():
        t, rank = nv.thread_id.x, nv.cluster_rank()
        row, col = nv.block_id.x // cluster * rows, nv.block_id.y * COLS
        scale, products = nv.smem((rows, COLS), nv.f32), nv.smem((rows, COLS), nv.f32)
        full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        full.arrive_expect_tx(scale.bytes, t == 0)
        nv.cluster_sync()
        if rank == 0 and t == 0:
            weights_tma.load(scale, full, (row, col), multicast_mask=(1 << cluster) - 1)
        full.wait(0)
        slice_ = a[rank, row : row + rows, col : col + COLS]
        for unit in nv.range(t, rows * COLS // 4, threads):
            at = (unit // (COLS // 4), unit % (COLS // 4) * 4)
            products.store_vector(slice_.vector(at, 4) * scale.vector(at, 4), at)
        nv.cluster_sync()
        share = rows // cluster
        for unit in nv.range(t, share * COLS // 4, threads):
            i, j = rank * share + unit // (COLS // 4), unit % (COLS // 4) * 4
            parts = [products.at(peer).vector((i, j), 4) for peer in range(cluster)]
            y.store_vector(sum(parts[1:], parts[0]), (row + i, col + j))
        nv.cluster_sync()

    kernel()
