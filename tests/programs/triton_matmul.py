"""The matrix product of Triton's tutorial, in nvdsl; its ancestor is the example of Tillet, Kung and Cox ("Triton: an
intermediate language and compiler for tiled neural network computations", 2019).

Triton's names stand where its lines would: a program has a tile of C, in an order that L2 likes, and walks over K. What
Triton's compiler adds is written here: tiles in shared memory, ``num_stages`` of them, the copies ahead of the products
of which the last ones copy nothing, one barrier in a step, and each warp's part of ``tl.dot``.
"""

import nvdsl as nv


@nv.jit
def matmul(
    a, b, c, *, TRANS_A=False, TRANS_B=False, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, warps=(2, 2),
    num_stages=3,
):  # fmt: skip
    """``c = a @ b``, 16-bit floats, any extents; with ``TRANS_A`` ``a`` is [K, M], with ``TRANS_B`` ``b`` [N, K]."""
    M, K = a.shape[::-1] if TRANS_A else a.shape
    N = b.shape[0] if TRANS_B else b.shape[1]
    programs_m, programs_n, steps = nv.cdiv(M, BLOCK_M), nv.cdiv(N, BLOCK_N), nv.cdiv(K, BLOCK_K)
    part = BLOCK_M // warps[0], BLOCK_N // warps[1]

    @nv.kernel(grid=programs_m * programs_n, block=32 * warps[0] * warps[1])
    def kernel():
        pid = nv.block_id.x  # tl.program_id(0)
        first = pid // (GROUP_M * programs_n) * GROUP_M
        height = nv.min(programs_m - first, GROUP_M)
        within = pid % (GROUP_M * programs_n)
        row, column = (first + within % height) * BLOCK_M, within // height * BLOCK_N

        A = stack(a, (BLOCK_K, BLOCK_M) if TRANS_A else (BLOCK_M, BLOCK_K), num_stages)
        B = stack(b, (BLOCK_N, BLOCK_K) if TRANS_B else (BLOCK_K, BLOCK_N), num_stages)

        def load(step):  # tl.load of both tiles, masked at the edges
            k, slot = step * BLOCK_K, step % num_stages
            copy(a, (k, row) if TRANS_A else (row, k), A[slot])
            copy(b, (column, k) if TRANS_B else (k, column), B[slot])

        for step in range(num_stages - 1):
            if step < steps:
                load(nv.i32(step))
            nv.cp_async_commit()
        acc = nv.warp_accumulator(*part)  # tl.zeros, a part in each warp
        top, left = nv.warp_id() // warps[1] * part[0], nv.warp_id() % warps[1] * part[1]
        for step in nv.range(steps):
            nv.cp_async_wait(num_stages - 2)
            nv.sync_threads()
            if step + (num_stages - 1) < steps:  # the last ones copy nothing
                load(step + (num_stages - 1))
            nv.cp_async_commit()
            slot = step % num_stages
            left_tile, right_tile = A[slot].T if TRANS_A else A[slot], B[slot].T if TRANS_B else B[slot]
            for k in range(0, BLOCK_K, 16):  # acc = tl.dot(a, b, acc)
                acc += nv.load_a(left_tile, (top, k), (part[0], 16)) @ nv.load_b(right_tile, (k, left), (16, part[1]))
        acc.store(c, (row + top, column + left), clip=True)  # tl.store, masked

    kernel()


def stack(x, tile, count):
    """Tiles in shared memory, swizzled so that ldmatrix finds its rows in different banks."""
    return nv.smem((count, *tile), x.dtype, swizzle=min(128, tile[1] * x.dtype.bytes))


def copy(x, start, tile):
    """A tile of an array, whose parts past the end are zeros: by cp.async where its rows are multiples of 4 bytes."""
    (i, j), (rows, columns) = start, tile.shape
    nv.copy(x[i : i + rows, j : j + columns], tile, asynchronous=x.shape[1] * x.dtype.bytes % 4 == 0)
