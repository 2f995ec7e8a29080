"""A whole sequence in one kernel: the recurrent weights stay in shared memory, the state in registers.

The inputs' part of all gates is there already: one matrix product for all steps. What is left is sequential, a product
of h with the recurrent weights in each step. A block owns some hidden units: it keeps their rows of the weights (for
each kind of gate) in shared memory, and computes their gates in every step. So it reads h of all units, and tells the
others h of its own (`exchange`): 64 rows of the batch for each consumer warpgroup, which go their own way through time.
While one of them waits for the others' h, the other multiplies.

    producer     one thread for each consumer: wait for h of the step before, load its slices
    consumer     read the inputs' part, multiply and write the results of the step before, gates, new state, tell h
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.recurrent.cells import Cell
from nvdsl.kernels.recurrent.config import Config
from nvdsl.kernels.recurrent.exchange import ROWS, Exchange, keep, part_of
from nvdsl.kernels.recurrent.shapes import AllGates, State, States


@nv.jit
def forward(
    x: AllGates,
    weight: nv.Array,
    bias: nv.Array | None,
    h0: State | None,
    c0: State | None,
    y: States,
    h_n: State,
    c_n: State | None,
    saved: AllGates | None,
    saved_c: States | None,
    saved_h: States | None,
    *,
    cell: Cell,
    config: Config,
    wide: int = 1,
    reverse: bool = False,
) -> None:
    """``y``: h of all steps, [steps, batch, hidden], of ``x``: the inputs' part of the gates, [steps, gates, batch,
    hidden]. ``weight``: [gates, hidden, hidden], ``bias``: [gates, hidden], of the hidden state's part.

    ``h0``, ``c0``: the state at first (None: zeros), ``h_n``, ``c_n``: in the end. ``saved``: what `Cell.forward`
    saves, [steps, kinds, batch, hidden]; ``saved_c``: c after each step, ``saved_h``: h before it. ``reverse``: the
    last step comes first. No more rows of the batch than `Config.rows`: all blocks run at the same time.
    """
    steps, _, batch, hidden = x.shape
    units, consumers = config.units, config.consumers
    writers, dtype = config.writers(hidden), weight.dtype
    exchange = Exchange(
        batch, 1, hidden, dtype, writers=writers, consumers=consumers, slice_cols=config.slice_cols,
        stages=config.stages,
    )  # fmt: skip

    @nv.kernel(grid=writers * nv.cdiv(batch, consumers * ROWS), block=config.threads)
    def kernel() -> None:
        tile, first = nv.block_id.x // writers, nv.block_id.x % writers * units
        exchange.allocate()
        weights = keep(weight, units, first, config.slice_cols, wide)
        nv.sync_threads()

        def produce(me: Any) -> None:
            state = exchange.producer_state()
            for step in nv.range(steps, unroll=False):
                state = exchange.load(me, state, step, tile * consumers + me)

        def consume(me: Any) -> None:
            group = tile * consumers + me
            row, barrier = group * ROWS, 1 + me

            def load(array: Any) -> Any:
                """This warpgroup's part of a state at first."""
                if array is None:
                    return nv.accumulator(ROWS, units)
                return nv.fragment(array, (row, first), (ROWS, units), clip=True).to(nv.f32)

            def store(parts: Sequence[Any], out: Any, *place: Any) -> None:
                for kind, part in enumerate(parts):
                    part.store(out, (*place, *([kind] if out.ndim - len(place) == 3 else []), row, first), clip=True)

            biases: list[Any] = [0.0] * cell.gates
            if bias is not None:
                biases = [nv.column_vector(bias, (g, first), units, clip=True)[None, :] for g in range(cell.gates)]
            state = [load(array) for array in (h0, c0)[: cell.states]]
            kept: list[Any] = [nv.accumulator(ROWS, units) for _ in range(cell.saved if saved is not None else 0)]

            def write(step: Any, state: Sequence[Any], kept: Sequence[Any]) -> None:
                """The results of a step."""
                time = steps - 1 - step if reverse else step
                store(state[:1], y, time)
                if saved is not None:
                    store(kept, saved, time)
                if saved_c is not None:
                    store(state[1:], saved_c, time)

            def write_before(step: Any, state: Sequence[Any], kept: Sequence[Any]) -> None:
                """The results of the step before. Not when they are known: the release of h would wait for them."""
                if step > 0:
                    write(step - 1, state, kept)
                if saved_h is not None:
                    store(state[:1], saved_h, steps - 1 - step if reverse else step)

            exchange.publish(state[:1], nv.i32(0), group, first, barrier)
            position = exchange.consumer_state()
            for step in nv.range(steps, unroll=False):
                time = steps - 1 - step if reverse else step
                inputs = [part_of(x, time, g, row, first, units=units) for g in range(cell.gates)]
                meanwhile = functools.partial(write_before, step, state, kept)
                acc, position = exchange.multiply(me, position, weights, cell.gates * units, meanwhile)
                gates = [acc[:, g * units : (g + 1) * units] + biases[g] for g in range(cell.gates)]
                state, found = cell.forward([part.to(nv.f32) for part in inputs], gates, state)
                kept = found[: len(kept)]
                exchange.publish(state[:1], step + 1, group, first, barrier)
            write(steps - 1, state, kept)
            for part, out in zip(state, (h_n, c_n), strict=False):
                store([part], out)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() % 32 == 0 and nv.warp_id() < consumers:
                produce(nv.warp_id())
        else:
            nv.setmaxnreg_inc(232)
            consume(nv.warpgroup_id() - 1)

    kernel()
