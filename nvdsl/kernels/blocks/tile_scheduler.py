"""Which tile comes when, for kernels whose blocks stay and take tile after tile.

A running number is mapped to a tile's row and column. At any moment the blocks of the GPU work on some hundred
consecutive numbers; these shall read few rows of A and columns of B, so they are a nearly square patch.

With clusters, the rows and columns count clusters of tiles: see `TileScheduler`.
"""

from __future__ import annotations

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor


class RowGroups:
    """``rows x cols`` tiles in groups of ``group`` rows of tiles, each group column by column. Made where the extents
    are known: in the host function, or in Python. ``last``: the last group has so many rows at least, if there are."""

    def __init__(self, rows: nv.Int, cols: nv.Int, group: nv.Int, last: nv.Int | None = None) -> None:
        known = isinstance(rows, int) and isinstance(group, int) and last is None
        self._group = nv.min(group, rows) if known else group
        self._full = (rows if last is None else nv.max(rows - last, 0)) // self._group
        """Groups of as many rows; what is left are the last one's."""
        self._tiles = None if last is None else self._group * cols
        self._band = Divisor.of(self._group * cols)
        self._height = Divisor.of(self._group)
        self._last = Divisor.of(nv.max(rows - self._full * self._group, 1))
        self._whole = known and rows % self._group == 0

    def place(self, t: nv.Int) -> tuple[nv.Int, nv.Int]:
        """Row and column of tile number ``t``."""
        band, within = self._band.divmod(t)
        if self._tiles is not None:  # the last group has those of several
            band = nv.min(band, self._full)
            within = t - band * self._tiles
        first = band * self._group
        height = self._height if self._whole else Divisor.select(band == self._full, self._last, self._height)
        col, row = height.divmod(within)
        return first + row, col


class TileScheduler:
    """The tiles of an ``m x n`` result, or of ``batches`` such results, and who computes them.

    Blocks stay (a persistent kernel): cluster ``c`` of ``clusters`` computes the numbers c, c + clusters, ... A number
    stands for ``cluster_m x cluster_n`` neighbouring tiles, one for each block of the cluster. Where they reach over
    the edge of the result, TMA reads zeros and drops what is stored. ``batches``: None of a result without that axis.

    ``rows``, ``cols``: of clusters; ``count``: of all. Extents are Python ints, or traced integers of the host
    function, in which it is made then; `start` takes both, too.
    """

    def __init__(
        self,
        m: nv.Int,
        n: nv.Int,
        tile_m: nv.Int,
        tile_n: nv.Int,
        cluster_m: int = 1,
        cluster_n: int = 1,
        group: nv.Int = 8,
        batches: nv.Int | None = None,
    ) -> None:
        self.tile_m, self.tile_n, self.cluster_m, self.cluster_n = tile_m, tile_n, cluster_m, cluster_n
        self.rows, self.cols = nv.cdiv(m, tile_m * cluster_m), nv.cdiv(n, tile_n * cluster_n)
        each = self.rows * self.cols
        self.batched = batches is not None and not (isinstance(batches, int) and batches == 1)
        self.count = each if batches is None else each * batches
        self._groups = RowGroups(self.rows, self.cols, group)
        self._each = Divisor.of(each)

    def start(self, t: nv.Int, rank: nv.Int = 0) -> tuple[nv.Int, nv.Int, nv.Int]:
        """Batch, first row and column, in elements, of the tile of block ``rank`` in cluster tile ``t``."""
        batch: nv.Int = 0
        if self.batched:
            batch, t = self._each.divmod(t)
        row, col = self._groups.place(t)
        if self.cluster_m > 1:
            row = row * self.cluster_m + rank % self.cluster_m
        if self.cluster_n > 1:
            col = col * self.cluster_n + rank // self.cluster_m
        return batch, row * self.tile_m, col * self.tile_n
