"""Which tile comes when, for kernels whose blocks stay and take tile after tile.

A running number is mapped to a tile's row and column. At any moment the blocks of the GPU work on some hundred
consecutive numbers; these shall read few rows of A and columns of B, so they are a nearly square patch. The functions
are pure: they take Python ints and traced integers alike.

With clusters, the rows and columns count clusters of tiles: see `TileScheduler`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nvdsl as nv


def row_groups(t: Any, rows: int, cols: int, group: int) -> tuple[Any, Any]:
    """Row and column of tile number ``t``: in groups of ``group`` rows of tiles, each group column by column."""
    group = min(group, rows)
    band, within = t // (group * cols), t % (group * cols)
    first = band * group
    height = group if rows % group == 0 else nv.min(group, rows - first)
    return first + within % height, within // height


@dataclass(frozen=True)
class TileScheduler:
    """The tiles of an ``m x n`` result, or of ``batches`` such results, and who computes them.

    Blocks stay (a persistent kernel): cluster ``c`` of ``clusters`` computes the numbers c, c + clusters, ... A number
    stands for ``cluster_m x cluster_n`` neighbouring tiles, one for each block of the cluster. Where they reach over
    the edge of the result, TMA reads zeros and drops what is stored.
    """

    m: int
    n: int
    tile_m: int
    tile_n: int
    cluster_m: int = 1
    cluster_n: int = 1
    group: int = 8
    batches: int = 1

    @property
    def rows(self) -> int:
        """Rows of clusters."""
        return nv.cdiv(self.m, self.tile_m * self.cluster_m)

    @property
    def cols(self) -> int:
        """Columns of clusters."""
        return nv.cdiv(self.n, self.tile_n * self.cluster_n)

    @property
    def count(self) -> int:
        return self.rows * self.cols * self.batches

    def start(self, t: Any, rank: Any = 0) -> tuple[Any, Any, Any]:
        """Batch, first row and column, in elements, of the tile of block ``rank`` in cluster tile ``t``."""
        batch: Any = 0
        if self.batches > 1:
            each = self.rows * self.cols
            batch, t = t // each, t % each
        row, col = row_groups(t, self.rows, self.cols, self.group)
        if self.cluster_m > 1:
            row = row * self.cluster_m + rank % self.cluster_m
        if self.cluster_n > 1:
            col = col * self.cluster_n + rank // self.cluster_m
        return batch, row * self.tile_m, col * self.tile_n
