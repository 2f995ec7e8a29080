"""Softmax of long rows: the blocks of a cluster share a row, and each keeps its part of it in registers."""

import math

import nvdsl as nv


@nv.jit
def cluster_softmax(x, y, *, threads=128, cluster=4):
    rows, cols = x.shape
    wide = math.gcd(cols, x.strides[0], y.strides[0], 16 // max(x.dtype.bytes, y.dtype.bytes))
    step = cluster * threads * wide

    @nv.kernel(grid=rows * cluster, block=threads, cluster=cluster)
    def kernel():
        row = nv.block_id.x // cluster
        first = (nv.cluster_rank() * threads + nv.thread_id.x) * wide
        parts = []
        for col in range(0, cols, step):
            part = nv.vector([-math.inf] * wide, nv.f32)
            if first + col < cols:
                part = x.vector((row, first + col), wide).to(nv.f32)
            parts.append(part)
        highest = nv.cluster.max(max(part.max() for part in parts))
        parts = [nv.math.exp(part - highest) for part in parts]
        scale = 1.0 / nv.cluster.sum(sum(part.sum() for part in parts))
        for col, part in zip(range(0, cols, step), parts, strict=True):
            if first + col < cols:
                y.store_vector(part * scale, (row, first + col))

    kernel()
