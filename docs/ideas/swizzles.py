"""Where TMA puts the 16-byte units of a tile of 8 rows, and what reading one column of units costs."""

import numpy as np

import nvdsl as nv
from nvdsl.layout import Layout, TileLayout, X, bank_conflicts


@nv.jit
def load(x, seen):
    x_tma = nv.TMA(x, tile=(8, 64), swizzle=128)

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((8, 64), x.dtype, swizzle=128)
        loaded = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            loaded.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, loaded, (0, 0))
        loaded.wait(0)
        for row in range(8):
            seen[row, nv.thread_id.x] = tile[row, nv.thread_id.x]  # the tile knows its swizzle

    kernel()


unit = np.arange(8)[:, None] * 8 + np.arange(64) // 8  # which unit of 8 elements an element belongs to
x, seen = unit.astype(np.float16), np.zeros((8, 64), np.float16)
load(x, seen)
print("read as it was written:", bool((seen == x).all()))

tile = TileLayout.of(8, 64, 2, 128)  # 8 rows of 64 elements of 2 bytes, 128-byte swizzle
memory = np.zeros(64, int)
for row in range(8):
    for column in range(0, 64, 8):
        memory[tile.offset(row, column) // 16] = unit[row, column]
print(memory.reshape(8, 8))

for name, stride in (("dense", 128), ("padded by 16 bytes", 144), ("swizzled", X(0x90))):
    print(f"one column of units, {name}: {bank_conflicts(Layout(8, stride), 16)} times as long as one row")
