"""Sums of columns, by a ring of slots that cp.async fills: the copies of the next rows run while these are added."""

import nvdsl as nv

ROWS = 8


@nv.jit
def column_sums(x, y, *, stages=3, threads=64):
    M, N = x.shape
    count = nv.cdiv(M, ROWS)

    @nv.kernel(grid=nv.cdiv(N, threads), block=threads)
    def kernel():
        t, col = nv.thread_id.x, nv.block_id.x * threads
        ring = nv.smem((stages, ROWS, threads), x.dtype)
        total = nv.f32(0.0)
        for k in nv.range(stages - 1):
            nv.copy(x[k * ROWS : k * ROWS + ROWS, col : col + threads], ring[k], asynchronous=True)
            nv.cp_async_commit()
        for k in nv.range(count):
            nv.cp_async_wait(stages - 2)
            nv.sync_threads()
            later = k + stages - 1
            nv.copy(x[later * ROWS : later * ROWS + ROWS, col : col + threads], ring[later % stages], asynchronous=True)
            nv.cp_async_commit()
            for i in range(ROWS):
                total += nv.f32(ring[k % stages][i, t])
        nv.cp_async_wait(0)
        if col + t < N:
            y[col + t] = total

    kernel()
