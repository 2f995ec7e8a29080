"""cross_entropy."""

from __future__ import annotations

from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, gradient, like, of_tensors, operator, rows

_OPTIONS = "int ignore_index, float label_smoothing, float z_loss, str reduction"


def _made(x: Tensor, labels: Tensor, ignore: int, smoothing: float, z_loss: float, reduction: str) -> tuple[Any, ...]:
    losses = like(x, x.shape[:-1], dtype=torch.float32)
    return losses if reduction == "none" else like(x, (), dtype=torch.float32), torch.empty_like(losses)


@operator(f"(Tensor x, Tensor labels, {_OPTIONS}) -> (Tensor, Tensor)", _made)
def cross_entropy_rows(
    x: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float, reduction: str
) -> tuple[Tensor, Tensor]:
    """The loss, and lse of each row."""
    found: tuple[Tensor, Tensor] = nv.cross_entropy(
        rows(x), labels.contiguous(), ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss,
        reduction=reduction, lse=True,
    )  # fmt: skip
    return found


def _alone(
    x: Tensor, labels: Tensor, ignore_index: int, label_smoothing: float, z_loss: float, reduction: str
) -> tuple[Tensor, None]:
    loss: Tensor = nv.cross_entropy(
        rows(x), labels.contiguous(), ignore_index=ignore_index, label_smoothing=label_smoothing, z_loss=z_loss,
        reduction=reduction,
    )  # fmt: skip
    return loss, None


@operator(f"(Tensor dloss, Tensor x, Tensor labels, Tensor lse, {_OPTIONS}) -> Tensor", lambda dloss, x, *rest: like(x))
def cross_entropy_rows_backward(
    dloss: Tensor, x: Tensor, labels: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float, z_loss: float,
    reduction: str,
) -> Tensor:  # fmt: skip
    found: Tensor = nv.cross_entropy_backward(
        dloss.contiguous(), rows(x), labels.contiguous(), lse, ignore_index=ignore_index,
        label_smoothing=label_smoothing, z_loss=z_loss, reduction=reduction,
    )  # fmt: skip
    return found


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, labels, *ctx.options = inputs
    ctx.save_for_backward(x, labels, output[1])
    ctx.set_materialize_grads(False)  # else torch makes zeros for lse, which nobody uses


def _backward(ctx: Any, dloss: Tensor, *rest: Any) -> tuple[Any, ...]:
    return cross_entropy_rows_backward(dloss, *ctx.saved_tensors, *ctx.options), *[None] * 5


gradient(cross_entropy_rows, _backward, _keep, _alone, public=1)


@of_tensors
def cross_entropy(
    input: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> Tensor:
    """`torch.nn.functional.cross_entropy` of logits and labels, computed in f32 by `nvdsl.cross_entropy`; of f32.

    ``input`` is (C), (N, C) or (N, C, d1, ...), as in torch, and ``target`` holds labels of i32 or i64. Classes that
    are not the last axis are copied there first. ``z_loss`` adds ``z_loss * lse**2`` to the loss of each row. Class
    weights and probabilities as targets are not supported.
    """
    if target.is_floating_point():
        raise ValueError("targets are labels, integers; probabilities are not supported")
    logits = input if input.dim() <= 2 else input.movedim(1, -1)
    loss: Tensor = cross_entropy_rows(logits, target, ignore_index, label_smoothing, z_loss, reduction)[0]
    return loss
