"""Which tile comes when, where the rows of the result belong to groups and only the device knows how many to each.

The groups' tiles are numbered one group after the other. A warp finds the group of a number by itself: each lane has
the rows of one of 32 groups, a scan over the lanes gives the tiles up to it, and a vote says how many groups end before
the number. Numbers that a block asks for only grow, so it goes on from the 32 groups where it found the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler


def group_end(offsets: nv.Array, group: nv.Int, extent: nv.Int) -> nv.Value:
    """Where a group ends, as i32, within ``extent``, which the groups share. Integers of 64 bits are clamped before."""
    least, most = (offsets.dtype(x) for x in (0, extent))
    return nv.i32(nv.clamp(offsets[group], least, most))


class GroupTile:
    """A tile: of group ``group``, from (``row``, ``col``) on, in elements of the result; rows from ``end`` on are not
    the group's. ``number``: of all tiles. ``valid``: whether there are so many. A traced loop carries it.
    """

    def __init__(self, tiles: GroupTiles, rank: nv.Int, values: Sequence[Any]) -> None:
        self.tiles, self.rank = tiles, rank
        self.number, self.group, self.row, self.col, self.end = values[:5]
        self.window = values[5:]  # the first of 32 groups, the tiles and the rows of all groups before it

    @property
    def valid(self) -> nv.Value:
        return self.group < self.tiles.groups

    def next(self, step: nv.Int) -> GroupTile:
        """The tile ``step`` numbers further."""
        return self.tiles.find(self.number + step, self.window, self.rank)

    def __nv_values__(self) -> list[Any]:
        return [self.number, self.group, self.row, self.col, self.end, *self.window]

    def __nv_rebuild__(self, values: Sequence[Any]) -> GroupTile:
        return GroupTile(self.tiles, self.rank, values)


class NumberedTile:
    """A tile of a `TileScheduler`, with the same attributes: its batch is the group, and nobody else has rows of it."""

    end = None

    def __init__(self, tiles: TileScheduler, number: nv.Int, rank: nv.Int) -> None:
        self.tiles, self.number, self.rank = tiles, nv.i32(number), rank
        self.group, self.row, self.col = tiles.start(self.number, rank)

    @property
    def valid(self) -> nv.Bool:
        return self.number < self.tiles.count

    def next(self, step: nv.Int) -> NumberedTile:
        """The tile ``step`` numbers further."""
        return NumberedTile(self.tiles, self.number + step, self.rank)

    def __nv_values__(self) -> list[Any]:
        return [self.number]

    def __nv_rebuild__(self, values: Sequence[Any]) -> NumberedTile:
        return NumberedTile(self.tiles, values[0], self.rank)


class AllTiles:
    """The tiles of a `TileScheduler`, asked for as those of groups are."""

    def __init__(self, tiles: TileScheduler) -> None:
        self.tiles, self.most = tiles, tiles.count

    def first(self, number: nv.Int, rank: nv.Int = 0) -> NumberedTile:
        """The tile of block ``rank`` of a cluster in tile ``number``."""
        return NumberedTile(self.tiles, number, rank)


class GroupTiles:
    """The tiles of a result of this ``shape``, of which group ``g`` has the rows from ``offsets[g - 1]`` (0 for the
    first) to ``offsets[g] - 1``. Made in the host function; `first`, and a tile's `next`, are for whole warps.

    A group's last tiles may hang over into the next group's rows: who stores them stops at ``end``. Within a group,
    tiles come in bands of ``band`` rows of tiles, each column by column. A number stands for neighbouring
    tiles, one for each block of a ``cluster``. Offsets beyond the array's end count as its end.

    ``most``: there are no more numbers, whatever the offsets.
    """

    def __init__(
        self,
        offsets: nv.Array,
        shape: Sequence[nv.Int],
        tile: tuple[int, int],
        cluster: tuple[int, int] = (1, 1),
        band: int = 8,
    ) -> None:
        self.m, n = shape
        self.offsets, self.groups = offsets, offsets.shape[0]
        (self.tile_m, self.tile_n), (self.cluster_m, self.cluster_n) = tile, cluster
        self.cols, self.band = nv.cdiv(n, self.tile_n * self.cluster_n), band
        self.most = (nv.cdiv(self.m, self.tile_m * self.cluster_m) + self.groups) * self.cols
        self._of_band = Divisor.of(band * self.cols)

    def first(self, number: nv.Int, rank: nv.Int = 0) -> GroupTile:
        """The tile of block ``rank`` of a cluster in tile ``number``."""
        return self.find(nv.i32(number), (nv.i32(0), nv.i32(0), nv.i32(0)), rank)

    @property
    def last(self) -> nv.Value:
        """The row behind the last group."""
        return self._end(self.groups - 1)

    def _end(self, group: nv.Int) -> nv.Value:
        return group_end(self.offsets, group, self.m)

    def _counted(self, window: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Of this lane's group in a window: its first row, the one behind its last, its tiles, and all up to them."""
        base, before, top = window
        lane = nv.lane_id()
        end = self._end(nv.min(base + lane, self.groups - 1))
        start = nv.select(lane == 0, top, nv.shuffle_up(end, 1))
        tiles = self._rows(start, end) * self.cols
        return start, end, tiles, before + nv.warp.inclusive_sum(tiles)

    def _rows(self, start: nv.Int, end: nv.Int) -> nv.Int:
        """Rows of tiles."""
        return nv.cdiv(nv.max(end - start, 0), self.tile_m * self.cluster_m)

    def find(self, number: nv.Value, window: Sequence[Any], rank: nv.Int) -> GroupTile:
        """A tile by its number, of these 32 groups or later ones."""
        base, before, top = window
        start, end, tiles, up_to = self._counted((base, before, top))
        while (number >= nv.shuffle(up_to, WARP_SIZE - 1)) & (base + WARP_SIZE < self.groups):
            base = base + WARP_SIZE
            before, top = nv.shuffle(up_to, WARP_SIZE - 1), nv.shuffle(end, WARP_SIZE - 1)
            start, end, tiles, up_to = self._counted((base, before, top))
        lane = nv.warp.sum(nv.select(number >= up_to, 1, 0))
        found = lane < WARP_SIZE
        start, end, first = (nv.shuffle(x, nv.min(lane, WARP_SIZE - 1)) for x in (start, end, up_to - tiles))
        band, within = self._of_band.divmod(nv.select(found, number - first, 0))
        height = nv.max(nv.min(self._rows(start, end) - band * self.band, self.band), 1)
        col = nv.i32(nv.u32(within) // nv.u32(height))
        row = band * self.band + within - col * height
        if self.cluster_m > 1:
            row = row * self.cluster_m + rank % self.cluster_m
        if self.cluster_n > 1:
            col = col * self.cluster_n + rank // self.cluster_m
        group = nv.select(found, base + lane, self.groups)
        place = start + row * self.tile_m, col * self.tile_n
        return GroupTile(self, rank, [number, group, *place, end, base, before, top])
