"""Two blocks of a cluster each load half of a tile, for both of them."""

import numpy as np

import nvdsl as nv

BLOCKS, ROWS, COLS = 2, 16, 64
HALF = ROWS // BLOCKS


@nv.jit
def sums(x, y):
    x_tma = nv.TMA(x, tile=(HALF, COLS))

    @nv.kernel(grid=BLOCKS, block=COLS, cluster=BLOCKS)
    def kernel():
        tile = nv.smem((ROWS, COLS), x.dtype)
        full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        nv.cluster_sync()  # the mbarriers of both blocks are ready
        rank = nv.cluster_rank()
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(tile.bytes)  # both halves come here, whoever asks for them
            mine = tile.rows(rank * HALF, HALF)
            x_tma.load(mine, full, (rank * HALF, 0), multicast_mask=0b11)
        full.wait(0)
        total = nv.f32(0)
        for row in range(ROWS):
            total += tile[row, nv.thread_id.x]
        y[rank, nv.thread_id.x] = total
        nv.cluster_sync()  # no block leaves while the other may write into its shared memory

    kernel()


x, y = np.random.default_rng(0).random((ROWS, COLS), np.float32), np.zeros((BLOCKS, COLS), np.float32)
sums(x, y)
for rank in range(BLOCKS):
    print(f"block {rank} has seen all rows:", bool(np.allclose(y[rank], x.sum(0))))
