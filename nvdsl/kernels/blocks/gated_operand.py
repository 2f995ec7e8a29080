"""Two matrices B of a gated product, side by side in each tile: one wgmma multiplies both."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.kernels.blocks.tma_operand import TmaOperand


class GatedOperand(TmaOperand):
    """``array``: (2, N, K) where ``major`` is "k", (2, K, N) where it is "mn". Of a tile of ``mn`` elements, half are of
    the first matrix and half of the second, from the same column of both on: so a thread of the accumulator holds a
    column's sums with either."""

    clips = False

    def __init__(self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1) -> None:
        super().__init__(array, mn // 2, k, major=major, parts=parts)
        nv.require(
            array.ndim == 3 and mn % 2 == 0 and (major == "k" or self.cols % self.panel == 0),
            f"a tile of {mn} columns of two matrices {array.shape}, {major}-major",
            rule="a gated product has two matrices B in one array, (2, N, K) or (2, K, N); where N is contiguous, half a "
            f"tile is a multiple of {self.panel} columns",
            fix="choose a configuration with tile_n = 128 or 256",
        )
        self.each *= 2

    def allocate(self, stages: int) -> None:
        both = (2 * self.rows, self.stored_cols) if self.major == "k" else (self.rows, 2 * self.stored_cols)
        self.stack = nv.smem((stages, *both), self.dtype, swizzle=128)

    def load(
        self,
        stage: nv.Int,
        full: nv.Mbarrier,
        batch: nv.Int,
        mn: nv.Int,
        k: nv.Int,
        count: nv.Int,
        *,
        part: nv.Int = 0,
        mask: nv.Int | None = None,
    ) -> None:
        slot = self.stack[stage]
        for half in (0, 1):
            across = self.major == "k"
            tile = slot.rows(half * self.rows, self.rows) if across else slot.cols(half * self.cols, self.cols)
            self.load_tile(tile, full, half, mn, k, count, part=part, mask=mask)

    def b(self, stage: nv.Int) -> nv.Tile:
        return self.stack[stage].T if self.major == "k" else self.stack[stage]
