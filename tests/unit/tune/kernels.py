"""Tuned kernels for tests: small, quick to compile, with a configuration of every kind."""

from __future__ import annotations

import nvdsl as nv


@nv.jit
def scale(x, y, alpha, *, block=128, each=1, wrong=0):
    """y = alpha * x + y, ``each`` elements a thread; ``wrong`` adds what it should not."""
    (n,) = x.shape
    nv.require_multiples(n=(n, block * each))

    @nv.kernel(grid=n // (block * each), block=block)
    def kernel():
        first = nv.block_id.x * (block * each) + nv.thread_id.x
        for j in range(each):
            i = first + j * block
            y[i] += alpha * x[i] + wrong

    kernel()


SPACE = nv.Space(block=[64, 128, 256], each=[1, 2, 4], wrong=[0])
N = 1024
X = nv.ShapeDtype((N,), nv.f32)
