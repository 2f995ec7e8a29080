"""A GEMM in specifications, as Graphene writes them: what is moved and multiplied, by which threads.

A block has ``warps`` warps, each with its part of the block's tile. cp.async brings the next steps of K while mma.sync
multiplies this one: ``stages`` tiles of A and B, of which all but one are under way. ldmatrix loads fragments from
swizzled tiles; the sums leave through shared memory, by stmatrix, in 16-byte stores.
"""

import nvdsl as nv


@nv.jit
def gemm(a, b, d, *, tile=(64, 64, 32), warps=(2, 2), stages=2):
    """``d = a @ b``: a (M, K), b (K, N), both row-major, 16-bit floats; each extent a multiple of its tile's."""
    (m, k), (_, n) = a.shape, b.shape
    tile_m, tile_n, tile_k = tile
    part = (tile_m // warps[0], tile_n // warps[1])
    steps = k // tile_k

    @nv.kernel(grid=(m // tile_m, n // tile_n), block=32 * warps[0] * warps[1])
    def kernel():
        A = nv.smem((stages, tile_m, tile_k), a.dtype, swizzle=min(128, 2 * tile_k))
        B = nv.smem((stages, tile_k, tile_n), b.dtype, swizzle=min(128, 2 * tile_n))
        top, left = nv.block_id.x * tile_m, nv.block_id.y * tile_n
        block = nv.spec.threads()
        warp = block.tile(32)

        def load(step, slot):
            a_part = nv.spec.of(a, (top, step * tile_k), (tile_m, tile_k))
            b_part = nv.spec.of(b, (step * tile_k, left), (tile_k, tile_n))
            nv.spec.move(a_part, A[slot], block, asynchronous=True)()
            nv.spec.move(b_part, B[slot], block, asynchronous=True)()

        for slot in range(stages - 1):
            if slot < steps:
                load(slot, slot)
            nv.cp_async_commit()
        acc = nv.warp_accumulator(*part)
        for step in nv.range(steps):
            nv.cp_async_wait(stages - 2)  # this step's tiles have come, for this thread ...
            nv.sync_threads()  # ... and for all; and nobody reads the tiles of the step before any more
            ahead = step + (stages - 1)
            if ahead < steps:
                load(ahead, ahead % stages)
            nv.cp_async_commit()  # a group for each step, also where there is nothing left to load
            for product in nv.spec.mma(acc, A[step % stages], B[step % stages], block).tile(part, warp):
                acc = product()
        out = nv.smem((tile_m, tile_n), d.dtype, swizzle=min(128, d.dtype.bytes * tile_n))
        row, col = warp.group_number // warps[1] * part[0], warp.group_number % warps[1] * part[1]
        acc.store(out, (row, col))
        nv.sync_threads()
        nv.spec.move(out, nv.spec.of(d, (top, left), (tile_m, tile_n)), block)()

    kernel()
