"""TMA: boxes of any rank that hang over an array's edges, each swizzle, loads, stores and reductions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import nvdsl as nv
from nvdsl.ops.smem import get_dynamic_shared_memory
from tests.differential import inputs
from tests.differential.case import Call, Case, Result, dtype


@dataclass(frozen=True)
class Copy(Case):
    """Load the box at ``load_at`` of one array, read the tile's bytes, store it to ``store_at`` of another array.

    ``columns``: how much of each row of ``shape`` the tensor map covers (the rest is padding). ``how``: "store", or a
    reduction's kind.
    """

    kind = "copy"
    element: str
    shape: tuple[int, ...]
    columns: int
    box: tuple[int, ...]
    swizzle: int
    fill: str
    load_at: tuple[int, ...]
    store_at: tuple[int, ...]
    how: str
    seed: int

    def call(self) -> Call:
        t, box, swizzle, rank = dtype(self.element), self.box, self.swizzle, len(self.shape)
        rows, covered = math.prod(box[:-1]), (*self.shape[:-1], self.columns)
        size = rows * box[-1] * t.bytes

        @nv.jit
        def copy(x, y, raw):
            whole = self.columns == self.shape[-1]
            x_tma = nv.TMA(x if whole else x.view((0,) * rank, covered), box, swizzle=swizzle, fill=self.fill)
            y_tma = nv.TMA(y, box, swizzle=swizzle)

            @nv.kernel(grid=1, block=128)
            def kernel():
                tile = nv.smem((rows, box[-1]), t, swizzle=swizzle)
                full = nv.Mbarriers(1, arrivals=1)[0]
                thread = nv.thread_id.x
                if thread == 0:
                    full.arrive_expect_tx(tile.bytes)
                    x_tma.load(tile, full, self.load_at)
                full.wait(0)
                memory = get_dynamic_shared_memory((size,), nv.u8.ir, tile.offset).remember_dtype(nv.u8)
                for i in nv.range(nv.cdiv(size, 128)):
                    if i * 128 + thread < size:
                        raw[i * 128 + thread] = memory[i * 128 + thread]
                if thread == 0:
                    if self.how == "store":
                        y_tma.store(tile, self.store_at)
                    else:
                        for memory, at in y_tma._boxes(tile, self.store_at):
                            y_tma._map.reduce(memory, at, self.how)
                    nv.bulk_commit_group()
                    nv.bulk_wait_group(0)

            kernel()

        x = inputs.mixed(self.element, math.prod(self.shape), self.seed).reshape(self.shape)
        y = inputs.mixed(self.element, math.prod(self.shape), self.seed + 1).reshape(self.shape)
        raw = np.zeros(size, np.uint8)

        def results() -> list[Result]:
            stored = y.view(np.uint8) if self.how == "store" else y
            return [Result("tile", raw), Result("array", stored.reshape(-1))]

        return Call(copy, [x, y, raw], results)
