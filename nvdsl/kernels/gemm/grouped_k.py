"""GEMM of groups along K: the gradients of the weights of a mixture of experts.

    out[g] = a[:, slices of g] @ b[slices of g]       group g has K from offsets[g - 1] to offsets[g] - 1

``a`` is stored (K, M), so that both operands have the groups along their rows. All results have one size, so the tiles
are those of a batch; only how many slices of K they sum is known on the device alone. The first slice of a group has
what is left when the others are whole. Its rows come last in the slot, behind zeros, which tensor maps of windows fill
in (`nvdsl.Array.windows`): nothing of the group before is loaded, and the products with zeros are left out, 16 rows at
a time. An empty group is one slice of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.group_tiles import group_end
from nvdsl.kernels.blocks.mainloop import TURNS, Mainloop
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm

STEP = 16
"""Elements of K that one wgmma multiplies."""


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    offsets: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    blocks: int,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
    direct_store: bool = False,
) -> None:
    """``a`` is (K, M), ``b`` (K, N), both of 16-bit types; ``out`` (groups, M, N).

    ``offsets``: integers, where each group ends; they don't decrease. ``blocks``: of the grid at most, as many as run
    at the same time.
    """
    windows = a.windows(config.tile_k), b.windows(config.tile_k)
    gemm = GroupedGemm(*windows, out, operands, config, acc_dtype, "mn", "mn", epilogue_op, direct_store or cut(out))
    gemm.offsets, gemm.extent = offsets, a.shape[0]
    tiles, epilogue = gemm.tiles, gemm.epilogue
    pingpong = config.schedule == "pingpong"
    step = nv.min(tiles.count, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster, programmatic=True)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        mainloop: RaggedMainloop = gemm.prologue()  # type: ignore[assignment]
        turns = nv.Turns(2, barrier=TURNS)

        if nv.warpgroup_id() == 0:
            gemm.load_groups(mainloop, first, step)
        else:
            consumer = gemm.begin_consumer(mainloop)
            top, left = (0, 0) if pingpong else gemm.part(consumer)
            state, mine = mainloop.ring.consumer_state(), first
            if pingpong:
                turns.begin(consumer)
                mine = first + consumer * step
                if consumer == 1:
                    state = state.advance(gemm.along_k(first).steps)  # the first tile's slots are consumer 0's
            stride = 2 * step if pingpong else step
            part = gemm.along_k(nv.min(mine, tiles.count - 1))
            for t in nv.range(mine, tiles.count, stride):
                batch, row, col = tiles.start(t, mainloop.rank)
                row, col = row + top, col + left
                held = epilogue.prefetch(batch, row, col, config.rows)
                if pingpong:
                    turns.wait(consumer)
                acc, last, state = mainloop.multiply_part(state, (top, left), gemm.accumulator(), part)
                following = gemm.along_k(nv.min(t + stride, tiles.count - 1))  # read while products are summed
                if pingpong:
                    turns.pass_on(consumer, predicate=t + step < tiles.count)
                    state = state.advance(gemm.along_k(nv.min(t + step, tiles.count - 1)).steps)
                mainloop.finish(last)
                epilogue.store(acc, batch, row, col, consumer, held)
                part = following
            epilogue.drain()

    kernel()


class Part:
    """A group's part of K: from ``start`` on; ``steps`` slices, at least one, of whose first one the last ``inside``
    rows are the group's. A traced loop carries it."""

    def __init__(self, start: Any, steps: Any, inside: Any) -> None:
        self.start, self.steps, self.inside = start, steps, inside

    def __nv_values__(self) -> list[Any]:
        return [self.start, self.steps, self.inside]

    def __nv_rebuild__(self, values: Sequence[Any]) -> Part:
        return Part(*values)


class RaggedMainloop(Mainloop):
    """`Mainloop` over the slices of a group, from windows of both operands."""

    def load_part(self, state: nv.PipelineState, part: Part, row: Any, col: Any) -> nv.PipelineState:
        """Load a group's slices of the tile at (``row``, ``col``). By one thread. Returns the ring's next position."""
        for step in nv.range(part.steps, unroll=False):
            start = nv.max(part.inside + (step - 1) * self.a.k, 0)
            before = nv.select(step == 0, part.inside - self.a.k, 0)  # rows of the slot that lie before the window
            self._load_slice(state, part.start + start, row, col, before, None, step >= self.stages)
            state = state.next()
        return state

    def multiply_part(
        self, state: nv.PipelineState, at: tuple[Any, Any], acc: nv.Accumulator, part: Part
    ) -> tuple[Any, Any, Any]:
        """`multiply` for a group's slices: of the first one, only steps that have rows of the group."""
        self.ring.wait(state)
        zeros = nv.min((self.a.k - part.inside) // STEP, self.a.k // STEP - 1)
        acc += self._step(state, at, zeros)
        for step in nv.range(zeros + 1, self.a.k // STEP, unroll=False):
            acc += self._step(state, at, step)
        return self.go_on(state, at, acc, part.steps)

    def _step(self, slot: nv.PipelineState, at: tuple[Any, Any], number: Any) -> Any:
        """The product of 16 rows of a slot."""
        a, b = self.a.a(slot.stage, at[0], self.rows), self.b.b(slot.stage, at[1], self.cols)
        return a.T.rows(number * STEP, STEP).T @ b.rows(number * STEP, STEP)


class GroupedGemm(Gemm):
    """`Gemm` whose tiles sum slices that only the device knows. ``extent``: of K, all groups together."""

    mainloop = RaggedMainloop
    offsets: nv.Array
    extent: nv.Int

    def along_k(self, tile: nv.Int) -> Part:
        """What a tile sums."""
        group, _, _ = self.tiles.start(tile)
        end, before = (group_end(self.offsets, i, self.extent) for i in (group, nv.max(group, 1) - 1))
        start = nv.select(group > 0, before, 0)
        count = nv.max(end - start, 0)
        steps = nv.max(nv.cdiv(count, self.a.k), 1)
        return Part(start, steps, count - (steps - 1) * self.a.k)

    def load_groups(self, mainloop: RaggedMainloop, first: Any, step: Any) -> None:
        """Load tiles ``first``, ``first + step``, ... By the producer warpgroup, of which one thread loads."""
        nv.setmaxnreg_dec(self.config.registers[0])
        if self.loads():
            state = mainloop.ring.producer_state()
            for tile in nv.range(first, self.tiles.count, step):
                _, row, col = self.tiles.start(tile, mainloop.rank)
                state = mainloop.load_part(state, self.along_k(tile), row, col)
            if self.config.cluster > 1:
                mainloop.drain(state)
        elif self.spare():
            mainloop.clear()
