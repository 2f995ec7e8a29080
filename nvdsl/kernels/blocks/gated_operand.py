"""The B of a gated product: two matrices side by side in each tile, so that one wgmma multiplies both."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.kernels.blocks.tma_operand import TmaOperand


class GatedOperand(TmaOperand):
    """``array``: (2 N, K) where ``major`` is "k", (K, 2 N) where it is "mn": N columns of the gate, then those of the
    other factor. Half of a tile of ``mn`` elements are the gate's, half the other's, from the same column on. So a
    thread of the accumulator holds both sums of a place."""

    clips = False

    def __init__(
        self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1, defined: bool = True
    ) -> None:
        super().__init__(array, mn // 2, k, major=major, parts=parts, defined=defined)
        nv.require(
            mn % (16 * parts) == 0 if major == "k" else self.cols % self.panel == 0,
            f"a gated product with tiles of {mn} columns of B, {major}-major, that {parts} blocks share",
            rule=f"half of a tile is a multiple of 8 columns for each block; of {self.panel} where N is contiguous",
            fix=f"choose a configuration with tile_n = {2 * self.panel} or {4 * self.panel}",
        )
        self.other = array.shape[-2 if major == "k" else -1] // 2
        grid = 16 // array.dtype.bytes
        nv.require(
            major == "k" or self.other % grid == 0,
            "the halves of an N-major B",
            rule=f"TMA starts where N is a multiple of {grid} elements, 16 bytes: so N is one",
            fix="pass B with K contiguous",
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
        part: nv.Int | None = None,
        mask: nv.Int | None = None,
    ) -> None:
        slot = self.stack[stage]
        for half in (0, 1):
            by_rows = self.major == "k"
            tile = slot.rows(half * self.rows, self.rows) if by_rows else slot.cols(half * self.cols, self.cols)
            self.load_tile(tile, full, batch, mn + half * self.other, k, count, part=part, mask=mask)

    def b(self, stage: nv.Int, first: nv.Int = 0, cols: int | None = None) -> nv.Tile:
        return self.stack[stage].T if self.major == "k" else self.stack[stage]
