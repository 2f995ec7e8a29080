"""mlp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, autocast, gradient, like, of_tensors, operator, rows
from nvdsl.torch.product_ops import linear_product, matrix_product

F, aten = torch.nn.functional, torch.ops.aten
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "relu": (torch.relu, lambda dy, x, y: aten.threshold_backward(dy, y, 0)),
    "gelu": (F.gelu, lambda dy, x, y: aten.gelu_backward(dy, x)),
    "gelu_tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda dy, x, y: aten.gelu_backward(dy, x, approximate="tanh"),
    ),
    "silu": (F.silu, lambda dy, x, y: aten.silu_backward(dy, x)),
    "sigmoid": (torch.sigmoid, lambda dy, x, y: aten.sigmoid_backward(dy, y)),
    "tanh": (torch.tanh, lambda dy, x, y: aten.tanh_backward(dy, y)),
    "": (lambda x: x, lambda dy, x, y: dy),
}
"""Of each name the function, and its gradient from dy, x and y."""


@operator(
    "(Tensor x, Tensor[] weights, Tensor[] biases, str activation, str output_activation) -> Tensor",
    lambda x, *rest: like(x),
)
def mlp_layers(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: str, output_activation: str
) -> Tensor:
    return nv.mlp(
        rows(x), list(weights), list(biases) or None, activation=activation or None,
        output_activation=output_activation or None,
    )  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weights, biases, *ctx.activations = inputs
    ctx.layers, ctx.has_biases = len(weights), bool(biases)
    ctx.save_for_backward(x, *weights, *biases)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    """The layers once more, one after the other, and back."""
    x, *rest = ctx.saved_tensors
    weights, biases = rest[: ctx.layers], rest[ctx.layers :]
    names = [ctx.activations[0]] * (ctx.layers - 1) + [ctx.activations[1]]
    values, sums = [x if x.dim() == 2 else x.reshape(-1, x.shape[-1])], []
    for i, name in enumerate(names):
        sums.append(linear_product(values[-1], weights[i], biases[i] if biases else None))
        values.append(ACTIVATIONS[name][0](sums[-1]))
    slope = dy if dy.dim() == 2 else dy.reshape(values[0].shape)
    dweights: list[Tensor] = []
    dbiases: list[Tensor] = []
    for i in reversed(range(ctx.layers)):
        inner = ACTIVATIONS[names[i]][1](slope, sums[i], values[i + 1])
        if biases:
            dbiases.insert(0, inner.sum(0, dtype=biases[i].dtype))
        dweights.insert(0, matrix_product(inner.mT, values[i]))
        slope = matrix_product(inner, weights[i])
    return slope if x.dim() == 2 else slope.reshape(x.shape), dweights, dbiases, None, None


gradient(mlp_layers, _backward, _keep)


@of_tensors
def mlp(
    input: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None] | None = None,
    *,
    activation: str | None = "relu",
    output_activation: str | None = None,
) -> Tensor:
    """Up to 32 linear layers of one width of 64, 128 or 256 in one kernel, by `nvdsl.mlp`; f16 or bf16. ``weights`` and
    ``biases`` are those of `torch.nn.Linear`, where a bias may be None. Activations are named: relu, gelu, gelu_tanh,
    silu, sigmoid, tanh.

    The gradient computes the layers once more, one product after the other: it keeps only ``input``.
    """
    names = activation or "", output_activation or ""
    for name in names:
        if name not in ACTIVATIONS:
            raise ValueError(f"activation {name!r}: it is one of {', '.join(filter(None, ACTIVATIONS))}, or None")
    input, *weights = autocast(input, *weights)
    given = [] if biases is None else list(biases)
    if any(bias is None for bias in given):  # an op's list has tensors alone
        given = [input.new_zeros(input.shape[-1:]) if bias is None else bias for bias in given]
    y: Tensor = mlp_layers(input, list(weights), given, *names)
    return y
