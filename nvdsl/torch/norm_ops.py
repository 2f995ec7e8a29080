"""layer_norm and rms_norm, and both of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, gradient, like, nothing, operator, rows

_OPTIONAL = "Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, float eps"


def _per_row(x: Tensor) -> Tensor:
    return like(x, x.shape[:-1], dtype=torch.float32)


def _made(x: Tensor, weight: Any, bias: Any, residual: Any, eps: float) -> tuple[Tensor, ...]:
    total = nothing(x) if residual is None else like(residual)
    return like(x), total, _per_row(x), _per_row(x)


@operator(f"({_OPTIONAL}) -> (Tensor, Tensor, Tensor, Tensor)", _made)
def layer_norm_rows(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    """Result, x + residual, mean, rstd."""
    x, more = rows(x), None if residual is None else rows(residual)
    parameters = _side_by_side(weight), _side_by_side(bias)
    y, *total, mean, rstd = nv.layer_norm(
        x, *parameters, eps=eps, residual=more, residual_out=more is not None, mean=True, rstd=True
    )
    return y, total[0] if total else nothing(x), mean, rstd


@operator(
    "(Tensor x, Tensor? weight, Tensor? residual, float eps) -> (Tensor, Tensor, Tensor)",
    lambda x, weight, residual, eps: _made(x, weight, None, residual, eps)[:3],
)
def rms_norm_rows(x: Tensor, weight: Tensor | None, residual: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    """Result, x + residual, rstd."""
    x, more = rows(x), None if residual is None else rows(residual)
    y, *total, rstd = nv.rms_norm(
        x, _side_by_side(weight), eps=eps, residual=more, residual_out=more is not None, rstd=True
    )
    return y, total[0] if total else nothing(x), rstd


def _slopes(dy: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    *_, weight, dresidual, for_weight, for_bias = rest
    kind = torch.float32 if weight is None else weight.dtype
    return like(x), *(like(x, x.shape[-1:], dtype=kind) if asked else nothing(x) for asked in (for_weight, for_bias))


@operator(
    "(Tensor dy, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, Tensor? dresidual, bool for_weight, bool for_bias)"
    " -> (Tensor, Tensor, Tensor)",
    _slopes,
)
def layer_norm_rows_backward(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, dresidual: Tensor | None,
    for_weight: bool, for_bias: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    more = None if dresidual is None else rows(dresidual)
    found = nv.layer_norm_backward(
        rows(dy), rows(x), mean, rstd, _side_by_side(weight), dresidual=more, dweight=for_weight, dbias=for_bias
    )
    dx, *sums = found if for_weight or for_bias else (found,)
    return dx, sums.pop(0) if for_weight else nothing(x), sums.pop(0) if for_bias else nothing(x)


@operator(
    "(Tensor dy, Tensor x, Tensor rstd, Tensor? weight, Tensor? dresidual, bool for_weight) -> (Tensor, Tensor)",
    lambda *given: _slopes(*given, False)[:2],
)
def rms_norm_rows_backward(
    dy: Tensor, x: Tensor, rstd: Tensor, weight: Tensor | None, dresidual: Tensor | None, for_weight: bool
) -> tuple[Tensor, ...]:
    more = None if dresidual is None else rows(dresidual)
    found = nv.rms_norm_backward(
        rows(dy), rows(x), rstd, _side_by_side(weight), dresidual=more, dweight=for_weight
    )
    return found if for_weight else (found, nothing(x))


def _side_by_side(row: Tensor | None) -> Tensor | None:
    return None if row is None else row.contiguous()


def _keep_layer(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, residual, _ = inputs
    _, total, mean, rstd = output
    ctx.save_for_backward(x if residual is None else total, mean, rstd, weight)
    ctx.kinds, ctx.has_residual, ctx.has_bias = _kinds(x, residual, bias), residual is not None, bias is not None


def _kinds(*given: Tensor | None) -> list[torch.dtype | None]:
    return [None if x is None else x.dtype for x in given]


def _layer_backward(ctx: Any, dy: Tensor, dtotal: Tensor, dmean: Tensor, drstd: Tensor) -> tuple[Any, ...]:
    h, mean, rstd, weight = ctx.saved_tensors
    wanted = weight is not None and ctx.needs_input_grad[1], ctx.has_bias and ctx.needs_input_grad[2]
    beyond = dtotal if ctx.has_residual else None
    dh, dweight, dbias = layer_norm_rows_backward(dy, h, mean, rstd, weight, beyond, *wanted)
    kind, kind_residual, kind_bias = ctx.kinds
    return (
        dh.to(kind), dweight if wanted[0] else None, dbias.to(kind_bias) if wanted[1] else None,
        dh.to(kind_residual) if ctx.has_residual else None, None,
    )  # fmt: skip


def _keep_rms(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, residual, _ = inputs
    _, total, rstd = output
    ctx.save_for_backward(x if residual is None else total, rstd, weight)
    ctx.kinds, ctx.has_residual = _kinds(x, residual), residual is not None


def _rms_backward(ctx: Any, dy: Tensor, dtotal: Tensor, drstd: Tensor) -> tuple[Any, ...]:
    h, rstd, weight = ctx.saved_tensors
    wanted = weight is not None and ctx.needs_input_grad[1]
    dh, dweight = rms_norm_rows_backward(dy, h, rstd, weight, dtotal if ctx.has_residual else None, wanted)
    kind, kind_residual = ctx.kinds
    return dh.to(kind), dweight if wanted else None, dh.to(kind_residual) if ctx.has_residual else None, None


gradient(layer_norm_rows, _layer_backward, _keep_layer)
gradient(rms_norm_rows, _rms_backward, _keep_rms)


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.layer_norm`, computed in f32 by `nvdsl.layer_norm`. ``weight`` and ``bias`` may be of
    another type than ``input``."""
    flat, *parameters = _flat(input, normalized_shape, weight, bias)
    y: Tensor = layer_norm_rows(flat, *parameters, None, eps)[0]
    return y.reshape(input.shape)


def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """`torch.nn.functional.rms_norm`, computed in f32 by `nvdsl.rms_norm`. ``eps``: by default what 1 and the next
    number of the input's type are apart."""
    flat, factor = _flat(input, normalized_shape, weight)
    y: Tensor = rms_norm_rows(flat, factor, None, torch.finfo(input.dtype).eps if eps is None else eps)[0]
    return y.reshape(input.shape)


def add_layer_norm(
    input: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """``layer_norm(input + residual)`` over the last axis, and the sum, of the type of ``residual``; in one kernel."""
    y, total, _, _ = layer_norm_rows(input, weight, bias, residual, eps)
    return y, total


def add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """``rms_norm(input + residual)`` over the last axis, and the sum, of the type of ``residual``; in one kernel."""
    y, total, _ = rms_norm_rows(input, weight, residual, eps)
    return y, total


def _flat(x: Tensor, shape: int | Sequence[int], *parameters: Tensor | None) -> list[Tensor | None]:
    """The normalized axes as one. Raises ValueError where they are not the last ones."""
    axes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not axes or tuple(x.shape[-len(axes) :]) != axes:
        raise ValueError(f"normalized_shape={axes} is not the end of the input's shape, {tuple(x.shape)}")
    for parameter in parameters:
        if parameter is not None and tuple(parameter.shape) != axes:
            raise ValueError(f"a weight or bias of the shape {tuple(parameter.shape)} for normalized_shape={axes}")
    if len(axes) == 1:
        return [x, *parameters]
    return [x.flatten(-len(axes)), *(None if p is None else p.flatten() for p in parameters)]
