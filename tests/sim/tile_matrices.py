"""Matrices of a tile by row and column, there and back."""

import nvdsl as nv


@nv.jit
def exchanged(x, out, *, swizzle, count, start, to, loaded, stored, matrices=None):
    """A warp loads matrices from ``start`` on of one tile, and stores them from ``to`` on into another."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        warp = nv.spec.threads()
        A, B = (nv.smem(x.shape, x.dtype, swizzle=swizzle) for _ in range(2))
        for tile in (A, B):
            nv.spec.move(x if tile is A else out, tile, warp)()
        nv.sync_warp()
        row, col = start
        registers = A.ldmatrix((row + nv.lane_id() // 32, col), count, transpose=loaded, matrices=matrices)
        B.stmatrix(registers, to, transpose=stored, matrices=matrices)
        nv.sync_warp()
        nv.spec.move(B, out, warp)()

    kernel()
