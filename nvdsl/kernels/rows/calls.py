"""``nv.softmax``, ``nv.log_softmax``, ``nv.layer_norm``, ``nv.rms_norm``: over the last axis, for any leading axes."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.rows import kernels
from nvdsl.kernels.rows.argument import Rows
from nvdsl.kernels.rows.config import MOST_COLUMNS, choose
from nvdsl.trace import decorated

A = TypeVar("A", bound=ArrayLike)


@at_call
def softmax(x: A, out: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None) -> A:
    """``exp(x) / sum(exp(x))`` over the last axis; returns ``out``.

    ``x`` is an array of f16, bf16 or f32 with up to 262,144 elements in a row, whose elements lie side by side, and any
    number of rows at even distances. It is computed in f32. ``out`` has its shape and one of these types, and may be
    ``x`` itself; None makes a new array of the type of ``x``. A row with +inf or NaN, or of -inf alone, gives NaN.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("softmax", kernels.softmax, x, {}, out, (), stream, target)


@at_call
def log_softmax(x: A, out: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None) -> A:
    """``x - log(sum(exp(x)))`` over the last axis; returns ``out``. For arrays and special values see `softmax`.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("log_softmax", kernels.log_softmax, x, {}, out, (), stream, target)


@at_call
def layer_norm(
    x: A,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    out: ArrayLike | None = None,
    *,
    eps: float = 1e-5,
    stream: Stream | None = None,
    target: str | None = None,
) -> A:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last axis; returns ``out``.

    The variance is the mean of squared deviations (divided by n). It is taken from deviations from the mean, in f32, so
    rows may be far from zero. ``weight`` and ``bias`` are one row each, of f16, bf16 or f32. For arrays see `softmax`.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("layer_norm", kernels.layer_norm, x, {"weight": weight, "bias": bias}, out, (eps,), stream, target)


@at_call
def rms_norm(
    x: A,
    weight: ArrayLike | None = None,
    out: ArrayLike | None = None,
    *,
    eps: float = 1e-6,
    stream: Stream | None = None,
    target: str | None = None,
) -> A:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last axis; returns ``out``.

    ``weight`` is one row, of f16, bf16 or f32. It is computed in f32. For arrays see `softmax`.

    Raises ArgumentError for arrays that don't fit.
    """
    return _run("rms_norm", kernels.rms_norm, x, {"weight": weight}, out, (eps,), stream, target)


def _run(
    what: str,
    kernel: Any,
    x: Any,
    parameters: dict[str, Any],
    out: Any,
    numbers: tuple[float, ...],
    stream: Stream | None,
    target: str | None,
) -> Any:
    decorated.no_call(what)
    rows = Rows(Argument.of("x", x))
    if rows.cols > MOST_COLUMNS:
        raise ArgumentError(f"rows of {rows.cols:,} elements", rule=f"a row has at most {MOST_COLUMNS:,} elements")
    others = {name: None if array is None else _parameter(name, array, rows) for name, array in parameters.items()}
    into = Rows(Argument.output("out", out, rows.argument, rows.shape, rows.dtype))
    into.argument.check_apart(rows.argument, or_same=True)
    for other in others.values():
        if other is not None:
            into.argument.check_apart(other.argument)
    if rows.rows:
        arrays = [rows, into, *(other for other in others.values() if other is not None)]
        itemsize = max(rows.dtype.bytes, into.dtype.bytes)
        multiple = math.gcd(*(array.multiple for array in arrays))
        config = choose(rows.cols, itemsize, multiple, batched=len(arrays) > 2)
        given = [None if other is None else other.argument.view() for other in others.values()]
        kernel(rows.given, into.given, *given, *numbers, config=config, stream=stream, target=target)
    return into.argument.result()


def _parameter(name: str, array: Any, rows: Rows) -> Rows:
    """One row for all."""
    found = Rows(Argument.of(name, array))
    if found.shape != (rows.cols,):
        raise ArgumentError(
            f"{name} has the shape {found.shape}", rule=f"it is one row of x, which has {rows.cols} elements"
        )
    return found
