"""lstm and gru."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import nvdsl as nv
from nvdsl.kernels.recurrent.cells import GRU, LSTM, Cell
from nvdsl.torch.operators import Tensor, autocast, gradient, like, of_tensors, operator

_GIVEN = "Tensor x, Tensor[] weights, Tensor? h, Tensor? c, bool bidirectional, bool batch_first, bool save"
_SLOPES = (
    "Tensor dy, Tensor? dh, Tensor? dc, Tensor x, Tensor[] weights, Tensor? h, Tensor? c, Tensor[] saved, bool"
    " bidirectional, bool batch_first"
)


def _layers(weights: Sequence[Tensor], directions: int) -> tuple[int, int]:
    """Layers, and the size of h. Biases are there where a third array has one axis."""
    each = 4 if len(weights) > 2 and weights[2].dim() == 1 else 2
    return len(weights) // (each * directions), weights[1].shape[1]


def _made(cell: Cell, x: Tensor, weights: Sequence[Tensor], bidirectional: bool, first: bool, save: bool) -> Any:
    directions = 2 if bidirectional else 1
    layers, hidden = _layers(weights, directions)
    steps, *batch = (x.shape[1], x.shape[0]) if first and x.dim() == 3 else x.shape[:-1]
    y, state = like(x, (*x.shape[:-1], directions * hidden)), like(x, (layers * directions, *batch, hidden))
    saved = []
    size = batch[0] if batch else 1
    for layer in range(layers if save else 0):
        for _ in range(directions):
            if cell.saved:
                kind = getattr(torch, np.dtype(cell.saved_dtype.numpy).name)
                saved.append(like(x, (steps, cell.saved, size, hidden), dtype=kind))
            if cell.states == 2:
                saved.append(like(x, (steps, size, hidden), dtype=torch.float32))
            saved.append(like(x, (*x.shape[:-1], hidden)))
        if layer < layers - 1:
            saved.append(like(y))
    return y, state, state.new_empty(state.shape) if cell.states == 2 else state.new_empty(0), saved


def _slopes(cell: Cell, x: Tensor, weights: Sequence[Tensor], bidirectional: bool, first: bool) -> Any:
    _, state, c, _ = _made(cell, x, weights, bidirectional, first, False)
    return like(x), [like(w) for w in weights], state, c


@operator(
    f"({_GIVEN}) -> (Tensor, Tensor, Tensor, Tensor[])", lambda x, w, h, c, two, first, save: _made(
        LSTM(), x, w, two, first, save
    )
)  # fmt: skip
def lstm_layers(
    x: Tensor, weights: Sequence[Tensor], h: Tensor | None, c: Tensor | None, bidirectional: bool, batch_first: bool,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """y, h_n, c_n, and what the gradient needs but for y."""
    state = None if h is c is None else (h, c)
    y, ends, *saved = nv.lstm(x, list(weights), state, bidirectional=bidirectional, batch_first=batch_first, save=save)
    return y, *ends, list(saved[0][:-1]) if save else []


@operator(
    f"({_SLOPES}) -> (Tensor, Tensor[], Tensor, Tensor)",
    lambda dy, dh, dc, x, w, h, c, saved, two, first: _slopes(LSTM(), x, w, two, first),
)
def lstm_layers_backward(
    dy: Tensor, dh: Tensor | None, dc: Tensor | None, x: Tensor, weights: Sequence[Tensor], h: Tensor | None,
    c: Tensor | None, saved: Sequence[Tensor], bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:  # fmt: skip
    state = None if h is c is None else (h, c)
    dx, dweights, dstate = nv.lstm_backward(
        dy, (dh, dc), x, list(weights), state, list(saved), bidirectional=bidirectional, batch_first=batch_first
    )
    return dx, list(dweights), *dstate


@operator(
    f"({_GIVEN}) -> (Tensor, Tensor, Tensor, Tensor[])", lambda x, w, h, c, two, first, save: _made(
        GRU(), x, w, two, first, save
    )
)  # fmt: skip
def gru_layers(
    x: Tensor, weights: Sequence[Tensor], h: Tensor | None, c: Tensor | None, bidirectional: bool, batch_first: bool,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """y, h_n, nothing, and what the gradient needs but for y."""
    y, end, *saved = nv.gru(x, list(weights), h, bidirectional=bidirectional, batch_first=batch_first, save=save)
    return y, end, x.new_empty(0), list(saved[0][:-1]) if save else []


@operator(
    f"({_SLOPES}) -> (Tensor, Tensor[], Tensor, Tensor)",
    lambda dy, dh, dc, x, w, h, c, saved, two, first: _slopes(GRU(), x, w, two, first),
)
def gru_layers_backward(
    dy: Tensor, dh: Tensor | None, dc: Tensor | None, x: Tensor, weights: Sequence[Tensor], h: Tensor | None,
    c: Tensor | None, saved: Sequence[Tensor], bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:  # fmt: skip
    dx, dweights, dstart = nv.gru_backward(
        dy, dh, x, list(weights), h, list(saved), bidirectional=bidirectional, batch_first=batch_first
    )
    return dx, list(dweights), dstart, x.new_empty(0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    x, weights, h, c, bidirectional, batch_first, save = inputs
    y, *_, saved = output
    if not save:
        raise RuntimeError("lstm_layers and gru_layers have a gradient only with save=True")
    ctx.options, ctx.counts = (bidirectional, batch_first), (len(weights), len(saved))
    ctx.has = h is not None, c is not None
    ctx.save_for_backward(x, *weights, *saved, y, *(state for state in (h, c) if state is not None))
    ctx.set_materialize_grads(False)  # else torch makes zeros for the states that nobody uses


def _backward(
    op: Any, ctx: Any, dy: Tensor | None, dh: Tensor | None, dc: Tensor | None, *rest: Any
) -> tuple[Any, ...]:
    x, *kept = ctx.saved_tensors
    weights, saved = ctx.counts
    y, *given = kept[weights + saved :]
    h = given[0] if ctx.has[0] else None
    c = given[-1] if ctx.has[1] else None
    if dy is None:  # only a state is used
        dy = torch.zeros_like(y)
    dx, dweights, dh_0, dc_0 = op(
        dy, dh, dc, x, kept[:weights], h, c, [*kept[weights : weights + saved], y], *ctx.options
    )
    return dx, dweights, dh_0 if ctx.has[0] else None, dc_0 if ctx.has[1] else None, None, None, None


gradient(lstm_layers, lambda ctx, *slopes: _backward(lstm_layers_backward, ctx, *slopes), _keep, public=3)
gradient(gru_layers, lambda ctx, *slopes: _backward(gru_layers_backward, ctx, *slopes), _keep, public=3)


def _save(x: Tensor, *others: Any) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, *others))


def _pair(state: Any) -> list[Tensor | None]:
    if not isinstance(state, tuple | list) or len(state) != 2:
        raise ValueError(f"state is a {type(state).__name__}: that of an LSTM is (h_0, c_0), None for zeros")
    return [None if x is None else autocast(x)[0] for x in state]


@of_tensors
def lstm(
    input: Tensor,
    weights: Sequence[Tensor],
    state: tuple[Tensor | None, Tensor | None] | None = None,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The layers of a `torch.nn.LSTM` of f16 or bf16, by `nvdsl.lstm`: ``weights`` are its ``_flat_weights``. A part
    of ``state`` that is None is zeros. Returns ``y, (h_n, c_n)``."""
    input, *weights = autocast(input, *weights)
    h, c = (None, None) if state is None else _pair(state)
    save = _save(input, *weights, h, c)
    y, h_n, c_n = lstm_layers(input, list(weights), h, c, bidirectional, batch_first, save)[:3]
    return y, (h_n, c_n)


@of_tensors
def gru(
    input: Tensor,
    weights: Sequence[Tensor],
    state: Tensor | None = None,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """The layers of a `torch.nn.GRU` of f16 or bf16, by `nvdsl.gru`: ``weights`` are its ``_flat_weights``. Returns
    ``y, h_n``."""
    input, *weights = autocast(input, *weights)
    if state is not None:
        (state,) = autocast(state)
    save = _save(input, *weights, state)
    y, h_n = gru_layers(input, list(weights), state, None, bidirectional, batch_first, save)[:2]
    return y, h_n
