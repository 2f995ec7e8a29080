"""Kernels that address memory by layouts: each returns what it got and what the layouts say, for any target."""

from __future__ import annotations

from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.layout import FRAGMENT_ROWS, Layout, TileLayout, X, composition, wgmma_a, wgmma_accumulator


@nv.jit
def evaluated(out: Any, *, layout: Layout, values: int) -> None:
    """``out[thread, value, :]``: where the layout puts each value of each thread."""

    @nv.kernel(grid=(1,), block=128)
    def kernel():
        thread = nv.thread_id.x
        for v in range(values):
            place = layout(thread, v)
            if layout.is_coordinates:
                out[thread, v, 0], out[thread, v, 1] = place
            else:
                out[thread, v, 0] = place

    kernel()


@nv.jit
def through_fragments(a: Any, out: Any, *, swizzle: int) -> None:
    """Store a tile by its layout, load it with ldmatrix, and write each register where `wgmma_a` says: ``out = a``."""
    rows, cols = a.shape

    @nv.kernel(grid=(1,), block=128)
    def kernel():
        tile = nv.smem((rows, cols), a.dtype, swizzle=swizzle)
        bytes = TileLayout.of(rows, cols, 2, swizzle).as_layout()
        thread = nv.thread_id.x
        words = nv.get_dynamic_shared_memory((rows * cols,), a.dtype.ir, tile.offset)
        for i in range(rows * cols // 128):
            row, col = i * 128 // cols + thread // cols, thread % cols
            words[bytes(row, col) // 2] = a[row, col]
        nv.sync_threads()
        for step in range(cols // 16):
            start = composition(bytes, FRAGMENT_ROWS)(thread) ^ bytes(0, 16 * step)
            for register, packed in enumerate(nv.ldmatrix(tile.pointer(start), 4)):
                row, col = wgmma_a(2)(thread, (0, register))
                out[row, step * 8 + col // 2] = packed

    kernel()


LAYOUTS = {
    "accumulator": (wgmma_accumulator(24), 12),
    "a": (wgmma_a(1), 16),
    "swizzled": (composition(TileLayout.of(64, 32, 2, 64).as_layout(), wgmma_accumulator(32)), 16),
    "padded": (Layout(((8, 16), (2, 3)), ((72, 1), (1000, 5))), 6),
    "bits": (Layout(((4, 8, 4), 4), ((X(0x11), X(0x240), 4096), X(0x88))), 4),
}


def check_evaluation(layout: Layout, values: int, target: str) -> None:
    out = np.full((128, values, 2), -1, np.int32)
    evaluated(out, layout=layout, values=values, target=target)
    for thread in range(128):
        for v in range(values):
            place = layout(thread, v)
            expected = list(place) if layout.is_coordinates else [place]
            assert out[thread, v, : len(expected)].tolist() == expected, (thread, v)


def check_fragments(cols: int, swizzle: int, target: str) -> None:
    a = np.arange(64 * cols, dtype=np.uint16).reshape(64, cols).view(np.float16)
    out = np.zeros((64, cols // 2), np.int32)
    through_fragments(a, out, swizzle=swizzle, target=target)
    assert (out.view(np.uint16) == a.view(np.uint16)).all()
