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
from nvdsl.kernels.blocks.mainloop import TURNS, Mainloop
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm

SLICES = 4


class FewSlices(TmaOperand):
    """Reads its first `SLICES` slices of K, whichever it is asked for."""

    def load(self, stage: Any, full: nv.Mbarrier, batch: Any, mn: Any, k: Any, count: Any, **shared: Any) -> None:
        super().load(stage, full, batch, mn, self._early(k), count, **shared)

    def _early(self, k: Any) -> Any:
        return k % (SLICES * (self.cols if self.major == "k" else self.rows))


class Filled(nv.Ring):
    """``ring`` with slots that are filled once, and full from then on."""

    def __init__(self, ring: nv.Ring) -> None:
        self.stages, self.bytes, self.consumers = ring.stages, ring.bytes, ring.consumers
        self.full, self.empty = ring.full, ring.empty

    def acquire(self, state: nv.PipelineState, **_: Any) -> nv.Mbarrier:
        return self.full[state.stage]  # nothing was in the slot

    def wait(self, state: nv.PipelineState) -> None:
        self.full[state.stage].wait(0)


class FilledOnce(Mainloop):
    """Multiplies what all of its slots are filled with first."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ring = Filled(self.ring)


class Unstored(TmaEpilogue):
    """Stores nothing."""

    def store(self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any = None) -> None:
        if nv.clock() < 0:  # never; but the compiler doesn't know, or it would leave out the products, too
            TmaEpilogue.store(self, acc, batch, row, col, consumer, held)


class FromCache(Gemm):
    operand = FewSlices


class WithoutLoads(Gemm):
    mainloop = FilledOnce

    def produce(self, mainloop: Mainloop, first: Any, step: Any, alternate: bool = True) -> None:
        nv.setmaxnreg_dec(self.config.registers[0])
        if self.loads():
            state = mainloop.ring.producer_state().advance(mainloop.started)
            slots = nv.min(mainloop.stages, mainloop.steps)
            mainloop.load(state, *mainloop.first, skip=mainloop.started, last=slots)
        elif self.spare():
            mainloop.clear()


class WithoutStores(Gemm):
    tma_epilogue = Unstored


KINDS: dict[str, type[Gemm]] = {"": Gemm, "memory": FromCache, "loads": WithoutLoads, "stores": WithoutStores}


@nv.jit
def matmul(
    a: nv.Array, b: nv.Array, out: nv.Array, log: nv.Array, *, config: Config, blocks: int, without: str = ""
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], rows contiguous, or what is left of it: one of `KINDS`.

    ``log``: (2 * blocks, 2) of i64, of each consumer the clocks and nanoseconds from the block's start to its end.
    """
    gemm = KINDS[without](a, b, out, (), config, nv.f32, "k", "mn", None, False)

    @nv.kernel(grid=blocks, block=config.threads)
    def kernel() -> None:
        clock, nanoseconds = nv.clock(), nv.globaltimer()
        mainloop = gemm.prologue(nv.block_id.x)

        if nv.warpgroup_id() == 0:
            gemm.produce(mainloop, nv.block_id.x, blocks)
        else:
            consumer = gemm.begin_consumer(mainloop)
            (share if config.shared_tile else take_turns)(gemm, mainloop, blocks, consumer)
            gemm.epilogue.drain()
            if nv.warpgroup_thread() == 0:
                i = 2 * nv.block_id.x + consumer
                log[i, 0], log[i, 1] = nv.clock() - clock, nv.globaltimer() - nanoseconds

    kernel()


def share(gemm: Gemm, mainloop: Mainloop, blocks: int, consumer: Any) -> None:
    """A cooperative schedule's consumer: its rows of each tile."""
    top = consumer * gemm.config.rows
    state = mainloop.ring.consumer_state()
    for t in nv.range(nv.block_id.x, gemm.tiles.count, blocks):
        batch, row, col = gemm.tiles.start(t)
        acc, last, state = mainloop.multiply(state, (top, 0), gemm.accumulator())
        mainloop.finish(last)
        gemm.epilogue.store(acc, batch, row + top, col, consumer)


def take_turns(gemm: Gemm, mainloop: Mainloop, blocks: int, consumer: Any) -> None:
    """A ping-pong schedule's consumer: every other tile."""
    turns = nv.Turns(2, barrier=TURNS)
    state = mainloop.ring.consumer_state()
    turns.begin(consumer)
    if consumer == 1:
        state = state.advance(mainloop.steps)
    for t in nv.range(nv.block_id.x + consumer * blocks, gemm.tiles.count, 2 * blocks):
        batch, row, col = gemm.tiles.start(t)
        turns.wait(consumer)
        acc, last, state = mainloop.multiply(state, (0, 0), gemm.accumulator())
        turns.pass_on(consumer, predicate=t + blocks < gemm.tiles.count)
        mainloop.finish(last)
        state = state.advance(mainloop.steps)
        gemm.epilogue.store(acc, batch, row, col, consumer)
