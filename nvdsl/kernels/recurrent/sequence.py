"""One layer in one direction: the product of all inputs, then the steps; and back."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.gemm.launch import sms
from nvdsl.kernels.gemm.matmul import matmul
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.backward import backward
from nvdsl.kernels.recurrent.cells import RNN, Cell
from nvdsl.kernels.recurrent.config import choose
from nvdsl.kernels.recurrent.exchange import ROWS
from nvdsl.kernels.recurrent.forward import forward
from nvdsl.kernels.recurrent.part import Part, Saved, flat
from nvdsl.kernels.recurrent.steps import backward_steps, forward_steps


def bounded(cell: Cell) -> bool:
    """Whether gates are squashed, so that f16 holds all of a gate that matters."""
    return not (isinstance(cell, RNN) and cell.relu)


def run(
    cell: Cell,
    x: Part,
    weights: Weights,
    start: Sequence[Part | None],
    y: Part,
    end: Sequence[Part],
    *,
    reverse: bool,
    saved: Saved,
    **options: Any,
) -> None:
    """``y`` and ``end`` of ``x`` and ``start``. ``x``, ``y``: [steps, batch, elements], states [batch, hidden].
    ``saved``: what is to be saved; ``options``: of all calls, stream and target."""
    (_, batch, _), hidden = x.shape, weights.units
    if batch == 0:
        return
    gates = inputs_part(cell, x, weights, **options).split(2, cell.gates).swap(1, 2)
    multiprocessors = sms(options.get("target"))
    config = choose(hidden, hidden, cell.gates, batch, multiprocessors)
    if config is None:
        forward_steps(cell, gates, weights, start, y, end, saved, reverse=reverse, **options)
        return

    recurrent, bias = (weights.of_kinds(x, cell.gates) for x in (weights.hidden, weights.hidden_bias))
    first_of, last_of = ([*states, None][:2] for states in (start, end))
    for first, count in chunks(batch, config.rows(hidden, multiprocessors)):
        rows = functools.partial(_rows, first, count)
        forward(
            rows(gates, 2), recurrent, bias, *(rows(part, 0) for part in first_of), rows(y, 1),
            *(rows(part, 0) for part in last_of), rows(saved.gates, 2), rows(saved.c, 1), rows(saved.h, 1), cell=cell,
            config=config, wide=weights.wide, reverse=reverse, **options,
        )  # fmt: skip


def inputs_part(cell: Cell, x: Part, weights: Weights, **options: Any) -> Part:
    """The inputs' part of the gates of all steps: [steps, batch, gates * hidden]."""
    steps, batch, _ = x.shape
    columns = cell.gates * weights.units
    matrix, by_row = flat(x)
    dtype = nv.f16 if bounded(cell) else nv.f32
    gates = Part.new(x.array, (batch, steps, columns) if by_row else (steps, batch, columns), dtype)
    out = gates.joined(0) if len(matrix.shape) == 2 else gates
    assert out is not None
    bias = None if weights.input_bias is None else weights.input_bias.view()
    matmul(matrix.view(), Part.of(weights.inputs).swap(0, 1).view(), out.view(), bias=bias, **options)
    return gates.swap(0, 1) if by_row else gates


def run_backward(
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
    **options: Any,
) -> None:
    """The gradients of the gates, ``dx`` of the inputs' part and ``dh`` of the hidden state's, [steps, batch, gates *
    hidden] (the same array unless the cell is a GRU), and of the state at first."""
    (_, batch, hidden), multiprocessors = dy.shape, sms(options.get("target"))
    states, earlier = (saved.c, start[1]) if cell.states == 2 else (y, start[0])
    assert states is not None
    config = choose(hidden, cell.gates * hidden, 1, batch, multiprocessors)
    if config is None:
        backward_steps(cell, dy, weights, earlier, states, saved, dend, dx, dh, dstart, reverse=reverse, **options)
        return

    of_x, of_h = (part.split(2, cell.gates).swap(1, 2) for part in (dx, dh))
    for first, count in chunks(batch, config.rows(hidden, multiprocessors)):
        rows = functools.partial(_rows, first, count)
        backward(
            rows(dy, 1), weights.of_kinds(weights.hidden, cell.gates), rows(saved.gates, 2), rows(states, 1),
            rows(earlier, 0), *(rows(part, 0) for part in [*dend, None][:2]), rows(of_x, 2),
            None if dh is dx else rows(of_h, 2), *(rows(part, 0) for part in [*dstart, None][:2]), cell=cell,
            config=config, wide=weights.wide, reverse=reverse, **options,
        )  # fmt: skip


def _rows(first: int, count: int, x: Part | None, axis: int) -> Any:
    return None if x is None else x.take(axis, first, count).view()


def chunks(batch: int, most: int) -> Iterator[tuple[int, int]]:
    """First row and rows of parts of the batch, all of about one size."""
    each = nv.cdiv(nv.cdiv(batch, nv.cdiv(batch, most)), ROWS) * ROWS
    for first in range(0, batch, each):
        yield first, min(each, batch - first)
