"""linear and matmul."""

from __future__ import annotations

import math
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, autocast, gradient, like, of_tensors, operator

RESULTS = {torch.int8: torch.int32, torch.float8_e4m3fn: torch.bfloat16, torch.float8_e5m2: torch.bfloat16}
"""Types of products that are not their operands'."""


def _product(a: Tensor, b: Tensor) -> Tensor:
    """What a product looks like."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, cols = a.shape[-2:-1] if a.dim() > 1 else (), b.shape[-1:] if b.dim() > 1 else ()
    return like(a, [*batch, *rows, *cols], dtype=RESULTS.get(a.dtype))


@operator("(Tensor a, Tensor b) -> Tensor", _product)
def matrix_product(a: Tensor, b: Tensor) -> Tensor:
    return nv.matmul(a, b)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    row, column = a.dim() == 1, b.dim() == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    dy = dy[..., None] if column else dy
    dy = dy[..., None, :] if row else dy
    da = matrix_product(dy, b.mT).sum_to_size(a.shape) if wanted[0] else None
    db = matrix_product(a.mT, dy).sum_to_size(b.shape) if wanted[1] else None
    return da[0] if row and da is not None else da, db[:, 0] if column and db is not None else db


gradient(matrix_product, _backward, _keep)


def _folded(x: Tensor) -> Tensor:
    """All axes but the last made one."""
    return x if x.dim() == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _layer(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What the results of a layer look like."""
    return like(x, [*x.shape[:-1], weight.shape[0]], dtype=RESULTS.get(x.dtype))


@operator("(Tensor x, Tensor weight, Tensor? bias) -> Tensor", _layer)
def linear_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if x.dim() == 2:
        return nv.matmul(x, weight.mT, bias=bias)
    y = _layer(x, weight, bias)  # of the op itself: a view of what it makes could not be changed in place
    nv.matmul(_folded(x), weight.mT, _folded(y), bias=bias)
    return y


def _keep_layer(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias = inputs
    ctx.save_for_backward(x, weight)
    ctx.bias = None if bias is None else (bias.shape, bias.dtype)


def _layer_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    wanted, dy = ctx.needs_input_grad, _folded(dy)
    dx = matrix_product(dy, weight) if wanted[0] else None
    dx = dx if dx is None or x.dim() == 2 else dx.reshape(x.shape)
    dw = matrix_product(dy.mT, _folded(x)) if wanted[1] else None  # in the order of the weight: else torch copies it
    return dx, dw, _sum_to(dy, *ctx.bias) if wanted[2] else None


gradient(linear_product, _layer_backward, _keep_layer)


def _sum_to(x: Tensor, shape: Any, dtype: Any) -> Tensor:
    """`x` summed over what an array of this shape was broadcast along."""
    more = x.dim() - len(shape)
    axes = [i for i in range(x.dim()) if i < more or shape[i - more] == 1]
    total = x.sum(axes, dtype=dtype) if axes else x.to(dtype)
    return total if total.shape == shape else total.reshape(shape)


@of_tensors
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul` by `nvdsl.matmul`: any layouts, batches broadcast; the gradients are products, too."""
    input, other = autocast(input, other)
    if input.dim() > 2 and 1 <= other.dim() <= 2:  # one product: its gradients need no sum over the batch
        found: Tensor = matrix_product(_folded(input), other)
        return found.reshape(*input.shape[:-1], *other.shape[1:])
    found = matrix_product(input, other)
    return found


@of_tensors
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` by `nvdsl.matmul`: ``input @ weight.T + bias``, the bias added in f32 before the
    result is rounded."""
    input, weight = autocast(input, weight)
    if weight.dim() == 1:
        y: Tensor = matrix_product(input, weight)
        return y if bias is None else y + bias
    y = linear_product(input, weight, bias)
    return y


def _grouped(a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    shape = [a.shape[0], b.shape[-1]] if b.dim() == 3 else [offsets.shape[0], a.shape[0], b.shape[1]]
    return like(a, shape, dtype=RESULTS.get(a.dtype))


@operator("(Tensor a, Tensor b, Tensor offsets) -> Tensor", _grouped)
def grouped_product(a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    return nv.grouped_matmul(a, b, offsets=offsets)


def _grouped_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    a, b, offsets = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    da = db = None
    if wanted[0]:
        da = grouped_product(dy, b.mT, offsets) if b.dim() == 3 else grouped_product(b, dy.mT, offsets).mT
    if wanted[1]:
        db = grouped_product(a.mT, dy, offsets)
    return da, db, None


gradient(grouped_product, _grouped_backward, _keep)


@of_tensors
def grouped_matmul(input: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
    """Rows of groups times a matrix of each group, by `nvdsl.grouped_matmul`: ``input`` is (M, K), ``weights`` (groups,
    K, N), and group g has the rows from ``offsets[g - 1]`` to ``offsets[g] - 1``, as in `torch._grouped_mm`. The
    offsets are read on the device. The gradients are grouped products, too."""
    if weights.dim() != 3:
        raise ValueError(f"weights of the shape {tuple(weights.shape)}: they are (groups, K, N)")
    found: Tensor = grouped_product(*autocast(input, weights), offsets)
    return found
