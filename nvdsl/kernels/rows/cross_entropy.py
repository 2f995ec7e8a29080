"""``nv.cross_entropy`` and its gradient: over the last axis of logits, for any leading axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.options import choice, finite, real, whole
from nvdsl.kernels.repeated import Repeated
from nvdsl.kernels.rows import cross_entropy_kernels as kernels
from nvdsl.kernels.rows.argument import PerRow, Rows, asked, check_apart, configuration, results
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.norm import Asked
from nvdsl.trace import decorated

_FORWARD = Repeated("x labels out grad lse", outputs="out grad lse")
_BACKWARD = Repeated("dloss x labels lse dx", outputs="dx")

_MOST_THREADS = 1024
"""On an SM, that smooth labels."""

_REDUCTIONS = ("mean", "sum", "none")
_LABELS = (nv.i32, nv.i64)


@at_call
def cross_entropy(
    x: ArrayLike,
    labels: ArrayLike,
    out: ArrayLike | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    grad: Asked = None,
    lse: Asked = None,
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """The cross entropy of rows of logits ``x`` and their ``labels``.

    A row's loss is ``(1 - label_smoothing) * (lse - x[label]) + label_smoothing * (lse - mean(x)) + z_loss * lse**2``,
    where ``lse = log(sum(exp(x)))``. It is 0 where the label is ``ignore_index``, and NaN where there is no such
    column.

    ``x`` is (..., classes), of f16, bf16 or f32 (for arrays see `softmax`), and ``labels`` is (...), of i32 or i64.
    ``out`` is f32. With ``reduction="none"`` it is (...), the losses; with "sum" it is (), their sum; with "mean" that
    divided by the number of rows that are not ignored, NaN where all are (as in torch). None makes a new array.

    Further outputs are arrays to write to, or True for new ones: ``grad``, of the shape of ``x`` and by default of its
    type, the gradient of ``out`` (of its sum, with reduction "none"), computed by the same kernel; it may be ``x``
    itself. ``lse``: (...), f32, for `cross_entropy_backward`. Returns ``out``, or a tuple of ``out`` and those of
    ``grad`` and ``lse`` that were asked for. Raises ArgumentError for arrays and numbers that don't fit.
    """
    arrays, numbers = asked((x, labels, out, grad, lse), 2), _numbers(ignore_index, label_smoothing, z_loss)
    rest = (reduction, label_smoothing != 0, numbers[0].bit_length() < 32, target)
    found = _FORWARD.again(arrays, rest, stream, numbers)
    if found is not None:
        return found
    decorated.no_call("cross_entropy")
    rows, classes = _logits(x, labels, reduction)
    shape = rows.shape[:-1] if reduction == "none" else ()
    loss = Argument.output("out", out, rows.argument, shape, nv.f32)
    losses = PerRow(loss, rows) if reduction == "none" else None
    if loss.spec.dtype is not nv.f32:
        raise ArgumentError(f"out is of {loss.spec.dtype.name}", rule="its elements are f32", fix="pass it as f32")
    gradient = None if arrays[3] is None else rows.result("grad", grad, rows.dtype)
    logarithm = PerRow.output("lse", arrays[4], rows)
    result = _Scalar(loss)
    apart = check_apart([result, gradient, logarithm], [classes], [rows])
    given = rows, classes, losses, None if losses else result, logarithm, gradient, *numbers
    config = configuration([rows], [gradient])
    config = smoothing(config) if rest[1] else config
    constants = {"smooth": rest[1], "mean": reduction == "mean", "config": config}
    _FORWARD.run(kernels.cross_entropy, given, constants, arrays, rest, stream, target, apart)
    return results(result, gradient, logarithm)


@at_call
def cross_entropy_backward(
    dloss: ArrayLike,
    x: ArrayLike,
    labels: ArrayLike,
    lse: ArrayLike,
    dx: ArrayLike | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    stream: Stream | None = None,
    target: str | None = None,
) -> Any:
    """The gradient of `cross_entropy` with respect to the logits; returns ``dx``.

    ``dloss`` is the gradient of its result, f32: one number for each row with ``reduction="none"``, else of shape ().
    ``lse``: as `cross_entropy` gave it. The other arguments are those of that call. ``dx`` has the shape of ``x`` and
    may be ``x`` itself; None makes a new array of its type. Raises ArgumentError for arrays that don't fit.
    """
    arrays, numbers = (dloss, x, labels, lse, dx), _numbers(ignore_index, label_smoothing, z_loss)
    rest = (reduction, label_smoothing != 0, numbers[0].bit_length() < 32, target)
    found = _BACKWARD.again(arrays, rest, stream, numbers)
    if found is not None:
        return found
    decorated.no_call("cross_entropy_backward")
    rows, classes = _logits(x, labels, reduction)
    logarithm = PerRow(Argument.of("lse", lse), rows)
    gradient = Argument.of("dloss", dloss)
    slopes: PerRow | _Scalar = PerRow(gradient, rows) if reduction == "none" else _Scalar(gradient, rows.rows)
    if gradient.spec.dtype is not nv.f32:
        kind = gradient.spec.dtype.name
        raise ArgumentError(f"dloss is of {kind}", rule="its elements are f32", fix="pass it as f32")
    if reduction != "none" and gradient.spec.shape != ():
        raise ArgumentError(
            f"dloss has the shape {gradient.spec.shape}", rule="the loss is one number, of the shape ()",
            fix='reduction="none" takes a number for each row',
        )
    into = rows.result("dx", dx, rows.dtype)
    apart = check_apart([into], [classes, logarithm, slopes], [rows])
    if rows.rows:
        constants = {"smooth": rest[1], "mean": reduction == "mean", "config": configuration([rows], [into])}
        given = slopes, rows, classes, logarithm, into, *numbers
        _BACKWARD.run(kernels.cross_entropy_backward, given, constants, arrays, rest, stream, target, apart)
    return into.argument.result()


class _Scalar:
    """A number for all rows, of the shape (). ``rows``: seen as so many times the same one."""

    def __init__(self, argument: Argument, rows: int | None = None) -> None:
        self.argument, self.rows = argument, rows

    def view(self) -> Any:
        return self.argument.view((1,)) if self.rows is None else self.argument.view((self.rows,), (0,))


def smoothing(config: RowsConfig) -> RowsConfig:
    """The configuration, with registers for one more sum."""
    if config.keep != "shared":
        return config
    return replace(config, blocks_per_sm=min(config.blocks_per_sm, max(_MOST_THREADS // config.threads, 1)))


def _numbers(ignore_index: int, label_smoothing: float, z_loss: float) -> tuple[int, float, float]:
    smoothing = real("label_smoothing", label_smoothing)
    if not 0.0 <= smoothing <= 1.0:
        raise ArgumentError(f"label_smoothing={label_smoothing}", rule="it is a part of 1: from 0 to 1")
    return whole("ignore_index", ignore_index), smoothing, finite("z_loss", z_loss, fix="z_loss=1e-4, say; 0 for none")


def _logits(x: Any, labels: Any, reduction: str) -> tuple[Rows, PerRow]:
    rows = Rows.of("x", x)
    choice("reduction", reduction, _REDUCTIONS)
    return rows, PerRow(Argument.of("labels", labels), rows, _LABELS)
