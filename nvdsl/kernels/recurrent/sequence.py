"""One layer in one direction: the product of all inputs, then the steps; and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import nvdsl as nv
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.backward import backward
from nvdsl.kernels.recurrent.cells import RNN, Cell
from nvdsl.kernels.recurrent.config import choose
from nvdsl.kernels.recurrent.exchange import ROWS
from nvdsl.kernels.recurrent.forward import forward
from nvdsl.kernels.recurrent.part import Part, Saved, flat
from nvdsl.kernels.recurrent.run import Run
from nvdsl.kernels.recurrent.steps import backward_steps, forward_steps, pair


def run_forward(
    run: Run,
    cell: Cell,
    x: Part,
    weights: Weights,
    start: Sequence[Part | None],
    y: Part,
    end: Sequence[Part],
    *,
    reverse: bool,
    saved: Saved,
) -> None:
    """``y`` and ``end`` of ``x`` and ``start``. ``x``, ``y``: [steps, batch, elements], states [batch, hidden].
    ``saved``: what is to be saved."""
    (_, batch, _), hidden = x.shape, weights.units
    if batch == 0:
        return
    inputs, multiply = inputs_part(run, cell, x, weights)
    gates = inputs.split(2, cell.gates).swap(1, 2)
    config = choose(hidden, hidden, cell.gates, batch, run.sms)
    if config is None:
        multiply()
        forward_steps(run, cell, gates, weights, start, y, end, saved, reverse=reverse)
        return
    recurrent, bias = (weights.of_kinds(x, cell.gates) for x in (weights.hidden, weights.hidden_bias))
    constants = {"cell": cell, "config": config, "wide": weights.wide, "reverse": reverse}
    parts = [
        (gates.take(2, first, count), recurrent, bias, *_rows(pair(start), first, count), y.take(1, first, count),
         *_rows(pair(end), first, count), *saved.rows(first, count))
        for first, count in chunks(batch, config.rows(hidden, run.sms))
    ]  # fmt: skip
    # The product is compiled second, as ptxas takes longer for the steps: nothing is left to do beside the last one.
    run.compile(forward, *parts[0], beside=lambda: multiply(compiled=True), **constants)
    multiply()
    for some in parts:
        run.launch(forward, *some, **constants)


def inputs_part(run: Run, cell: Cell, x: Part, weights: Weights) -> tuple[Part, Callable[..., None]]:
    """The inputs' part of the gates of all steps: [steps, batch, gates * hidden], and what computes it (see
    `Run.product`). In f16 where gates are squashed, which holds all of a gate that matters."""
    steps, batch, _ = x.shape
    columns = cell.gates * weights.units
    matrix, by_row = flat(x)
    dtype = nv.f32 if isinstance(cell, RNN) and cell.relu else nv.f16
    gates = run.between(x, (batch, steps, columns) if by_row else (steps, batch, columns), dtype)
    out = gates.joined(0) if len(matrix.shape) == 2 else gates
    assert out is not None
    bias = None if weights.input_bias is None else Part.of(weights.input_bias)

    def multiply(compiled: bool = False) -> None:
        run.product(matrix, Part.of(weights.inputs).swap(0, 1), out, bias, compiled=compiled)

    return gates.swap(0, 1) if by_row else gates, multiply


def run_backward(
    run: Run,
    cell: Cell,
    dy: Part,
    weights: Weights,
    start: Sequence[Part | None],
    y: Part,
    saved: Saved,
    dend: Sequence[Part | None],
    dx: Part,
    dh: Part,
    dstart: Sequence[Part],
    *,
    reverse: bool,
) -> None:
    """The gradients of the gates, ``dx`` of the inputs' part and ``dh`` of the hidden state's, [steps, batch, gates *
    hidden] (the same array unless the cell is a GRU), and of the state at first."""
    _, batch, hidden = dy.shape
    if batch == 0:
        return
    states, earlier = (saved.c, start[1]) if cell.states == 2 else (y, start[0])
    assert states is not None
    config = choose(hidden, cell.gates * hidden, 1, batch, run.sms)
    if config is None:
        backward_steps(run, cell, dy, weights, earlier, states, saved, dend, dx, dh, dstart, reverse=reverse)
        return
    recurrent = weights.of_kinds(weights.hidden, cell.gates)
    of_x, of_h = (part.split(2, cell.gates).swap(1, 2) for part in (dx, dh))
    for first, count in chunks(batch, config.rows(hidden, run.sms)):
        run.launch(
            backward, dy.take(1, first, count), recurrent, saved.rows(first, count).gates, states.take(1, first, count),
            *_rows([earlier, *pair(dend)], first, count), of_x.take(2, first, count),
            None if dh is dx else of_h.take(2, first, count), *_rows(pair(dstart), first, count), cell=cell,
            config=config, wide=weights.wide, reverse=reverse,
        )  # fmt: skip


def _rows(states: Sequence[Part | None], first: int, count: int) -> list[Part | None]:
    """Some rows of the batch."""
    return [None if part is None else part.take(0, first, count) for part in states]


def chunks(batch: int, most: int) -> Iterator[tuple[int, int]]:
    """First row and rows of parts of the batch, all of about one size."""
    each = nv.cdiv(nv.cdiv(batch, nv.cdiv(batch, most)), ROWS) * ROWS
    for first in range(0, batch, each):
        yield first, min(each, batch - first)
