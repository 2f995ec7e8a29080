"""linear and matmul."""

from __future__ import annotations

from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, autocast, gradient, like, operator


def _product_shape(a: Tensor, b: Tensor) -> list[Any]:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return [*batch, *([] if a.dim() == 1 else [a.shape[-2]]), *([] if b.dim() == 1 else [b.shape[-1]])]


@operator("(Tensor a, Tensor b) -> Tensor", lambda a, b: like(a, _product_shape(a, b)))
def matrix_product(a: Tensor, b: Tensor) -> Tensor:
    return nv.matmul(a, b)


@operator(
    "(Tensor a, Tensor b, Tensor bias) -> Tensor", lambda a, b, bias: like(a, _product_shape(a, b))
)
def matrix_product_and_bias(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return nv.matmul(a, b, bias=bias)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.bias = [(bias.shape, bias.dtype) for bias in inputs[2:]]


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    wanted, bias = ctx.needs_input_grad, [None for _ in ctx.bias]
    if ctx.bias and wanted[2]:
        (shape, kind), = ctx.bias
        bias = [dy.float().sum_to_size(shape).to(kind)]
    row, column = a.dim() == 1, b.dim() == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    dy = dy[..., None] if column else dy
    dy = dy[..., None, :] if row else dy
    da = matrix_product(dy, b.mT).sum_to_size(a.shape) if wanted[0] else None
    db = matrix_product(a.mT, dy).sum_to_size(b.shape) if wanted[1] else None
    return da[0] if row and da is not None else da, db[:, 0] if column and db is not None else db, *bias


gradient(matrix_product, _backward, _keep)
gradient(matrix_product_and_bias, _backward, _keep)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul` by `nvdsl.matmul`: any layouts, batches broadcast; the gradients are products, too."""
    found: Tensor = matrix_product(*autocast(input, other))
    return found


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` by `nvdsl.matmul`: ``input @ weight.T + bias``, the bias added in f32 before the
    result is rounded."""
    input, weight = autocast(input, weight)
    if weight.dim() == 1:
        y = matrix_product(input, weight)
        return y if bias is None else y + bias
    rows = input.reshape(-1, input.shape[-1])
    y = matrix_product(rows, weight.mT) if bias is None else matrix_product_and_bias(rows, weight.mT, bias)
    return y.reshape(*input.shape[:-1], weight.shape[0])


def _grouped_shape(a: Tensor, b: Tensor, offsets: Tensor) -> list[Any]:
    return [a.shape[0], b.shape[-1]] if b.dim() == 3 else [offsets.shape[0], a.shape[0], b.shape[1]]


@operator("(Tensor a, Tensor b, Tensor offsets) -> Tensor", lambda a, b, o: like(a, _grouped_shape(a, b, o)))
def grouped_product(a: Tensor, b: Tensor, offsets: Tensor) -> Tensor:
    return nv.grouped_matmul(a, b, offsets=offsets)


def _keep_grouped(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _grouped_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    a, b, offsets = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    da = grouped_product(dy, b.mT, offsets) if wanted[0] else None
    return da, grouped_product(a.mT, dy, offsets) if wanted[1] else None, None


gradient(grouped_product, _grouped_backward, _keep_grouped)


def grouped_matmul(input: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
    """Rows of groups times a matrix of each group, by `nvdsl.grouped_matmul`: ``input`` is (M, K), ``weights`` (groups,
    K, N), and group g has the rows from ``offsets[g - 1]`` to ``offsets[g] - 1``, as in `torch._grouped_mm`. The
    offsets are read on the device. The gradients are grouped products, too."""
    if weights.dim() != 3:
        raise ValueError(f"weights of the shape {tuple(weights.shape)}: they are (groups, K, N)")
    found: Tensor = grouped_product(*autocast(input, weights), offsets)
    return found
