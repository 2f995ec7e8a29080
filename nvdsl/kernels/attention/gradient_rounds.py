"""Which tiles of keys a block of attention's gradients takes, one after the other."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_tiles import GradientTiles
from nvdsl.lang.tile_queue import Drawn
from nvdsl.ops.order import recomputing

SLOTS = 2
READERS = 4 * CONSUMERS + CONSUMERS + 1
"""Warps of consumers, those that add up dQ, and the producer."""


class Round:
    """A tile of keys: its number, how many the block has drawn before it, and how many of these had queries that see
    them. A traced loop carries it."""

    def __init__(self, rounds: Rounds, tile: Any, drawn: Any, seen: Any) -> None:
        self._rounds, self.tile, self._drawn, self._seen = rounds, tile, drawn, seen

    @property
    def valid(self) -> Any:
        """Whether there is such a tile."""
        return self.tile < self._rounds.count

    @property
    def started(self) -> Any:
        """Whether the block had a tile before that queries see."""
        return self._seen > 0

    @property
    def keys(self) -> nv.PipelineState:
        """Where its K is, for a consumer."""
        return self._state(self._rounds.config.keys, self._seen)

    @property
    def values(self) -> nv.PipelineState:
        """Where its V is, for a consumer."""
        return self._state(self._rounds.config.values, self._seen)

    @property
    def slot(self) -> nv.PipelineState:
        """Where the number of the next one will be."""
        return self._state(SLOTS, self._drawn)

    def following(self, tile: Any, seen: Any) -> Round:
        more = 1 if seen is True else nv.select(seen, 1, 0)
        return Round(self._rounds, tile, self._drawn + 1, self._seen + more)

    def _state(self, stages: int, count: Any) -> nv.PipelineState:
        return nv.PipelineState(stages, count % stages, count // stages % 2)

    def __nv_values__(self) -> list[Any]:
        return [self.tile, self._drawn, self._seen]

    def __nv_rebuild__(self, values: list[Any]) -> Round:
        return Round(self._rounds, *values)


class Rounds:
    """Made in the host function. A warp draws tiles from a queue, each when the producer has loaded all of the one
    before: whoever draws earlier has work that others could begin."""

    def __init__(self, tiles: GradientTiles, config: Config) -> None:
        self.count, self.config = tiles.blocks, config
        self.grid = nv.min(self.count, config.blocks)
        self._counter = nv.zeros(1, nv.i32, restored=True)

    def allocate(self) -> None:
        """In the kernel."""
        self._queue = nv.TileQueue(self._counter, self.count, readers=READERS, stages=SLOTS, sync=False)
        self._asked = nv.Mbarriers(1, arrivals=1, sync=False)
        self._kept = nv.smem((4 * CONSUMERS, 3), nv.i32)

    def begin(self) -> Round:
        return Round(self, self._queue.begin().tile, nv.i32(0), nv.i32(0))

    def draw(self) -> None:
        """All tiles of the block, by one thread."""
        drawn, turn = self._queue.begin(), nv.i32(0)
        while drawn.valid:
            self._asked[0].wait(turn % 2)
            drawn, turn = self._queue.draw(drawn), turn + 1

    def ask(self, work: Round, seen: Any) -> Round:
        """The next tile, by the producer's one thread, which has loaded all of this one. ``seen``: whether queries see
        this one."""
        self._asked[0].arrive()
        return work.following(self._drawn(work, nv.lane_id() == 0), seen)

    def next(self, work: Round, seen: Any) -> Round:
        """The next tile, by whole warps."""
        return work.following(self._drawn(work, None), seen)

    def _drawn(self, work: Round, release: Any) -> Any:
        return self._queue.next(Drawn(self._queue, work.tile, work.slot), release=release).tile

    def keep(self, work: Round) -> None:
        """A consumer's warp leaves in shared memory what it would hold in registers through its loop."""
        with recomputing():
            warp = nv.warp_id() - 4
        nv.sync_warp()
        for i, x in enumerate(work.__nv_values__()):
            self._kept.store(
                (warp, i), x, predicate=nv.lane_id() == 0
            )  # in a branch, rings would leave uniform registers
        nv.sync_warp()

    def kept(self) -> Round:
        with recomputing():
            warp = nv.warp_id() - 4
        return Round(self, *(nv.shuffle(self._kept[warp, i], 0) for i in range(3)))
