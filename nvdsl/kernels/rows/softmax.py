"""``nv.softmax``, ``nv.log_softmax`` and their gradients: over the last axis, for any leading axes."""

from __future__ import annotations

from typing import Any, TypeVar

from nvdsl.driver.stream import Stream
from nvdsl.errors.tracebacks import at_call
from nvdsl.kernels.arraylike import ArrayLike
from nvdsl.kernels.repeated import Repeated
from nvdsl.kernels.rows import softmax_kernels as kernels
from nvdsl.kernels.rows.argument import Rows, check_apart, configuration
from nvdsl.trace import decorated

A = TypeVar("A", bound=ArrayLike)

_FORWARD, _BACKWARD = Repeated("x out", outputs="out"), Repeated("dy y dx", outputs="dx")


@at_call
def softmax(x: A, out: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None) -> A:
    """``exp(x) / sum(exp(x))`` over the last axis; returns ``out``.

    ``x`` is an array of f16, bf16 or f32 with up to 262,144 elements in a row, whose elements lie side by side, and any
    number of rows at even distances. It is computed in f32. ``out`` has its shape and one of these types, and may be
    ``x`` itself; None makes a new array of the type of ``x``. A row with +inf or NaN, or of -inf alone, gives NaN.

    Raises ArgumentError for arrays that don't fit.
    """
    return _forward("softmax", kernels.softmax, x, out, stream, target)


@at_call
def log_softmax(x: A, out: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None) -> A:
    """``x - log(sum(exp(x)))`` over the last axis; returns ``out``. For arrays and special values see `softmax`.

    Raises ArgumentError for arrays that don't fit.
    """
    return _forward("log_softmax", kernels.log_softmax, x, out, stream, target)


@at_call
def softmax_backward(
    dy: ArrayLike, y: A, dx: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None
) -> A:
    """The gradient of `softmax`: ``y * (dy - sum(dy * y))`` over the last axis; returns ``dx``.

    ``dy``: the gradient of the result ``y``. ``dx`` may be either of them; None makes a new array of the type of ``y``.
    For arrays see `softmax`. Raises ArgumentError for arrays that don't fit.
    """
    return _backward("softmax_backward", kernels.softmax_backward, dy, y, dx, stream, target)


@at_call
def log_softmax_backward(
    dy: ArrayLike, y: A, dx: ArrayLike | None = None, *, stream: Stream | None = None, target: str | None = None
) -> A:
    """The gradient of `log_softmax`: ``dy - exp(y) * sum(dy)`` over the last axis; returns ``dx``. See
    `softmax_backward`."""
    return _backward("log_softmax_backward", kernels.log_softmax_backward, dy, y, dx, stream, target)


def _forward(what: str, kernel: Any, x: Any, out: Any, stream: Stream | None, target: str | None) -> Any:
    calls, arrays, rest = _FORWARD, (x, out), (what, target)
    found = calls.again(arrays, rest, stream)
    if found is not None:
        return found
    decorated.no_call(what)
    rows = Rows.of("x", x)
    into = rows.result("out", out, rows.dtype)
    apart = check_apart([into], [], [rows])
    if rows.rows:
        config = configuration([rows], [into])
        calls.run(kernel, (rows, into), {"config": config}, arrays, rest, stream, target, apart)
    return into.argument.result()


def _backward(what: str, kernel: Any, dy: Any, y: Any, dx: Any, stream: Stream | None, target: str | None) -> Any:
    calls, arrays, rest = _BACKWARD, (dy, y, dx), (what, target)
    found = calls.again(arrays, rest, stream)
    if found is not None:
        return found
    decorated.no_call(what)
    rows = Rows.of("y", y)
    gradient, into = rows.like("dy", dy), rows.result("dx", dx, rows.dtype)
    apart = check_apart([into], [], [rows, gradient])
    if rows.rows:
        config = configuration([rows, gradient], [into])
        calls.run(kernel, (gradient, rows, into), {"config": config}, arrays, rest, stream, target, apart)
    return into.argument.result()
