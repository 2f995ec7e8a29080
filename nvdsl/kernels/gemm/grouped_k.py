"""GEMM of groups along K: the gradients of the weights of a mixture of experts.

    out[g] = a[:, slices of g] @ b[slices of g]       group g has K from offsets[g - 1] to offsets[g] - 1

``a`` is stored (K, M), so that both operands have the groups along their rows. All results have one size, so the tiles
are those of a batch; only how many slices of K they sum is known on the device alone. A group's last slice reaches over
into the next group. It is loaded first, and a warp of its own zeroes its rows beyond the group in shared memory, while
the tile before is multiplied. An empty group is one slice that is zeroed as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import TURNS, Mainloop
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm


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
    gemm = GroupedGemm(a, b, out, operands, config, acc_dtype, "mn", "mn", epilogue_op, direct_store or cut(out))
    gemm.offsets, gemm.extent = offsets, a.shape[0]
    tiles, epilogue = gemm.tiles, gemm.epilogue
    pingpong = config.schedule == "pingpong"
    step = nv.min(tiles.count, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        mainloop: RaggedMainloop = gemm.prologue()  # type: ignore[assignment]
        turns = nv.Turns(2, barrier=TURNS)

        if nv.warpgroup_id() == 0:
            gemm.load_groups(mainloop, first, step)
        else:
            consumer = gemm.begin_consumer(mainloop)
            top, left = (0, 0) if pingpong else gemm.part(consumer)
            state, place = mainloop.ring.consumer_state(), mainloop.ring.consumer_state()
            mine = first
            if pingpong:
                turns.begin(consumer)
                mine, place = first + consumer * step, place.advance(consumer)
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
                mainloop.zeroed[place.stage].wait(place.phase)
                acc, last, state = mainloop.multiply(state, (top, left), gemm.accumulator(), part.steps)
                following = gemm.along_k(nv.min(t + stride, tiles.count - 1))  # read while products are summed
                if pingpong:
                    turns.pass_on(consumer, predicate=t + step < tiles.count)
                    state = state.advance(gemm.along_k(nv.min(t + step, tiles.count - 1)).steps)
                mainloop.finish(last)
                epilogue.store(acc, batch, row, col, consumer, held)
                part, place = following, place.advance(2 if pingpong else 1)
            epilogue.drain()

        gemm.end()

    kernel()


class Part:
    """A group's part of K: from ``start`` on; ``steps`` slices, at least one, of whose last one ``inside`` rows are the
    group's. A traced loop carries it."""

    def __init__(self, start: Any, steps: Any, inside: Any) -> None:
        self.start, self.steps, self.inside = start, steps, inside

    def __nv_values__(self) -> list[Any]:
        return [self.start, self.steps, self.inside]

    def __nv_rebuild__(self, values: Sequence[Any]) -> Part:
        return Part(*values)


class RaggedMainloop(Mainloop):
    """`Mainloop` over slices of a group, from its last one to its first one. ``zeroed``: barriers, one for each tile in
    turn, of which there are never more in the ring than slots: what lies beyond its group is zeroed."""

    helpers = 1

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.zeroed = nv.Mbarriers(self.stages, arrivals=1, sync=False)

    def load_part(self, state: nv.PipelineState, part: Part, row: Any, col: Any) -> None:
        """Load a group's slices of the tile at (``row``, ``col``). By one thread."""
        for step in nv.range(part.steps, unroll=False):
            k = part.start + (part.steps - 1 - step) * self.a.k
            self._load_slice(state, 0, row, col, k, None, step >= self.stages)
            state = state.next()

    def zero_beyond(self, state: nv.PipelineState, part: Part, place: nv.PipelineState) -> nv.PipelineState:
        """Zero what lies beyond the group in its last slice, which comes first, and pass over the others: a warp that
        left slots out could not tell their rounds apart. By one warp. Returns the ring's next position."""
        for step in nv.range(part.steps, unroll=False):
            self.ring.wait(state)
            if step == 0:
                for operand in (self.a, self.b):
                    operand.zero_rows(state.stage, part.inside, nv.lane_id(), WARP_SIZE)
                nv.fence_proxy_async()
                nv.sync_warp()
                self.zeroed[place.stage].arrive(predicate=nv.lane_id() == 0)
            if self.writers > 1 and step == 0:  # not relaxed: other blocks load over what this warp has stored
                lane = nv.lane_id()
                self.ring.empty[state.stage].arrive_cluster(self.writer(lane), lane < self.writers)
            else:
                self.release(state)
            state = state.next()
        return state


class GroupedGemm(Gemm):
    """`Gemm` whose tiles sum slices that only the device knows. ``extent``: of K, all groups together."""

    mainloop = RaggedMainloop
    offsets: nv.Array
    extent: nv.Int

    def along_k(self, tile: nv.Int) -> Part:
        """What a tile sums."""
        group, _, _ = self.tiles.start(tile)
        end, before = (nv.clamp(nv.i32(self.offsets[i]), 0, self.extent) for i in (group, nv.max(group, 1) - 1))
        start = nv.select(group > 0, before, 0)
        count = nv.max(end - start, 0)
        steps = nv.max(nv.cdiv(count, self.a.k), 1)
        return Part(start, steps, count - (steps - 1) * self.a.k)

    def load_groups(self, mainloop: RaggedMainloop, first: Any, step: Any) -> None:
        """Load tiles ``first``, ``first + step``, ... By the producer warpgroup, of which one thread loads, and the
        second warp zeroes what lies beyond groups."""
        nv.setmaxnreg_dec(self.config.registers[0])
        if nv.warpgroup_thread() == 0:
            state = mainloop.ring.producer_state()
            for tile in nv.range(first, self.tiles.count, step):
                part = self.along_k(tile)
                _, row, col = self.tiles.start(tile, mainloop.rank)
                mainloop.load_part(state, part, row, col)
                state = state.advance(part.steps)
        elif self.spare():
            mainloop.clear()
            if nv.warp_id() == 1:
                state, place = mainloop.ring.consumer_state(), mainloop.ring.consumer_state()
                for tile in nv.range(first, self.tiles.count, step):
                    state = mainloop.zero_beyond(state, self.along_k(tile), place)
                    place = place.next()
