"""softmax and log_softmax."""

from __future__ import annotations

from operator import index
from typing import Any

import nvdsl as nv
from nvdsl.torch.operators import Tensor, gradient, like, of_tensors, operator, rows


@operator("(Tensor x) -> Tensor", like)
def softmax_rows(x: Tensor) -> Tensor:
    return nv.softmax(rows(x))


@operator("(Tensor dy, Tensor y) -> Tensor", lambda dy, y: like(y))
def softmax_rows_backward(dy: Tensor, y: Tensor) -> Tensor:
    return nv.softmax_backward(rows(dy), rows(y))


@operator("(Tensor x) -> Tensor", like)
def log_softmax_rows(x: Tensor) -> Tensor:
    return nv.log_softmax(rows(x))


@operator("(Tensor dy, Tensor y) -> Tensor", lambda dy, y: like(y))
def log_softmax_rows_backward(dy: Tensor, y: Tensor) -> Tensor:
    return nv.log_softmax_backward(rows(dy), rows(y))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


gradient(softmax_rows, lambda ctx, dy: softmax_rows_backward(dy, *ctx.saved_tensors), _keep)
gradient(log_softmax_rows, lambda ctx, dy: log_softmax_rows_backward(dy, *ctx.saved_tensors), _keep)


@of_tensors
def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """`torch.softmax` of f16, bf16 or f32, computed in f32 by `nvdsl.softmax`. Another axis than the last one is copied
    to the end first."""
    return _along(softmax_rows, input, dim)


@of_tensors
def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    """`torch.log_softmax`, computed by `nvdsl.log_softmax`. See `softmax`."""
    return _along(log_softmax_rows, input, dim)


def _along(op: Any, x: Tensor, dim: int) -> Tensor:
    dim = index(dim)  # a float may be equal to one
    if not x.numel():  # also where the axis has no elements, which `nvdsl.softmax` refuses
        x.size(dim)  # raises where there is no such axis
        return x.clone()
    if not x.dim():
        return _along(op, x[None], dim)[0]
    if dim in (-1, x.dim() - 1):
        found: Tensor = op(x)
        return found
    return op(x.movedim(dim, -1)).movedim(-1, dim)
