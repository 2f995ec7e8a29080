"""``nv.layer_norm``, ``nv.rms_norm`` and their gradients: over the last axis, for any leading axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError, NvdslError
from nvdsl.errors.tracebacks import at_call, for_user
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.gemm.launch import resident_clusters, sms
from nvdsl.kernels.options import MOST_OF_F32, finite
from nvdsl.kernels.options import dtype as element_type
from nvdsl.kernels.repeated import Repeated
from nvdsl.kernels.rows import norm_backward_kernels, norm_kernels
from nvdsl.kernels.rows.argument import (
    FLOATS,
    PerRow,
    Rows,
    Vector,
    asked,
    check_apart,
    configuration,
    persistent,
    results,
)
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.trace import decorated

_MOST_THREADS = 768
"""On an SM, that store rows as they are beside the result."""

Asked = ArrayLike | bool | None
"""An output beside the first one: an array to write to, True for a new one, None or False for none."""

_FORWARD = Repeated(
    "x weight bias out residual residual_out mean rstd scale", outputs="out residual_out mean rstd scale"
)
_BACKWARD = Repeated("dy x mean rstd weight dx dresidual dweight dbias", outputs="dx dweight dbias")


def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    out: ArrayLike | None = None,
    residual: ArrayLike | None = None,
    residual_out: Asked = None,
    mean: Asked = None,
    rstd: Asked = None,
    scale: Asked = None,
    out_dtype: Any = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """``(h - mean(h)) / sqrt(variance(h) + eps) * weight + bias`` with ``h = x + residual``, over the last axis.

    The variance is the mean of squared deviations (divided by n). It is taken from deviations from the mean, in f32, so
    rows may be far from zero. ``weight`` and ``bias`` are one row each, of f16, bf16 or f32. ``residual`` has the shape
    of ``x``. For arrays see `softmax`; their types may differ.

    ``out`` has the shape of ``x`` and may be ``x`` or ``residual`` itself. None makes a new array of ``out_dtype``, by
    default the type of ``x``. Further outputs are arrays to write to, or True for new ones:

    * ``residual_out``: ``h``, rounded to its type (that of ``residual`` for a new one), and what is normalized is this
      array; may be ``x`` or ``residual``
    * ``mean``, ``rstd``: f32, one number for each row, of the shape ``x.shape[:-1]``: the mean of ``h``, and
      ``1 / sqrt(variance + eps)``. `layer_norm_backward` takes them.
    * ``scale``: f32, one number for each row, where ``out`` is e4m3: ``out * scale[..., None]`` is the result. It is
      the row's greatest magnitude divided by 448, or 1 where that is below 1e-30. An e4m3 output always has a scale.

    Returns ``out``, or a tuple of ``out`` and those of ``residual_out``, ``mean``, ``rstd``, ``scale`` that were asked
    for, in this order. Raises ArgumentError for arrays that don't fit.
    """
    try:
        arrays: tuple[Any, ...] = x, weight, bias, out
        if not (residual is residual_out is mean is rstd is scale is None):
            arrays += residual, residual_out, mean, rstd, scale
        return _forward("layer_norm", arrays, eps, out_dtype, True, stream, target)
    except NvdslError as error:
        raise for_user(error) from error.__cause__  # as `at_call` does, which each repeated call would pay for


def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    eps: float = 1e-6,
    *,
    bias: ArrayLike | None = None,
    out: ArrayLike | None = None,
    residual: ArrayLike | None = None,
    residual_out: Asked = None,
    rstd: Asked = None,
    scale: Asked = None,
    out_dtype: Any = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """``h / sqrt(mean(h**2) + eps) * weight + bias`` with ``h = x + residual``, over the last axis.

    It is computed in f32. ``rstd`` is ``1 / sqrt(mean(h**2) + eps)``; there is no ``mean``. For arrays, further outputs
    and what is returned see `layer_norm`. Raises ArgumentError for arrays that don't fit.
    """
    try:
        arrays: tuple[Any, ...] = x, weight, bias, out
        if not (residual is residual_out is rstd is scale is None):
            arrays += residual, residual_out, None, rstd, scale
        return _forward("rms_norm", arrays, eps, out_dtype, False, stream, target)
    except NvdslError as error:
        raise for_user(error) from error.__cause__


@at_call
def layer_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    mean: ArrayLike,
    rstd: ArrayLike,
    weight: ArrayLike | None = None,
    dx: ArrayLike | None = None,
    *,
    dresidual: ArrayLike | None = None,
    dweight: Asked = True,
    dbias: Asked = True,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """The gradients of `layer_norm`; returns ``(dx, dweight, dbias)``.

    ``dy``: the gradient of the result. ``x``: what was normalized (with a residual, ``residual_out``). ``mean`` and
    ``rstd``: as `layer_norm` gave them. ``dresidual``, of the shape of ``x``, is the gradient of ``residual_out`` from
    elsewhere, and is added. ``dx`` is the gradient of ``x`` and of ``residual``; it may be ``dy``, ``x`` or
    ``dresidual``. None makes a new array of the type of ``x``.

    ``dweight`` and ``dbias`` are sums over all rows, added up in f32 in the same order in every run. They are arrays to
    write to (of f16, bf16 or f32), True for new ones of the type of ``weight`` (f32 without one), or False for none;
    these are left out of what is returned. Raises ArgumentError for arrays that don't fit.
    """
    arrays = dy, x, mean, rstd, weight, dx, dresidual, dweight, dbias
    return _backward("layer_norm_backward", arrays, True, stream, target)


@at_call
def rms_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    rstd: ArrayLike,
    weight: ArrayLike | None = None,
    dx: ArrayLike | None = None,
    *,
    dresidual: ArrayLike | None = None,
    dweight: Asked = True,
    dbias: Asked = False,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """The gradients of `rms_norm`; returns ``(dx, dweight)``, with ``dbias`` also that one, without both ``dx`` alone.
    For the arguments see `layer_norm_backward`."""
    arrays = dy, x, None, rstd, weight, dx, dresidual, dweight, dbias
    return _backward("rms_norm_backward", arrays, False, stream, target)


def _forward(
    what: str,
    given: tuple[Any, ...],
    eps: float,
    out_dtype: Any,
    centered: bool,
    stream: Stream | None,
    target: str | None,
) -> Any:
    if eps.__class__ is not float or not 0.0 <= eps <= MOST_OF_F32:
        fix = "pass arrays to write to by name: out=..." if hasattr(eps, "shape") else "eps=1e-5, say"
        eps = finite("eps", eps, 0.0, fix)
    arrays, rest = given if len(given) == 4 else asked(given, 4), (centered, out_dtype, target)
    found = _FORWARD.again(arrays, rest, stream, (eps,))
    if found is not None:
        return found
    decorated.no_call(what)
    x, weight, bias, out, residual, residual_out, mean, rstd, scale = (*arrays, *[None] * 5)[:9]
    rows = Rows.of("x", x)
    factor, summand = Vector.of("weight", weight, rows), Vector.of("bias", bias, rows)
    other = None if residual is None else rows.like("residual", residual)
    into = rows.result("out", out, element_type("out_dtype", out_dtype) or rows.dtype, (*FLOATS, nv.e4m3))
    if out is not None and out_dtype is not None and into.dtype is not element_type("out_dtype", out_dtype):
        raise ArgumentError(
            f"out is of {into.dtype.name}, and out_dtype={out_dtype}",
            rule="out_dtype is the type of a new array",
            fix="leave out_dtype out",
        )
    total = None
    if residual_out is not None:
        total = rows.result("residual_out", residual_out, (other or rows).dtype)
    if into.dtype is nv.e4m3:
        scale = True if scale is None else scale
    if (into.dtype is nv.e4m3) != (scale is not None):
        raise ArgumentError(
            f"scale={scale if isinstance(scale, bool) else 'an array'} and out of {into.dtype.name}",
            rule="an output of e4m3 has a scale for each row, and no other output has one",
            fix="pass out_dtype=nv.e4m3, or leave scale out",
        )
    numbers = [PerRow.output(name, each, rows) for name, each in (("mean", mean), ("rstd", rstd), ("scale", scale))]
    apart = check_apart([into, total, *numbers], [factor, summand], [rows, other])
    if rows.rows:
        passes = 2 + centered + 2 * (into.dtype is nv.e4m3)  # e4m3: once for the greatest, once more for results
        config = configuration([rows, other], [into, factor, summand, total], passes=passes)
        if total is not None and other is None:
            config = beside_rows(config)
        values = rows, into, factor, summand, other, total, *numbers, eps
        constants = {"centered": centered, "config": config}
        _FORWARD.run(norm_kernels.norm, values, constants, arrays, rest, stream, target, apart)
    return results(into, total, *numbers)


def beside_rows(config: RowsConfig) -> RowsConfig:
    """The configuration, with registers for the address of rows that are stored, too; a residual's has them."""
    return replace(config, blocks_per_sm=min(config.blocks_per_sm, max(_MOST_THREADS // config.threads, 1)))


def _backward(what: str, given: tuple[Any, ...], centered: bool, stream: Stream | None, target: str | None) -> Any:
    arrays, rest = asked(given, 2), (centered, target)
    found = _BACKWARD.again(arrays, rest, stream)
    if found is not None:
        return found
    decorated.no_call(what)
    dy, x, mean, rstd, weight, dx, dresidual, dweight, dbias = arrays
    rows = Rows.of("x", x)
    gradient = rows.like("dy", dy)
    numbers = [PerRow(Argument.of("mean", mean), rows) if centered else None, PerRow(Argument.of("rstd", rstd), rows)]
    factor = Vector.of("weight", weight, rows)
    beyond = None if dresidual is None else rows.like("dresidual", dresidual)
    into = rows.result("dx", dx, rows.dtype)
    kind = nv.f32 if factor is None else factor.dtype
    sums = [Vector.output(name, each, rows, kind) for name, each in (("dweight", dweight), ("dbias", dbias))]
    apart = check_apart([into, *sums], [factor, *numbers], [rows, gradient, beyond])
    config = persistent([rows, gradient, beyond], [into, factor, *sums], factor)
    blocks = resident_clusters(config.cluster, sms(target)) * config.blocks_per_sm
    blocks = max(blocks // config.period, 1) * config.period
    values = gradient, rows, into, *numbers, factor, beyond, *sums
    constants = {"blocks": blocks, "config": config}
    _BACKWARD.run(norm_backward_kernels.norm_backward, values, constants, arrays, rest, stream, target, apart)
    return results(into, *sums)
