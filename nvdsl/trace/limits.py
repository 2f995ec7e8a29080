"""Loops and recursion that Python runs while it traces, and that don't end.

Each pass of such a loop adds ops. So a loop that goes on and on is found by the length of the block that it fills.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from nvdsl.errors import ArgumentError, TraceError, frames, trace_error
from nvdsl.mlir import ir
from nvdsl.trace.carry import Undefined

_OPS = 250_000  # of one block; ptxas takes minutes for a tenth of it
_EVERY = 256  # passes between two looks
_passes = 0


def limit() -> int:
    """How many ops one block may have: NVDSL_TRACE_LIMIT, or 250,000."""
    text = os.environ.get("NVDSL_TRACE_LIMIT", str(_OPS))
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"NVDSL_TRACE_LIMIT={text}", rule="a number of ops, 1 or more", fix="unset it: 250000")
    return int(text)


def count_pass() -> None:
    """One more pass of a loop that Python runs. Raises ``TraceError`` if the loop has traced too much."""
    global _passes
    _passes += 1
    if _passes % _EVERY == 0 and (ops := len(ir.InsertionPoint.current.block.operations)) > limit():
        raise trace_error(
            f"Python runs this loop while it traces, and has traced {ops:,} ops one after the other",
            rule="a loop over plain Python values is unrolled: each pass is traced anew (NVDSL_TRACE_LIMIT sets how "
            f"many ops one block may have, {_OPS:,} by default)",
            fix="write `for i in nv.range(n):`, or `while` on a traced variable, which starts as `i = nv.i32(0)`",
        )


def counted(iterable: Any) -> Any:
    """``iterable``, with its passes counted if there may be many."""
    if type(iterable) is Undefined or isinstance(iterable, ir.Value):
        return iterable
    short = type(iterable) in (range, list, tuple, dict, set, str) and len(iterable) < _EVERY
    return iterable if short else _counted(iterable)


def _counted(iterable: Any) -> Iterator[Any]:
    for item in iterable:
        yield item
        count_pass()


def endless() -> TraceError:
    """What is wrong with `while True:` that nothing leaves."""
    return trace_error(
        "`while` on a plain true condition, and nothing in the loop leaves it",
        rule="Python runs a loop on a plain condition while it traces: this one would be traced without end",
        fix="write `for i in nv.range(n):`, or `while` on a traced condition; a bool that the loop carries ends it: "
        "`done = nv.bool_(False)`, `while not done:`",
    )


def recursion(error: RecursionError) -> TraceError | None:
    """The error for a helper that calls itself without end; None if nobody did."""
    calls: collections.Counter[Any] = collections.Counter()
    lines: dict[Any, Any] = {}
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if frames.is_user(code.co_filename):
            calls[code] += 1
            lines.setdefault(code, frames.Where(code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    if not calls:
        return None
    (code, count), *_ = calls.most_common(1)
    return TraceError(
        f"`{code.co_qualname}` calls itself without end: {count} calls are being traced",
        where=lines[code],
        rule="a function that is called is traced where it is called, and of a traced `if` both branches are: a kernel "
        "has no recursion whose end is computed in it",
        fix="write a loop; recursion on plain Python numbers may stay",
    )
