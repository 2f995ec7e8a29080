"""A sequence step by step, two launches each: for weights that the blocks together can't keep in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.gemm.matmul import matmul
from nvdsl.kernels.recurrent.arguments import Weights
from nvdsl.kernels.recurrent.cells import Cell
from nvdsl.kernels.recurrent.part import Part, Saved
from nvdsl.kernels.recurrent.pointwise import add, backward_step, forward_step


def forward_steps(
    cell: Cell,
    x: Part,
    weights: Weights,
    start: Sequence[Part | None],
    y: Part,
    end: Sequence[Part],
    saved: Saved,
    *,
    reverse: bool,
    **options: Any,
) -> None:
    """As `forward.forward`, with a product and a kernel for each step. The state is f32 between steps; h goes into the
    products as the other arrays are."""
    steps, _, batch, hidden = x.shape
    like = weights.hidden
    sums = Part.new(like, (batch, cell.gates * hidden), nv.f32)
    between = [Part.new(like, (batch, hidden), nv.f32) for _ in end]
    recurrent, bias = Part.of(weights.hidden).swap(0, 1).view(), weights.of_kinds(weights.hidden_bias, cell.gates)
    state: list[Any] = [None if part is None else part.view() for part in start]
    h = start[0]
    for step in range(steps):
        time = steps - 1 - step if reverse else step
        if h is not None:
            matmul(h.view(), recurrent, sums.view(), **options)
        last = step == steps - 1
        into = [part.view() for part in (end if last else between)]
        out = y.at(0, time)
        forward_step(
            x.at(0, time).view(), None if h is None else sums.split(1, cell.gates).swap(0, 1).view(), bias,
            *(state + [None])[:2], *(into + [None])[:2], out.view(),
            *(None if part is None else part.at(0, time).view() for part in saved), cell=cell, **options,
        )  # fmt: skip
        state, h = into, out


def backward_steps(
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
    **options: Any,
) -> None:
    """As `backward.backward`, likewise."""
    steps, batch, hidden = dy.shape
    like, weight = weights.hidden, Part.of(weights.hidden).view()
    product: Part | None = None
    between = [Part.new(like, (batch, hidden), nv.f32) for _ in dstart]
    d: list[Any] = [None if part is None else part.view() for part in dend]
    for step in range(steps):
        time, before = (step, step + 1) if reverse else (steps - 1 - step, steps - 2 - step)
        earlier = start if step == steps - 1 else states.at(0, before)
        into = [part.view() for part in between]
        of_h = dh.at(0, time)
        backward_step(
            dy.at(0, time).view(), None if saved.gates is None else saved.gates.at(0, time).view(),
            None if earlier is None else earlier.view(), states.at(0, time).view(),
            None if product is None else product.view(), *(d + [None])[:2],
            dx.at(0, time).split(1, cell.gates).swap(0, 1).view(), of_h.split(1, cell.gates).swap(0, 1).view(),
            *(into + [None])[:2], cell=cell, **options,
        )  # fmt: skip
        product = product or Part.new(like, (batch, hidden), nv.f32)
        matmul(of_h.view(), weight, product.view(), **options)
        d = into
    assert product is not None
    add(between[0].view(), product.view(), dstart[0].view(), **options)
    for one, out in zip(between[1:], dstart[1:], strict=True):
        add(one.view(), None, out.view(), **options)
