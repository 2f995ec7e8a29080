"""The way back through a sequence in one kernel: the gates' gradients, step by step from the last to the first.

As in `forward`, a block owns some hidden units and keeps their weights: here the columns of the recurrent weights, for
the gradient of h is a product of the gradients of all gates with them. So blocks tell each other the gradients of their
gates. What is left afterwards has no order: the gradients of inputs, weights and biases are products over all steps.

    producer     one thread for each consumer: wait for the gradients of a step, load their slices
    consumer     dh, dc -> gradients of the gates, tell them, read for the next step, multiply and write them: dh
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.recurrent.cells import Cell
from nvdsl.kernels.recurrent.config import Config
from nvdsl.kernels.recurrent.exchange import ROWS, Exchange, keep_columns, part_of
from nvdsl.kernels.recurrent.shapes import AllGates, State, States


@nv.jit
def backward(
    dy: States,
    weight: nv.Array,
    saved: AllGates | None,
    states: States,
    start: State | None,
    dh_n: State | None,
    dc_n: State | None,
    dx: AllGates,
    dh: AllGates | None,
    dh_0: State,
    dc_0: State | None,
    *,
    cell: Cell,
    config: Config,
    wide: int = 1,
    reverse: bool = False,
) -> None:
    """``dx``, ``dh``: gradients of the gates' parts of the inputs and of the hidden state, [steps, gates, batch,
    hidden]; None where they are the same. ``dh_0``, ``dc_0``: of the state at first.

    ``dy``: the gradient of h of all steps, [steps, batch, hidden], ``dh_n``, ``dc_n``: of the last state (None: zeros).
    ``weight``: [gates, hidden, hidden]. ``saved``: of `forward.forward`. ``states``: c of all steps for an LSTM, else
    h; ``start``: the same at first (None: zeros). ``reverse``, and rows of the batch: as in `forward.forward`.
    """
    steps, batch, hidden = dy.shape
    units, consumers, writers = config.units, config.consumers, config.writers(hidden)
    exchange = Exchange(
        batch, cell.gates, hidden, weight.dtype, writers=writers, consumers=consumers, slice_cols=config.slice_cols,
        stages=config.stages,
    )  # fmt: skip

    @nv.kernel(grid=writers * nv.cdiv(batch, consumers * ROWS), block=config.threads)
    def kernel() -> None:
        tile, number = nv.block_id.x // writers, nv.block_id.x % writers
        first = number * units
        exchange.allocate()
        weights = keep_columns(weight, units, first, config.slice_cols, wide)
        nv.sync_threads()

        def produce(me: Any) -> None:
            state = exchange.producer_state()
            for step in nv.range(steps, unroll=False):
                state = exchange.load(me, state, step, tile * consumers + me)

        def consume(me: Any) -> None:
            group = tile * consumers + me
            row, barrier = group * ROWS, 1 + me

            def read(array: nv.Array, *place: Any) -> Any:
                return part_of(array, *place, row, first, units=units)

            def of_step(step: Any) -> tuple[list[Any], Any, Any]:
                """What a step needs: what it saved, its gradient, and the state before it."""
                time = step if reverse else steps - 1 - step
                before = nv.min(time + 1, steps - 1) if reverse else nv.max(time - 1, 0)
                kept = [] if saved is None else [read(saved, time, kind) for kind in range(cell.saved)]
                return kept, read(dy, time), read(states, before)

            def state_of(array: nv.Array | None) -> Any:
                if array is None:
                    return nv.accumulator(ROWS, units)
                return nv.fragment(array, (row, first), (ROWS, units), clip=True).to(nv.f32)

            def store(parts: Sequence[Any], out: nv.Array, time: Any) -> None:
                for kind, part in enumerate(parts):
                    part.store(out, (time, kind, row, first), clip=True)

            def write(time: Any, of_x: Sequence[Any], of_h: Sequence[Any]) -> None:
                store(of_x, dx, time)
                if dh is not None:
                    store(of_h, dh, time)

            initial = state_of(start)
            d = [state_of(array) for array in (dh_n, dc_n)[: cell.states]]
            kept, gradient, before = of_step(nv.i32(0))
            after = read(states, nv.i32(0) if reverse else steps - 1).to(nv.f32)
            position = exchange.consumer_state()
            for step in nv.range(steps, unroll=False):
                time = step if reverse else steps - 1 - step
                before = nv.where(step == steps - 1, initial, before.to(nv.f32))
                d = [d[0] + gradient.to(nv.f32), *d[1:]]
                of_x, of_h, d = cell.backward([part.to(nv.f32) for part in kept], before, after, d)
                exchange.publish(of_h, step, group, first, barrier)
                after = before
                kept, gradient, before = of_step(nv.min(step + 1, steps - 1))

                acc, position = exchange.multiply(
                    me, position, weights, units, functools.partial(write, time, of_x, of_h)
                )
                d = [acc + d[0], *d[1:]]
            for part, out in zip(d, (dh_0, dc_0), strict=False):
                part.store(out, (row, first), clip=True)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() % 32 == 0 and nv.warp_id() < consumers:
                produce(nv.warp_id())
        else:
            nv.setmaxnreg_inc(232)
            consume(nv.warpgroup_id() - 1)

    kernel()
