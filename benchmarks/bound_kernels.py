"""GEMM kernels that leave one thing out, and say how long they took by the SM's own clock.

    without   "": the cooperative and the ping-pong kernel of nvdsl.kernels
              "memory": all loads read the same four slices of K, which stay in L2
              "loads": the ring's slots are filled once, and multiplied again and again
              "stores": the sums stay where they are

All issue the same products, in the same order, behind the same barriers.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue import TmaEpilogue
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.ordered_barrier import OrderedBarrier
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm.config import Config

WITHOUT = ("", "memory", "loads", "stores")
SLICES = 4


class FewSlices(TmaOperand):
    """Reads its first `SLICES` slices of K, whichever it is asked for."""

    def load(
        self, stage: Any, full: nv.Mbarrier, batch: Any, mn: Any, k: Any, *, part: Any = 0, mask: Any = None
    ) -> None:
        super().load(stage, full, batch, mn, self._early(k), part=part, mask=mask)

    def expect_and_load(
        self, stage: Any, full: nv.Mbarrier, batch: Any, mn: Any, k: Any, old: Any, *, part: Any = 0, mask: Any = None
    ) -> None:
        super().expect_and_load(stage, full, batch, mn, self._early(k), old, part=part, mask=mask)

    def _early(self, k: Any) -> Any:
        return k % (SLICES * (self.cols if self.major == "k" else self.rows))


class Filled(nv.Ring):
    """``ring`` with slots that are filled once, and full from then on."""

    def __init__(self, ring: nv.Ring) -> None:
        self.stages, self.bytes, self.consumers = ring.stages, ring.bytes, ring.consumers
        self.full, self.empty = ring.full, ring.empty

    def wait(self, state: nv.PipelineState) -> None:
        self.full[state.stage].wait(0)


class FilledOnce(Mainloop):
    """Multiplies what `start` has loaded."""

    def __init__(self, config: Config, a: TmaOperand, b: TmaOperand, steps: int) -> None:
        super().__init__(config, a, b, steps)
        self.ring = Filled(self.ring)


class Unstored(TmaEpilogue):
    """Stores nothing."""

    def store(self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any = None) -> None:
        if nv.clock() < 0:  # never; but the compiler doesn't know, or it would leave out the products, too
            TmaEpilogue.store(self, acc, batch, row, col, consumer, held)


@nv.jit
def matmul(
    a: nv.Array, b: nv.Array, out: nv.Array, log: nv.Array, *, config: Config, blocks: int, without: str = ""
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], rows contiguous, or what is left of it: one of `WITHOUT`.

    ``log``: (2 * blocks, 2) of i64, of each consumer the clocks and nanoseconds from the block's start to its end.
    """
    (M, N), K = out.shape, a.shape[-1]
    A, B = (
        (FewSlices if without == "memory" else TmaOperand)(array, mn, config.tile_k, major=major)
        for array, mn, major in ((a, config.tile_m, "k"), (b, config.tile_n, "mn"))
    )
    D = (Unstored if without == "stores" else TmaEpilogue)(out, config.tile_n, buffers=config.store_buffers)
    tiles = TileScheduler(M, N, config.tile_m, config.tile_n, order=config.order, group=config.group)

    @nv.kernel(grid=blocks, block=config.threads)
    def kernel() -> None:
        clock, nanoseconds = nv.clock(), nv.globaltimer()
        loop = (FilledOnce if without == "loads" else Mainloop)(config, A, B, steps=nv.cdiv(K, config.tile_k))
        D.allocate(config.consumers)
        loop.start(*tiles.start(nv.block_id.x))
        nv.sync_threads()
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(config.registers[0])
            if without != "loads" and nv.warpgroup_thread() == 0:
                produce(loop, tiles, blocks)
        else:  # consumers
            nv.setmaxnreg_inc(config.registers[1])
            consumer = warpgroup - 1
            (share if config.shared_tile else take_turns)(loop, D, tiles, blocks, consumer)
            D.drain()
            if nv.warpgroup_thread() == 0:
                i = 2 * nv.block_id.x + consumer
                log[i, 0], log[i, 1] = nv.clock() - clock, nv.globaltimer() - nanoseconds

    kernel()


def produce(loop: Mainloop, tiles: TileScheduler, blocks: int) -> None:
    """Load the slices of a block's tiles; by one thread."""
    first = nv.block_id.x
    state = loop.ring.producer_state().advance(loop.started)
    for t in nv.range(first, tiles.count, blocks):
        batch, row, col = tiles.start(t)
        skip = nv.select(t == first, loop.started, 0)
        backwards = t // blocks & 1 if loop.config.alternate else 0
        state = loop.load(state, batch, row, col, skip=skip, backwards=backwards)


def share(loop: Mainloop, D: TmaEpilogue, tiles: TileScheduler, blocks: int, consumer: Any) -> None:
    """A cooperative schedule's consumer: its rows of each tile."""
    config, top = loop.config, consumer * loop.config.rows
    state = loop.ring.consumer_state()
    for t in nv.range(nv.block_id.x, tiles.count, blocks):
        batch, row, col = tiles.start(t)
        acc, last, state = loop.multiply(state, top, nv.accumulator(config.rows, config.tile_n, nv.f32))
        loop.finish(last)
        D.store(acc, batch, row + top, col, consumer)


def take_turns(loop: Mainloop, D: TmaEpilogue, tiles: TileScheduler, blocks: int, consumer: Any) -> None:
    """A ping-pong schedule's consumer: every other tile."""
    config, turns = loop.config, OrderedBarrier()
    state = loop.ring.consumer_state()
    if consumer == 1:
        state = state.advance(loop.steps)
        turns.pass_on(consumer)
    for t in nv.range(nv.block_id.x + consumer * blocks, tiles.count, 2 * blocks):
        batch, row, col = tiles.start(t)
        turns.take(consumer)
        acc, last, state = loop.multiply(state, 0, nv.accumulator(config.rows, config.tile_n, nv.f32))
        if t + blocks < tiles.count:
            turns.pass_on(consumer)
        loop.finish(last)
        state = state.advance(loop.steps)
        D.store(acc, batch, row, col, consumer)
