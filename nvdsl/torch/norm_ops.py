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
    asked: dict[str, Any] = {"rstd": saved}
    if residual is not None:
        asked |= {"residual": rows(residual), "residual_out": True}
    if centered:
        found = nv.layer_norm(x, weight, bias, eps, mean=saved, **asked)
    else:
        found = nv.rms_norm(x, weight, eps, bias=bias, **asked)
    y, *more = found if found.__class__ is tuple else (found,)
    total = None if residual is None else more.pop(0)
    rstd = more.pop() if saved else None
    return y, total, more.pop() if more else None, rstd


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
    options: dict[str, Any] = {"dresidual": None if dresidual is None else rows(dresidual)}
    options |= {"dweight": for_weight, "dbias": for_bias}
    if mean is None:
        found = nv.rms_norm_backward(dy, x, rstd, weight, **options)
    else:
        found = nv.layer_norm_backward(dy, x, mean, rstd, weight, **options)
    dx, *sums = found if for_weight or for_bias else (found,)
    return dx, sums.pop(0) if for_weight else None, sums.pop(0) if for_bias else None


def _side_by_side(row: Tensor | None) -> Tensor | None:
    return None if row is None else row.contiguous()


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, residual, _, centered = inputs
    _, total, mean, rstd = output
    ctx.save_for_backward(x if residual is None else total, mean if centered else None, rstd, weight)
    ctx.kinds = [None if given is None else given.dtype for given in (x, residual, bias)]
    ctx.set_materialize_grads(False)  # else torch makes zeros for the results that nobody uses


def _backward(ctx: Any, dy: Tensor | None, dtotal: Tensor | None, *rest: Any) -> tuple[Any, ...]:
    h, mean, rstd, weight = ctx.saved_tensors
    if dy is None:  # only the sum is used
        dy = torch.zeros_like(h, dtype=ctx.kinds[0])
    kind, kind_residual, kind_bias = ctx.kinds
    wanted = weight is not None and ctx.needs_input_grad[1], kind_bias is not None and ctx.needs_input_grad[2]
    beyond = None if kind_residual is None else dtotal
    dh, dweight, dbias = norm_rows_backward(dy, h, mean, rstd, weight, beyond, *wanted)
    return (
        dh.to(kind), dweight if wanted[0] else None, dbias.to(kind_bias) if wanted[1] else None,
        None if kind_residual is None else dh.to(kind_residual), None, None,
    )  # fmt: skip


gradient(norm_rows, _backward, _keep, _alone)


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
    y, total, _, _ = norm_rows(input, weight, bias, residual, eps, True)
    return y, total


@of_tensors
def add_rms_norm(
    input: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """``rms_norm(input + residual)`` over the last axis, and the sum, of the type of ``residual``; in one kernel."""
    y, total, _, _ = norm_rows(input, weight, None, residual, eps, False)
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
