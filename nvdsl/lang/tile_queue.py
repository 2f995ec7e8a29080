"""A queue of tiles that the blocks of a persistent grid take their work from, one after the other.

With a fixed order, block ``b`` of ``B`` computes tiles ``b``, ``b + B``, ``b + 2 B``: right if all take equally long.
Where they don't (causal attention, groups of unequal size), a block that is done takes the next tile that nobody
has: an atomic counter in global memory says which. One thread of a block draws it, and hands it to the block's warps
through a ring of slots in shared memory, so that it may draw ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nvdsl.errors import trace_error
from nvdsl.lang.pipeline import PipelineState
from nvdsl.lang.smem import smem
from nvdsl.ops.mbarrier import Mbarriers
from nvdsl.ops.warp import block_id, grid_dim, lane_id, shuffle
from nvdsl.values import dtypes
from nvdsl.values import scope as kernels
from nvdsl.values.results import kept
from nvdsl.values.traced import Value
from nvdsl.values.typing import Bool, Int

if TYPE_CHECKING:
    from nvdsl.lang.array import Array


class Drawn:
    """A place in a `TileQueue`: the number of a tile, and the slot of the next one. A traced loop carries it.

    ``tile``: i32. ``valid``: whether there is such a tile; if not, the queue is empty.
    """

    def __init__(self, queue: TileQueue, tile: Value, state: PipelineState) -> None:
        self.queue, self.tile, self.state = queue, tile, state

    @property
    def valid(self) -> Value:
        """Whether it is a tile: fewer than the queue's count came before."""
        return self.tile < self.queue.count

    def __nv_values__(self) -> list[Value]:
        return [self.tile, *self.state.__nv_values__()]

    def __nv_rebuild__(self, values: Sequence[Value]) -> Drawn:
        return Drawn(self.queue, values[0], self.state.__nv_rebuild__(values[1:]))


class TileQueue:
    """Tiles ``0 .. count - 1``, each for one block of the grid. All threads of the block make it.

    ``counter``: one element of 32 bits in global memory, 0 at the launch (`nv.zeros`); it is 0 again when all tiles
    were drawn, so that an array of one's own serves launch after launch. ``count``: at least 1. ``readers``: how many
    arrivals free a slot, one of each warp that reads. ``stages``: how many tiles the drawing thread may be ahead.
    ``sync``: as of `Ring`. The grid has one axis, and any number of blocks.

        queue = nv.TileQueue(counter, tiles, readers=8)

        one thread                             each of the warps that read
        work = queue.begin()                   work = queue.begin()
        while work.valid:                      while work.valid:
            following = queue.draw(work)           multiply(work.tile)
            load(work.tile)                        work = queue.next(work)
            work = following

    A block's first tile is its own number: nothing is drawn for it. Every valid tile is followed by exactly one `draw`,
    and by one `next` of each reader.

    Raises TraceError for a counter or a count that is none.
    """

    def __init__(self, counter: Array, count: Int, *, readers: int, stages: int = 2, sync: bool = True) -> None:
        if len(counter.shape) != 1 or counter.dtype not in (dtypes.i32, dtypes.u32) or "workgroup" in str(counter.type):
            raise trace_error(
                f"a queue that counts in {counter!r}",
                rule="the counter is the first element of a 1-D array of 32-bit integers in global memory",
                fix="counter = nv.zeros(1, nv.i32), in the host function",
            )
        if isinstance(count, int) and not 1 <= count < 1 << 31:
            raise trace_error(
                f"a queue of {count} tiles",
                rule="a queue has at least one tile, and less than 2**31",
                fix="launch nothing where there is nothing to do",
            )
        axes = kernels.current("nv.TileQueue").grid
        if any(isinstance(blocks, int) and blocks != 1 for blocks in axes[1:]):
            raise trace_error(
                f"a queue in a grid of {axes} blocks",
                rule="a block's first tile is its number along x: the grid has one axis",
                fix="launch with grid=blocks",
            )
        self.counter, self.count, self.stages = counter, count, stages
        self._first = PipelineState(stages)
        self._slots = smem((stages,), dtypes.i32)
        self._full = Mbarriers(stages, arrivals=1, sync=False)
        self._empty = Mbarriers(stages, arrivals=readers, sync=sync)

    def begin(self) -> Drawn:
        """The block's first tile: its own number, if there are so many."""
        return Drawn(self, dtypes.i32(block_id.x), self._first)

    @kept("work = queue.draw(work)")
    def draw(self, work: Drawn) -> Drawn:
        """Take the next tile, and tell the readers. By one thread, once for each tile that is valid.

        Draw before you load the current tile: the counter's answer takes about a microsecond.
        """
        # The counter wraps to 0 with the last of `count` draws: as many as there are valid tiles.
        before = self.counter.atomic_inc(0, self.count - 1)
        tile = dtypes.i32(grid_dim.x) + dtypes.i32(before)
        stage = work.state.stage
        self._empty[stage].wait(work.state.phase ^ 1)
        self._slots[stage] = tile
        self._full[stage].arrive()
        return Drawn(self, tile, work.state.next())

    @kept("work = queue.next(work)")
    def next(self, work: Drawn, *, release: Bool | None = None) -> Drawn:
        """The tile that was drawn after ``work``; waits until it is. By whole warps, whose first lanes free the slot.

        ``release``: which threads free it, for readers that are no whole warps; each one frees it for itself.
        """
        stage = work.state.stage
        self._full[stage].wait(work.state.phase)
        tile = self._slots[stage]
        if release is None:  # all lanes have read it; and ptxas knows that they go on with the same tile
            tile, release = shuffle(tile, 0), lane_id() == 0
        self._empty[stage].arrive(predicate=release)
        return Drawn(self, tile, work.state.next())
