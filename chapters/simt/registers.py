# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 70 --N 33 --K 40 --tile 32x32x16 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""SIMT 2: sums in registers, vectors, and banks.

**3 registers.** A thread has 8 x 8 elements of C in registers. For one k it reads 8 elements of A and 8 of B, and does
64 multiply-adds: a load for every four, where the row before has two for each one. ``acc`` is a Python list of lists,
which the loop over K carries like any other value.

**4 vectors.** One load takes four neighbours (16 bytes): of a row of A along K, and of a row of B along N. So there are
four times fewer loads. (LLVM joins loads of neighbours by itself where it sees them: in row 3 it has done so already.
Written out, nothing depends on it.)

**5 banks.** Shared memory has 32 banks of 4 bytes. In row 4 a thread has 8 neighbouring columns, so threads side by
side read 16 bytes of every 32: half of the banks twice, the others never. Here a thread has 4 columns of each tile of
4 * 16, and 1 row of each tile of 16, so that neighbours read neighbours. And rows of A that are 128 bytes long all
start in the same bank: 4 elements more, and they don't.

    columns of one thread      row 4   x x x x x x x x . . . . . . . . . . . . . . . .
                               row 5   x x x x . . . . . . . . x x x x . . . . . . . .

In a schedule, ``tile_fragments(m, n, k)`` makes the tiles, ``spread`` shares each among the threads, ``vectorize``
makes vectors of what a thread has of one, ``fma`` multiplies them, and ``pad`` makes rows longer.

Try: --tile 64x64x8; ``nvdsl show chapters/simt/registers.py sass``: count FFMA and LDS in the loop.

Next: copies that run while threads multiply, in ``chapters/simt/ladder.py``.

Break it: let the rows of the padded tile begin anywhere.

    -         A = nv.smem((tile[0], depth + pad), nv.f32)[:, :depth]
    +         A = nv.smem((tile[0], depth + 1), nv.f32)[:, :depth]

    TraceError: registers.py:57: a vector access of 4 x f32 (16 bytes) at a multiple of 16 bytes, plus 4: no multiple of
          16
      rule: an access of several elements is aligned to its size (PTX ISA, Addresses as operands)
      fix:  start at a multiple of 16 bytes, or take fewer elements
"""

import nvdsl as nv
from chapters.simt.blocks import check
from nvdsl import schedule as sc


def outer(u, v, acc):
    return [[nv.math.fma(u[i], v[j], acc[i][j]) for j in range(len(v))] for i in range(len(u))]


def multiply(A, B, rows, columns, acc, vectors):
    """``acc`` plus the product of the rows of A with the columns of B, by fused multiply-adds."""
    depth = A.shape[1]
    if not vectors:
        for k in range(depth):
            u, v = [A[row, k] for row in rows], [B[k, column] for column in columns]
            acc = outer(u, v, acc)
        return acc
    for k in range(0, depth, 4):
        u = [A.vector((row, k), 4) for row in rows]
        for i in range(4):
            v = [y for column in columns[::4] for y in B.vector((k + i, column), 4)]
            acc = outer([x[i] for x in u], v, acc)
    return acc


def places(tile, threads, spread):
    """The rows and columns of a block's tile that a thread has."""
    t = nv.thread_id.x
    (m, n), y, x = (tile[0] // threads[0], tile[1] // threads[1]), t // threads[1], t % threads[1]
    if not spread:
        return [m * y + i for i in range(m)], [n * x + j for j in range(n)]
    rows = [y + threads[0] * i for i in range(m)]
    return rows, [4 * x + 4 * threads[1] * (j // 4) + j % 4 for j in range(n)]


def store(c, top, left, rows, columns, acc, vectors):
    (m, n) = c.shape
    width = 4 if vectors and n % 4 == 0 else 1
    for i in range(len(rows)):
        for j in range(0, len(columns), width):
            row, column = top + rows[i], left + columns[j]
            if row < m and column < n:
                if width == 4:
                    c.store_vector(nv.vector(acc[i][j : j + 4]), (row, column))
                else:
                    c[row, column] = acc[i][j]


@nv.jit
def registers(a, b, c, *, tile=(128, 128, 32), threads=(16, 16), vectors=True, spread=True, pad=4):
    (m, k), (_, n) = a.shape, b.shape
    depth = tile[2]

    @nv.kernel(grid=(nv.cdiv(n, tile[1]), nv.cdiv(m, tile[0])), block=threads[0] * threads[1])
    def kernel():
        A = nv.smem((tile[0], depth + pad), nv.f32)[:, :depth]
        B = nv.smem((depth, tile[1]), nv.f32)
        top, left = nv.block_id.y * tile[0], nv.block_id.x * tile[1]
        rows, columns = places(tile, threads, spread)
        acc = [[nv.f32(0) for _ in columns] for _ in rows]
        for step in nv.range(0, k, depth):
            nv.copy(a[top : top + tile[0], step : step + depth], A)
            nv.copy(b[step : step + depth, left : left + tile[1]], B)
            nv.sync_threads()
            acc = multiply(A, B, rows, columns, acc, vectors)
            nv.sync_threads()
        store(c, top, left, rows, columns, acc, vectors)

    kernel()


def rows(tile, threads):
    """Name, kernel with its options, and schedule of each row."""
    sizes = {"tile": tile, "threads": threads}
    m, n = threads[0], 4 * threads[1]
    plain, leave = {"spread": False, "pad": 0}, ["hide_latency", "pad"]
    whole = sc.simt_steps(tile, tile[:2], threads, stages=1, without=[*leave, "wide"])
    yield "3 registers", registers, {**sizes, **plain, "vectors": False}, whole
    wide = sc.simt_steps(tile, tile[:2], threads, stages=1, without=leave)
    yield "4 vectors", registers, {**sizes, **plain}, wide
    yield "5 banks", registers, sizes, sc.simt_steps(tile, (m, n), threads, stages=1, without=["hide_latency"])


# CHECK: 3 registers
# CHECK: 5 banks
# CHECK: PASS
# OTHER: 5 banks
# OTHER: PASS


def main(M=64, N=64, K=32, tile=(32, 32, 16), threads=(8, 4)):
    check(rows(tile, threads), M, N, K)


if __name__ == "__main__":
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from command_line import run

    run(main)
