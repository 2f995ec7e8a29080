"""Kernels of mma.sync, by its registers: each lane takes its elements from where the layouts say."""

from __future__ import annotations

from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.layout import mma_a, mma_b, mma_c
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import nvgpu
from nvdsl.ops import mma
from nvdsl.ops.pointer import index
from nvdsl.testing import random
from nvdsl.values import dtypes

FORMS = [
    (a, b, d, m, k) for (a, b), (sums, shapes) in mma.TYPES.items() for d in sums for m, k in shapes
]
"""(A, B, sums, m, k) of every mma.sync."""

_BITS = {1: nv.u8, 2: nv.u16, 4: nv.u32}


@nv.jit
def product(a, b, c, d, *, types, lanes=32):
    """``d = a @ b + c``, one mma.sync of a warp. ``types``: names of A's, B's and D's; ``lanes``: who executes it."""
    (m, k), kinds = a.shape, [dtypes.by_name(name) for name in types]

    @nv.kernel(grid=1, block=32)
    def kernel():
        lane = nv.lane_id()
        left, right = registers(a, mma_a(a.dtype.bytes, k, m)), registers(b, mma_b(b.dtype.bytes, k))
        places = [tuple(mma_c(m)(lane, i)) for i in range(m // 4)]
        before = [c[place] for place in places]
        if kinds[2] is nv.f16:
            before = [nv.pack_pair(before[i], before[i + 1], nv.f16) for i in range(0, len(before), 2)]
        if lane < lanes:
            found = mma.mma_sync(left, right, before, k=k, m=m, a_dtype=kinds[0], b_dtype=kinds[1], d_dtype=kinds[2])
            for i, place in enumerate(places):
                half = kinds[2] is nv.f16
                d[place] = nv.bitcast(nv.u16(found[i // 2] >> 16 * (i % 2)), nv.f16) if half else found[i]

    kernel()


@nv.jit
def by_nvgpu(a, b, d, *, lanes=32):
    """``d = a @ b``, 16 x 8 with K of 16, by nvgpu's own ops."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        left, right = (nv.get_dynamic_shared_memory(x.shape, x.dtype.ir, at) for x, at in ((a, 0), (b, 512)))
        nv.smem((384,), nv.f16)
        for x, tile in ((a, left), (b, right)):
            for i in nv.range(t, x.shape[0] * x.shape[1], 32):
                tile[i // x.shape[1], i % x.shape[1]] = x[i // x.shape[1], i % x.shape[1]]
        nv.sync_threads()
        if t < lanes:
            pairs = [ir.VectorType.get([count, 2], nv.f16.ir) for count in (4, 2)]
            held_a = nvgpu.ldmatrix(pairs[0], left, [index(t % 16), index(t // 16 * 8)], False, 4)
            held_b = nvgpu.ldmatrix(pairs[1], right, [index(t % 16), index(0)], True, 2)
            sums = ir.VectorType.get([2, 2], nv.f32.ir)
            found = nvgpu.mma_sync(sums, held_a, held_b, nv.const(0.0, sums), [16, 8, 16])
            for i in range(4):
                row, col = mma_c()(t, i)
                d[row, col] = found[i // 2, i % 2]

    kernel()


def registers(matrix: Any, layout: Any) -> list[Any]:
    """A lane's registers of a matrix in global memory."""
    found = []
    for register in range(layout[1][1].size):
        elements = [matrix[tuple(layout(nv.lane_id(), (j, register)))] for j in range(layout.shape[1][0])]
        if matrix.dtype is nv.f64:
            found += elements
            continue
        bits = [nv.u32(nv.bitcast(x, _BITS[matrix.dtype.bytes])) for x in elements]
        packed = bits[0]
        for j, more in enumerate(bits[1:], 1):
            packed = packed | more << 8 * matrix.dtype.bytes * j
        found.append(nv.bitcast(packed, nv.i32))
    return found


def wide_f64(m: int, k: int) -> list[Any]:
    """A, B and C of f64 of many sizes, so that the order of the sums shows."""
    rng = np.random.default_rng((m, k))
    return [rng.standard_normal(s) * 2.0 ** rng.integers(-20, 20, s) for s in ((m, k), (k, 8), (m, 8))]


def arguments(a: str, b: str, d: str, m: int, k: int) -> list[Any]:
    """A, B, C, and a D to be written."""
    matrices = [(a, (m, k)), (b, (k, 8)), (d, (m, 8))]
    left, right, before = (random(shape, dtypes.by_name(t), seed=i) for i, (t, shape) in enumerate(matrices))
    return [left, right, before, np.zeros_like(before)]


def expected(a: Any, b: Any, c: Any) -> Any:
    return a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
