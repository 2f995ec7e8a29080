"""LayerNorm: a row in the registers of its block, read once; mean and variance from what is there.

The mean is found first, and the variance from the deviations from it, which do not cancel: the rows may be far from
zero. What the rounding of the first mean left over is added to it in the same pass.
"""

import math

import nvdsl as nv


@nv.jit
def layer_norm(x, weight, bias, y, *, epsilon=1e-5, threads=256):
    rows, cols = x.shape
    wide = math.gcd(cols, x.strides[0], y.strides[0], 16 // max(a.dtype.bytes for a in (x, weight, bias, y)))
    step = threads * wide

    @nv.kernel(grid=rows, block=threads)
    def kernel():
        row, first = nv.block_id.x, nv.thread_id.x * wide
        parts = []
        for col in range(0, cols, step):
            part = nv.vector([0.0] * wide, nv.f32)
            if first + col < cols:
                part = x.vector((row, first + col), wide).to(nv.f32)
            parts.append(part)
        mean = nv.block.sum(sum(part.sum() for part in parts)) / cols
        columns = range(0, cols, step)
        parts = [nv.where(first + col < cols, p - mean, 0.0) for col, p in zip(columns, parts, strict=True)]
        left, squares = nv.block.sum((sum(p.sum() for p in parts), sum((p * p).sum() for p in parts)))
        left /= cols
        scale = nv.math.rsqrt(squares / cols - left * left + epsilon)
        for col, part in zip(columns, parts, strict=True):
            at = first + col
            if at < cols:
                w, b = weight.vector(at, wide).to(nv.f32), bias.vector(at, wide).to(nv.f32)
                y.store_vector((part - left) * scale * w + b, (row, at))

    kernel()
