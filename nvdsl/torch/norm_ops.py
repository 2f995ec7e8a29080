"""layer_norm and rms_norm, and both of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import nvdsl as nv
from nvdsl.torch.operators import Tensor, gradient, like, nothing, of_tensors, operator, rows

_EPS = torch.finfo(torch.float32).eps


def _made(x: Tensor, weight: Any, bias: Any, residual: Any, eps: float, centered: bool) -> tuple[Tensor, ...]:
    total = nothing(x) if residual is None else like(residual)
    numbers = [like(x, x.shape[:-1], dtype=torch.float32) for _ in range(2)]
    return like(x), total, numbers[0] if centered else nothing(x), numbers[1]


@operator(
    "(Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, float eps, bool centered)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    _made,
)
def norm_rows(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, centered: bool
) -> tuple[Tensor | None, ...]:
    """LayerNorm where it is ``centered``, else RMSNorm: result, x + residual, mean, rstd."""
    return _norm(True, x, weight, bias, residual, eps, centered)


def _alone(x: Tensor, *rest: Any) -> tuple[Tensor | None, ...]:
    return _norm(None, x, *rest)


def _norm(
    saved: bool | None, x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float,
    centered: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """``saved``: mean and rstd are asked for."""
    x, weight, bias = rows(x), _side_by_side(weight), _side_by_side(bias)
    total: bool | None = None
    if residual is not None:
        residual, total = rows(residual), True
    if centered:
        found = nv.layer_norm(x, weight, bias, eps, residual=residual, residual_out=total, mean=saved, rstd=saved)
    else:
        found = nv.rms_norm(x, weight, eps, bias=bias, residual=residual, residual_out=total, rstd=saved)
    if found.__class__ is not tuple:
        return found, None, None, None
    y, *more = found
    return y, more.pop(0) if total else None, more[0] if saved and centered else None, more[-1] if saved else None


def _slopes(dy: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    *_, weight, dresidual, for_weight, for_bias = rest
    kind = torch.float32 if weight is None else weight.dtype
    return like(x), *(like(x, x.shape[-1:], dtype=kind) if asked else nothing(x) for asked in (for_weight, for_bias))


@operator(
    "(Tensor dy, Tensor x, Tensor? mean, Tensor rstd, Tensor? weight, Tensor? dresidual, bool for_weight,"
    " bool for_bias) -> (Tensor, Tensor, Tensor)",
    _slopes,
)
def norm_rows_backward(
    dy: Tensor, x: Tensor, mean: Tensor | None, rstd: Tensor, weight: Tensor | None, dresidual: Tensor | None,
    for_weight: bool, for_bias: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of RMSNorm where there is no ``mean``."""
    dy, x, weight = rows(dy), rows(x), _side_by_side(weight)
    dresidual = None if dresidual is None else rows(dresidual)
    if mean is None:
        found = nv.rms_norm_backward(dy, x, rstd, weight, dresidual=dresidual, dweight=for_weight, dbias=for_bias)
    else:
        found = nv.layer_norm_backward(
            dy, x, mean, rstd, weight, dresidual=dresidual, dweight=for_weight, dbias=for_bias
        )
    if found.__class__ is not tuple:
        return found, None, None
    return found[0], found[1] if for_weight else None, found[-1] if for_bias else None


def _side_by_side(row: Tensor | None) -> Tensor | None:
    return None if row is None else row.contiguous()


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, residual, _, centered = inputs
    _, total, mean, rstd = output
    ctx.save_for_backward(x if residual is None else total, mean if centered else None, rstd, weight)
    ctx.kinds = None if residual is None else (x.dtype, residual.dtype)
    ctx.kind_bias = None if bias is None else bias.dtype
    ctx.set_materialize_grads(False)  # else torch makes zeros for the results that nobody uses


def _backward(ctx: Any, dy: Tensor | None, dtotal: Tensor | None, *rest: Any) -> tuple[Any, ...]:
    h, mean, rstd, weight = ctx.saved_tensors
    wanted, kinds, kind_bias = ctx.needs_input_grad, ctx.kinds, ctx.kind_bias
    for_weight, for_bias = weight is not None and wanted[1], kind_bias is not None and wanted[2]
    if dy is None:  # only the sum is used
        dy = torch.zeros_like(h, dtype=kinds[0])
    beyond = None if kinds is None else dtotal
    dh, dweight, dbias = norm_rows_backward(dy, h, mean, rstd, weight, beyond, for_weight, for_bias)
    if for_bias:
        dbias = _of(dbias, kind_bias)
    sums = dweight if for_weight else None, dbias if for_bias else None
    if kinds is None:
        return dh, *sums, None, None, None
    return _of(dh, kinds[0]), *sums, _of(dh, kinds[1]), None, None


def _of(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else x.to(dtype)


gradient(norm_rows, _backward, _keep, _alone, public=2)


@of_tensors
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
    y: Tensor = norm_rows(flat, *parameters, None, eps, True)[0]
    return y if flat is input else y.reshape(input.shape)


@of_tensors
def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """`torch.nn.functional.rms_norm`, computed in f32 by `nvdsl.rms_norm`. ``eps``: by default what 1 and the next
    number of f32 are apart, for any input, as torch has it. ``bias``, which torch's has not, is added to the result."""
    flat, *parameters = _flat(input, normalized_shape, weight, bias)
    y: Tensor = norm_rows(flat, *parameters, None, _EPS if eps is None else eps, False)[0]
    return y if flat is input else y.reshape(input.shape)


@of_tensors
def add_layer_norm(
    input: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """``layer_norm(input + residual)`` over the last axis, and the sum, of the type of ``residual``; in one kernel."""
    y, total = norm_rows(input, weight, bias, residual, eps, True)[:2]
    return y, total


@of_tensors
def add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """``rms_norm(input + residual)`` over the last axis, and the sum, of the type of ``residual``; in one kernel."""
    y, total = norm_rows(input, weight, None, residual, eps, False)[:2]
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
