"""The frame that the schedules share: what one GEMM is made of, how its kernel begins, loads, and ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.kernels.blocks.direct_epilogue import VECTORS, DirectEpilogue, VectorEpilogue
from nvdsl.kernels.blocks.either_epilogue import EITHER, EitherEpilogue, TurnedEitherEpilogue
from nvdsl.kernels.blocks.epilogue import TmaEpilogue
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.gated_operand import GatedOperand
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.blocks.turned_epilogue import TurnedEpilogue, WideEpilogue
from nvdsl.kernels.blocks.turned_operand import TurnedMainloop, TurnedOperand
from nvdsl.kernels.gemm.config import Config

MANY = 6
"""Rounds of tiles beyond which larger patches are computed together, so that less comes from memory; with fewer rounds
L2 is asked less often for what neighbouring SMs share (docs/measured/matmul.md, "The order of tiles")."""
SPARE = 64
"""Registers of a thread beside its sums with which one loop over all slices spilled none, whatever the epilogue."""


class Gemm:
    """A, B and the result of one GEMM, and which tile comes when. Made in the host function.

    ``a`` is stored (M, K), or (K, M) where ``a_major`` is "mn"; ``b`` (K, N), or (N, K) where ``b_major`` is "k";
    ``out``, and each of them that differs from batch to batch, with an axis of batches before these. ``epilogue_op``:
    see `EpilogueOp`; ``operands``: what it is handed. ``direct_store``: ``out`` has any strides, and is stored to
    without TMA; or `VECTORS` or `EITHER`. ``defined``: all sums go on to other blocks, so that no memory is multiplied
    that nothing ever wrote.
    """

    operand: type[TmaOperand] = TmaOperand
    mainloop: type[Mainloop] = Mainloop
    tma_epilogue: type[TmaEpilogue] = TmaEpilogue
    loaders = producers = blocks_per_sm = 1
    """What a kernel that differs in one of them puts in its place; the producer's threads that load; warpgroups that
    produce; and blocks that shall share an SM."""

    def __init__(
        self,
        a: nv.Array,
        b: nv.Array,
        out: nv.Array,
        operands: Sequence[Any],
        config: Config,
        acc_dtype: nv.DType,
        a_major: str,
        b_major: str,
        epilogue_op: EpilogueOp | None,
        direct_store: bool | str,
        defined: bool = False,
    ) -> None:
        (*batches, m, n), k = out.shape, a.shape[-1 if a_major == "k" else -2]
        if direct_store == EITHER and not config.stores_without_tma(out.dtype, acc_dtype, epilogue_op is not None):
            direct_store = False  # `choose` takes none of these for what TMA can't store
        by_threads = {VECTORS: VectorEpilogue, EITHER: EitherEpilogue, True: DirectEpilogue}
        store: type[TmaEpilogue] = by_threads[direct_store] if direct_store else self.tma_epilogue
        if config.swap_ab:
            nv.require(
                direct_store in (False, EITHER),
                "swapped operands with a result that TMA can't store",
                rule="the transpose of what is computed is stored as it is, by TMA",
                fix="swap_ab=False",
            )
            a, b, a_major, b_major, m, n = b, a, b_major, a_major, n, m
            wide = not direct_store and config.stores_wide(a.dtype, out.dtype, b_major)
            store = TurnedEitherEpilogue if direct_store else WideEpilogue if wide else TurnedEpilogue
        config.check(a.dtype, out.dtype, acc_dtype, b_major, a_major)
        halves = getattr(epilogue_op, "halves", 1)
        nv.require(
            halves == 1 or config.along == "m" and config.schedule != "splitk",
            f"{config} of a gated product",
            rule="a consumer has all columns of a tile, half of them the gate's",
            fix="along='m', and a schedule other than splitk",
        )
        if halves > 1:
            wide = b.shape[-2 if b_major == "k" else -1]
            nv.require(
                wide == halves * n, "the columns of B and of a gated result", rule="B has twice as many, (K, 2 N)",
                fix="pass the gate and the other factor side by side",
            )  # fmt: skip
        tile, cluster = (config.tile_m, config.tile_n // halves), (config.cluster_m, config.cluster_n)
        self.config, self.acc_dtype = config, acc_dtype
        # Of a block: equal parts with split-K; beyond the end of K, TMA reads zeros.
        self.slices = nv.cdiv(k, config.tile_k)
        self.steps = nv.cdiv(self.slices, config.split)
        group: nv.Int = config.group
        if config.schedule == "cooperative" and config.cluster == 1:
            many = nv.cdiv(m, tile[0]) * nv.cdiv(n, tile[1]) > MANY * arch.SMS
            group = nv.select(many, 2 * group, group) if isinstance(many, nv.Value) else group << bool(many)
        self.tiles = TileScheduler(m, n, *tile, *cluster, group, *batches)
        sharers = config.sharers
        turned = a_major == "mn" and a.dtype.bits == 32
        of_a = TurnedOperand if turned else self.operand
        self.mainloop = TurnedMainloop if turned else self.mainloop
        self.a = of_a(
            a, config.tile_m, config.tile_k, major=a_major, parts=sharers[0], defined=defined or turned
        )
        of_b = self.operand if halves == 1 else GatedOperand
        self.b = of_b(b, config.tile_n, config.tile_k, major=b_major, parts=sharers[1], defined=defined)
        self.a.loaded_once(self.tiles.cols == 1)
        self.b.loaded_once(self.tiles.rows == 1)
        self.epilogue = store(
            out, config.cols // (halves * config.split), buffers=config.store_buffers, op=epilogue_op,
            operands=operands,
        )  # fmt: skip

    def prologue(self, tile: Any = None, first: Any = 0) -> Mainloop:
        """Make the ring, and begin to load the block's first tile, where it surely has one, from slice ``first`` on. By
        all threads, which know of the ring's barriers afterwards."""
        config = self.config
        if tile is not None:
            # Before the barriers are made: what the host has counted comes from memory, and takes as long.
            start = self.tiles.start(tile, nv.cluster_rank() if config.cluster > 1 else 0)
            bytes = sum(x.bytes(x.count(at, False)) for x, at in ((self.a, start[1]), (self.b, start[2])))
            batch, row, col, bytes = opaque(*start, bytes)
        mainloop = self.mainloop(
            self.a, self.b, self.steps, stages=config.stages, rows=config.rows, cols=config.cols,
            consumers=config.consumers, readers=config.consumers if config.shared_tile else 1,
            in_flight=config.in_flight, leaves_gaps=self.a.leaves_gaps | self.b.leaves_gaps,
            one_loop=self.one_loop,
        )  # fmt: skip
        self.epilogue.allocate(config.consumers)
        if config.cluster > 1:
            # Relaxed: the barriers' fence says all that others must know. An arrival that orders memory would wait for
            # the first slice, 1.4 us on an H200.
            nv.cluster_arrive(relaxed=True)
        # A kernel that may start early does what is above beside the end of the one before it, and lets the next one.
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        if tile is not None:
            mainloop.first = batch, row, col
            mainloop.start(mainloop.first, first, bytes)
        if config.cluster > 1:
            nv.cluster_wait()
        else:
            nv.sync_threads()
        return mainloop

    def produce(self, mainloop: Mainloop, first: Any, step: Any, alternate: bool = True) -> None:
        """Load tiles ``first``, ``first + step``, ... By the producer warpgroup, of which one thread loads.
        ``alternate``: every other tile runs along K from its end to its start, as what came last is in L2 yet. A
        block of a cluster stays until the others have read what they share: they arrive at its barriers no more."""
        nv.setmaxnreg_dec(self.config.registers[0])
        if self.loads():
            state = mainloop.ring.producer_state().advance(mainloop.started)
            backwards, at = nv.i32(0), mainloop.first
            for tile in nv.range(first, self.tiles.count, step):
                skip = nv.select(tile == first, mainloop.started, 0)
                state = mainloop.load(state, *at, skip=skip, backwards=backwards if alternate else 0)
                backwards, at = 1 - backwards, self.place(tile + step, mainloop)
            if self.config.cluster > 1:
                mainloop.drain(state)
        elif self.spare():
            mainloop.clear()

    @property
    def one_loop(self) -> bool:
        """Whether a consumer's thread has registers for one loop, see `Mainloop`. With ping-pong it keeps whose turn it
        is, too."""
        spare = self.config.registers[1] - self.config.accumulator_registers(self.acc_dtype)
        return self.config.schedule in ("cooperative", "splitk") and spare >= SPARE

    @property
    def rolls(self) -> bool:
        """Whether consumers roll, see `Config`: unless the epilogue asks for all sums at once."""
        return self.config.rolls and not self.epilogue.visitor.whole

    def place(self, tile: Any, mainloop: Mainloop) -> tuple[Any, Any, Any]:
        """Batch, first row and column of this block's tile of a running number, found here and not before."""
        (tile,) = opaque(tile)
        return self.tiles.start(tile, mainloop.rank)

    def loads(self) -> nv.Bool:
        """Whether this thread of the producer warpgroup loads. Of an elected one ptxas knows that it is alone: a copy
        needs no loop over threads."""
        return (nv.warp_id() == 0) & nv.elect() if self.loaders == 1 else nv.warpgroup_thread() < self.loaders

    def spare(self) -> nv.Bool:
        """Whether this thread of the producer warpgroup is of a warp that loads nothing; it calls `Mainloop.clear`."""
        return nv.warp_id() > 0

    def begin_consumer(self, mainloop: Mainloop) -> Any:
        """Take the registers that the producer has left, and wait until all is cleared that no load writes. Returns the
        warpgroup's number among the consumers."""
        nv.setmaxnreg_inc(self.config.registers[1])
        mainloop.wait_cleared()
        return nv.warpgroup_id() - 1

    def accumulator(self) -> nv.Accumulator:
        """Of the part of a tile that one consumer sums."""
        return nv.accumulator(self.config.rows, self.config.cols, self.acc_dtype)

    def part(self, consumer: Any) -> tuple[Any, Any]:
        """First row and column of a consumer's part of a tile that they share."""
        return (consumer * self.config.rows, 0) if self.config.along == "m" else (0, consumer * self.config.cols)
