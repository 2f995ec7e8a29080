# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 70 --N 33 --threads 64 --swizzle 64 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 12: a transpose, ``y[j, i] = x[i, j]``.

Global memory is fast where neighbouring threads touch neighbouring addresses. The rows of x are columns of y, so no
order of the threads suits both. A tile in shared memory stands between: a block writes rows of x into it, and reads
columns.

What is new: parts of arrays, ``nv.copy``, and bank conflicts. ``x[row : row + 64, col : col + 32]`` is a part that
starts at a traced place. ``nv.copy`` shares it among the threads of the block: 16 bytes an access, neighbouring threads
side by side, zeros past the end of x (docs/copies.md). The tile is read by vectors, one row a thread:

    nv.copy, 8 threads        a row of the tile, 128 bytes of it
    reading, 8 threads        rows i .. i + 7, the same 16 bytes of each: thread t has row i = t % 64
    writing, 32 threads       y[j, i .. i + 31]: 128 bytes side by side

Shared memory has 32 banks of 4 bytes, and serves 128 bytes in a cycle if each bank is asked for one word. A row of this
tile is 128 bytes. Without a swizzle the same 16 bytes of 8 rows lie in the same four banks, and the threads wait for
each other. The 128-byte swizzle keeps each row in its line and puts the columns in 8 different places. Narrower ones
lay the row out in panels, in which a column has no conflicts, but now the row has some. The layouts say so
(``nvdsl.layout.bank_conflicts``: times as long as without conflicts), and the program prints it, before and after:

    no swizzle: 1 to write, 8 to read
    32 bytes: 4 to write, 1 to read
    64 bytes: 2 to write, 1 to read
    128 bytes: 1 to write, 1 to read

Try: --swizzle 32; ``nv.copy(tile.T, y[...])`` in the place of the last loop. It reads the tile element by element:
right with every layout, but 32 rows then meet in 8 places, so it takes 4 times as long even with the swizzle.

Next: results that meet in one place take atomics. Chapter 13 counts.

Break it: read the tile at once.

    -         nv.sync_threads()

    SimError: ch12_transpose.py:66: load by warp 0 of block (0, 0) at ch12_transpose.py:66 touches bytes 512..527 of
          shared memory (and more) of store by warp 1 of block (0, 0) at ch12_transpose.py:63: nothing orders the two
      first:  store by warp 1 of block (0, 0) at ch12_transpose.py:63
      second: load by warp 0 of block (0, 0) at ch12_transpose.py:66
      rule: a barrier must order another warp's store before this load
      fix:  nv.sync_threads(), a named barrier or an mbarrier between the two
"""

import numpy as np

import nvdsl as nv
from nvdsl.layout import Layout, TileLayout, bank_conflicts, composition

ROWS = 64


@nv.jit
def transpose(x, y, *, threads=256, swizzle=128):
    M, N = x.shape
    cols, per = 128 // x.dtype.bytes, 16 // x.dtype.bytes
    nv.require(threads % ROWS == 0, f"{threads} threads", rule=f"{ROWS} threads read {ROWS} rows", fix="threads=256")

    @nv.kernel(grid=(nv.cdiv(N, cols), nv.cdiv(M, ROWS)), block=threads)
    def kernel():
        tile = nv.smem((ROWS, cols), x.dtype, swizzle=swizzle)
        row, col = nv.block_id.y * ROWS, nv.block_id.x * cols
        nv.copy(x[row : row + ROWS, col : col + cols], tile)
        nv.sync_threads()
        i = nv.thread_id.x % ROWS
        for j in nv.range(nv.thread_id.x // ROWS * per, cols, threads // ROWS * per):
            v = tile.vector((i, j), per)
            for k in range(per):
                if row + i < M and col + j + k < N:
                    y[col + j + k, row + i] = v[k]

    kernel()


# CHECK: no swizzle: 1 to write, 8 to read
# CHECK: 128 bytes: 1 to write, 1 to read
# CHECK-LABEL: func.func @transpose
# CHECK:         gpu.launch blocks
# CHECK:           scf.if {{.*}} -> (vector<4xf32>)
# CHECK:             vector.load {{.*}} vector<4xf32>
# CHECK:           vector.store {{.*}} vector<4xf32>
# CHECK:           gpu.barrier
# CHECK:           scf.for
# CHECK:             vector.load {{.*}} memref<4xf32, #gpu.address_space<workgroup>>, vector<4xf32>
# CHECK:             memref.store
# OTHER: 64 threads
# OTHER: PASS


def conflicts(swizzle):
    """Of a tile of f32: 16 bytes a lane of a row, and of a column."""
    rows, cols = TileLayout.of(ROWS, 32, 4, swizzle).as_layout()
    write, read = (bank_conflicts(composition(mode, lanes), 16) for mode, lanes in ((cols, Layout(8, 4)), (rows, 32)))
    return f"{write} to write, {read} to read"


def main(M=1000, N=500, threads=256, swizzle=128):
    for width, name in ((0, "no swizzle"), (32, "32 bytes"), (64, "64 bytes"), (128, "128 bytes")):
        print(f"{name}: {conflicts(width)}")
    x = np.random.default_rng(0).standard_normal((M, N), dtype=np.float32)
    y = np.full((N, M), np.nan, np.float32)
    print(transpose.compile(x, y, threads=threads, swizzle=swizzle).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    transpose(x, y, threads=threads, swizzle=swizzle)
    np.testing.assert_array_equal(y, x.T)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
