"""The units of stream-K, asked for as the tiles of groups are: by kernels that have no turns between tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.streamk_fixup import FixupWorkspace
from nvdsl.kernels.gemm.streamk_scheduler import StreamKScheduler


class CutTile:
    """A block's unit ``number``: a tile, or some of its slices of K. A traced loop carries it."""

    end = None

    def __init__(self, tiles: CutTiles, block: nv.Int, number: nv.Int) -> None:
        self.tiles, self.block, self.number = tiles, block, nv.i32(number)
        self.unit = tiles.scheduler.unit(block, self.number)
        self.group, self.row, self.col = tiles.tiles.start(self.unit.tile)

    @property
    def valid(self) -> nv.Bool:
        return self.number < self.tiles.scheduler.units(self.block)

    def slices(self, steps: nv.Int) -> tuple[nv.Int, nv.Int]:
        """The first of its slices, and the one behind the last."""
        return self.unit.first, self.unit.last

    def next(self, step: nv.Int) -> CutTile:
        """The block's next unit."""
        return CutTile(self.tiles, self.block, self.number + 1)

    def __nv_values__(self) -> list[Any]:
        return [self.block, self.number]

    def __nv_rebuild__(self, values: Sequence[Any]) -> CutTile:
        return CutTile(self.tiles, *values)


class CutTiles:
    """The tiles of a `TileScheduler`, spread over ``blocks`` by stream-K. Made in the host function.

    ``consumers``: of a block; each gives and takes ``rows x cols`` sums. ``most``: blocks that have something to do.
    """

    def __init__(self, tiles: TileScheduler, steps: nv.Int, blocks: int, consumers: int, rows: int, cols: int) -> None:
        self.tiles, self.consumers, self.steps = tiles, consumers, steps
        self.scheduler = StreamKScheduler(tiles.count, steps, blocks)
        self.most = self.scheduler.blocks
        cut = self.scheduler.is_cut is not False
        self.workspace = FixupWorkspace(blocks * consumers, rows, cols, nv.f32) if cut else None

    def first(self, block: nv.Int, rank: nv.Int = 0) -> CutTile:
        """A block's first unit. ``rank``: 0, as there are no clusters."""
        return CutTile(self, nv.i32(block), 0)

    def owned(self, tile: Any, acc: nv.Accumulator, consumer: nv.Int, barrier: nv.Int) -> tuple[Any, nv.Accumulator]:
        """Whether the block owns the tile, and all of its sums then, or else what it was given. ``acc``: the sums of a
        unit, which the tile's owner is given. By one warpgroup, of which ``barrier`` is a named barrier."""
        unit = tile.unit
        if self.workspace is not None:
            if unit.first > 0:
                self.workspace.store(acc, tile.block * self.consumers + consumer, barrier)
            else:
                peer, end = tile.block, unit.last
                while end < self.steps:  # the blocks before this one have the tile's other slices
                    peer = peer - 1
                    acc = self.workspace.add(acc, peer * self.consumers + consumer, barrier)
                    end = self.scheduler.unit(peer, 0).last
        return unit.first == 0, acc
