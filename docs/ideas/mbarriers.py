"""One slot of shared memory, filled by TMA and read by another warp, three times over."""

import numpy as np

import nvdsl as nv

ROUNDS, ROWS, COLS = 3, 8, 32


@nv.jit
def double(x, y):
    x_tma = nv.TMA(x, tile=(ROWS, COLS))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((ROWS, COLS), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]  # one thread arrives, and says how many bytes come
        empty = nv.Mbarriers(1, arrivals=1)[0]  # one lane arrives for the warp that reads
        if nv.warp_id() == 0:
            if nv.lane_id() == 0:
                for k in nv.range(ROUNDS):
                    empty.wait((k & 1) ^ 1)  # the first wait names the phase before the first
                    full.arrive_expect_tx(tile.bytes)
                    x_tma.load(tile, full, (k * ROWS, 0))
        else:
            for k in nv.range(ROUNDS):
                full.wait(k & 1)
                for row in range(ROWS):
                    y[k * ROWS + row, nv.lane_id()] = 2 * tile[row, nv.lane_id()]
                nv.sync_warp()  # every lane has read
                empty.arrive(predicate=nv.lane_id() == 0)

    kernel()


x = np.arange(ROUNDS * ROWS * COLS, dtype=np.float32).reshape(-1, COLS)
y = np.zeros_like(x)
double(x, y)
print("every element doubled:", bool((y == 2 * x).all()))
