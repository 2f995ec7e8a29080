"""A sequence step by step, two launches each: for weights that the blocks together can't keep in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

import nvdsl as nv
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.cells import Cell
from nvdsl.kernels.recurrent.part import Part, Saved
from nvdsl.kernels.recurrent.pointwise import add, backward_step, forward_step
from nvdsl.kernels.recurrent.run import Run


def pair(parts: Sequence[Part | None]) -> list[Part | None]:
    """h and c, of which some cells have no second."""
    return [*parts, None][:2]


def forward_steps(
    run: Run,
    cell: Cell,
    x: Part,
    weights: Weights,
    start: Sequence[Part | None],
    y: Part,
    end: Sequence[Part],
    saved: Saved,
    *,
    reverse: bool,
) -> None:
    """As `forward.forward`, with a product and a kernel for each step. The state is f32 between steps; h goes into the
    products as the other arrays are."""
    steps, _, batch, hidden = x.shape
    sums = run.between(x, (batch, cell.gates * hidden), nv.f32)
    state, between = list(start), [run.between(x, (batch, hidden), nv.f32) for _ in end]
    recurrent, bias = Part.of(weights.hidden).swap(0, 1), weights.of_kinds(weights.hidden_bias, cell.gates)
    h = start[0]
    for step in range(steps):
        time = steps - 1 - step if reverse else step
        if h is not None:
            run.product(h, recurrent, sums)
        into = list(end) if step == steps - 1 else between
        run.launch(
            forward_step, x.at(0, time), None if h is None else sums.split(1, cell.gates).swap(0, 1), bias,
            *pair(state), *pair(into), y.at(0, time), *(None if part is None else part.at(0, time) for part in saved),
            cell=cell,
        )  # fmt: skip
        state, h = [*into], y.at(0, time)


def backward_steps(
    run: Run,
    cell: Cell,
    dy: Part,
    weights: Weights,
    start: Part | None,
    states: Part,
    saved: Saved,
    dend: Sequence[Part | None],
    dx: Part,
    dh: Part,
    dstart: Sequence[Part],
    *,
    reverse: bool,
) -> None:
    """As `backward.backward`, likewise."""
    steps, batch, hidden = dy.shape
    sums = run.between(dy, (batch, hidden), nv.f32)
    d, between = list(dend), [run.between(dy, (batch, hidden), nv.f32) for _ in dstart]
    for step in range(steps):
        time, before = (step, step + 1) if reverse else (steps - 1 - step, steps - 2 - step)
        of_x, of_h = (part.at(0, time) for part in (dx, dh))
        run.launch(
            backward_step, dy.at(0, time), None if saved.gates is None else saved.gates.at(0, time),
            start if step == steps - 1 else states.at(0, before), states.at(0, time), sums if step else None, *pair(d),
            *(part.split(1, cell.gates).swap(0, 1) for part in (of_x, of_h)), *pair(between), cell=cell,
        )  # fmt: skip
        run.product(of_h, Part.of(weights.hidden), sums)
        d = [*between]
    for one, more, out in zip(between, [sums, None], dstart, strict=False):
        run.launch(add, one, more, out)
