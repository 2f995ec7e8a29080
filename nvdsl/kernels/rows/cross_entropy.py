"""``nv.cross_entropy`` and its gradient: over the last axis of logits, for any leading axes."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.driver.stream import Stream
from nvdsl.errors import ArgumentError
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.rows import cross_entropy_kernels as kernels
from nvdsl.kernels.rows.argument import PerRow, Rows, check_apart, configuration, results, view
from nvdsl.kernels.rows.norm import Asked
from nvdsl.trace import decorated

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
    decorated.no_call("cross_entropy")
    rows, classes = _logits(x, labels, label_smoothing, reduction)
    shape = rows.shape[:-1] if reduction == "none" else ()
    loss = Argument.output("out", out, rows.argument, shape, nv.f32)
    losses = PerRow(loss, rows) if reduction == "none" else None
    if loss.spec.dtype is not nv.f32:
        raise ArgumentError(f"out is of {loss.spec.dtype.name}", rule="its elements are f32")
    gradient = None if grad is None or grad is False else rows.result("grad", grad, rows.dtype)
    logarithm = PerRow.output("lse", lse, rows)
    result = _Scalar(loss)
    check_apart([result, gradient, logarithm], [classes], [rows])
    views = [view(each) for each in (rows, classes, losses, None if losses else result, logarithm, gradient)]
    kernels.cross_entropy(
        *views, ignore_index, label_smoothing, z_loss,
        smooth=label_smoothing != 0, mean=reduction == "mean", config=configuration(rows, [gradient]),
        stream=stream, target=target,
    )  # fmt: skip
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
    decorated.no_call("cross_entropy_backward")
    rows, classes = _logits(x, labels, label_smoothing, reduction)
    logarithm = PerRow(Argument.of("lse", lse), rows)
    gradient = Argument.of("dloss", dloss)
    slopes: PerRow | _Scalar = PerRow(gradient, rows) if reduction == "none" else _Scalar(gradient)
    if gradient.spec.dtype is not nv.f32:
        raise ArgumentError(f"dloss is of {gradient.spec.dtype.name}", rule="its elements are f32")
    into = rows.result("dx", dx, rows.dtype)
    check_apart([into], [classes, logarithm, slopes], [rows])
    given = slopes.view() if isinstance(slopes, PerRow) else slopes.repeated(rows.rows)
    if rows.rows:
        kernels.cross_entropy_backward(
            given, rows.view(), classes.view(), logarithm.view(), into.view(), ignore_index, label_smoothing, z_loss,
            smooth=label_smoothing != 0, mean=reduction == "mean", config=configuration(rows, [into]),
            stream=stream, target=target,
        )  # fmt: skip
    return into.argument.result()


class _Scalar:
    """A number for all rows, of the shape ()."""

    def __init__(self, argument: Argument) -> None:
        self.argument = argument

    def view(self) -> Any:
        return self.argument.view((1,))

    def repeated(self, rows: int) -> Any:
        """The same number for each row."""
        if self.argument.spec.shape != ():
            raise ArgumentError(
                f"dloss has the shape {self.argument.spec.shape}", rule="the loss is one number, of the shape ()"
            )
        return self.argument.view((rows,), (0,))


def _logits(x: Any, labels: Any, smoothing: float, reduction: str) -> tuple[Rows, PerRow]:
    rows = Rows.of("x", x)
    if reduction not in _REDUCTIONS:
        raise ArgumentError(f"reduction={reduction!r}", rule=f"it is one of {', '.join(_REDUCTIONS)}")
    if not 0.0 <= smoothing <= 1.0:
        raise ArgumentError(f"label_smoothing={smoothing}", rule="it is a part of 1: from 0 to 1")
    return rows, PerRow(Argument.of("labels", labels), rows, _LABELS)
