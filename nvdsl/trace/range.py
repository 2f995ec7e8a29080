"""``nv.range``: the iterable whose `for` loop is traced."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Int, PlainInt


class Range:
    """``nv.range(stop)``, ``nv.range(start, stop)``, ``nv.range(start, stop, step)``: a traced loop.

        for k in nv.range(K // 64):     # one scf.for; the body is traced once
            acc += A[k] @ B[k]

    Bounds are Python ints or traced integers, counted as Python's ``range`` does; the loop is traced even
    if all are Python ints (``range`` is the loop that Python runs, and unrolls). The loop variable is i32;
    index if a bound is index, i64 or u64 if one is, u32 if one is u32 and none wider (C's rules). A traced
    ``step`` must be positive: that is not checked. A negative Python step counts down, on signed bounds.

    ``unroll``: False keeps the backend from unrolling, True unrolls the whole loop, an int ``n`` unrolls
    ``n`` times; without it the backend decides (LLVM's ``llvm.loop.unroll`` metadata).

    Raises ``TraceError`` for a step of 0 and for bounds that are no integers.
    """

    def __init__(self, *bounds: PlainInt | Value, unroll: int | bool | None = None) -> None:
        if not 1 <= len(bounds) <= 3:
            raise TypeError(f"nv.range expected 1 to 3 arguments, got {len(bounds)}")
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.stop, self.step = (_bound(x) for x in (start, stop, step))
        self.unroll = unroll
        self.dtype = _common([x.dtype for x in (self.start, self.stop, self.step) if isinstance(x, Value)])
        if isinstance(self.step, int) and self.step == 0:
            raise trace_error("nv.range with step 0", rule="the step is not zero, as for Python's range")
        if self.counts_down and self.dtype.is_unsigned:
            raise trace_error(
                f"nv.range counts down on {self.dtype.name}",
                rule="a negative step needs signed bounds",
                fix="convert the bounds with nv.i32(x), or count up and subtract",
            )
        if unroll is not None and unroll is not False and unroll < 1:
            raise trace_error(f"nv.range(unroll={unroll!r})", rule="unroll is True, False or a positive int")

    @property
    def counts_down(self) -> bool:
        """Whether the step is a negative Python int."""
        return isinstance(self.step, int) and self.step < 0

    def bounds(self) -> tuple[Value, Value, Value]:
        """Lower bound, upper bound and step of the scf.for. Counting down runs over the negated numbers."""
        bounds = (self.start, self.stop, self.step)
        if self.counts_down:
            bounds = (-self.start, -self.stop, -self.step)
        start, stop, step = (self.dtype(x) if isinstance(x, Value) else as_value(x, like=self.dtype) for x in bounds)
        return start, stop, step

    def item(self, counter: Value) -> Value:
        """The loop variable, from the scf.for's."""
        return -counter if self.counts_down else counter

    def annotation(self) -> ir.Attribute | None:
        """The op's loop annotation, which survives the lowering; None where ``unroll`` is not given."""
        if self.unroll is None:
            return None
        if self.unroll is True:
            hint = "full = true"
        else:
            hint = f"count = {self.unroll} : i32" if self.unroll > 1 else "disable = true"
        return ir.Attribute.parse(f"#llvm.loop_annotation<unroll = <{hint}>>")

    def __iter__(self) -> Iterator[Value]:
        raise trace_error(
            "nv.range outside of a traced `for` statement",
            rule="`for x in nv.range(n):` is traced in functions that @nv.jit or @nv.kernel decorates and in "
            "those they call; comprehensions, generators, list(), zip() and enumerate() iterate in Python",
            fix="write a `for` statement in such a function, or use range(n) over Python ints",
        )

    __reversed__ = __iter__


def _bound(x: PlainInt | Value) -> Int:
    if isinstance(x, Value):
        if x.shape or x.dtype.kind not in ("int", "index"):
            raise _no_integer(x, f"a value of type {x.dtype.name}")
        return x
    if isinstance(x, ir.Value):
        raise _no_integer(x, f"a value of type {x.type}")
    try:
        return operator.index(x)
    except TypeError:
        raise _no_integer(x, repr(x)) from None


def _no_integer(x: object, what: str) -> Exception:
    return trace_error(
        f"nv.range over {what}",
        rule="the bounds of nv.range are integers: Python's, or traced",
        fix="convert it with nv.i32(x)",
    )


def _common(found: list[DType]) -> DType:
    if not found:
        return dtypes.i32
    wide = reduce(lambda a, b: dtypes.common(a, b) or a, found)
    return wide if wide.bits >= 32 else dtypes.u32 if wide.is_unsigned else dtypes.i32
