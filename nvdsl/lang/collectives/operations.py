"""What threads do with their values when they meet: sums, extremes, and operations of the user's own.

An `Operation` works on the leaves of a value (see `words`): ``combine`` takes those of earlier and of later threads.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.values import dtypes, scope, select
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Number

Leaves = Sequence[Value]


@dataclass(frozen=True)
class Operation:
    """``symmetric``: ``combine(a, b)`` and ``combine(b, a)`` are the same bits. ``redux``: the kind of ``redux.sync``
    that does it with 32-bit integers, signed and unsigned. ``vote``: the kind of ``vote.sync`` that does it with
    conditions. ``neutral``: the number that changes no other. ``extreme``: see `extreme_and_index`.
    ``after``: of an operation that counts conditions, 0 or 1 of each thread, what adds up the counts."""

    name: str
    combine: Callable[[Leaves, Leaves], Leaves]
    symmetric: bool = True
    redux: tuple[str, str] | None = None
    vote: str = ""
    neutral: Callable[[Value], Number] | None = None
    extreme: Operation | None = None
    after: Operation | None = None


def _each(name: str, one: Callable[[Any, Any], Any], **more: Any) -> Operation:
    return Operation(name, lambda a, b: [one(x, y) for x, y in zip(a, b, strict=True)], **more)


SUM = _each("sum", operator.add, redux=("ADD", "ADD"), neutral=lambda like: 0)
MAX = _each("max", select.max, redux=("MAX", "UMAX"), neutral=lambda like: _lowest(like))
MIN = _each("min", select.min, redux=("MIN", "UMIN"), neutral=lambda like: _highest(like))
COUNT = replace(SUM, name="count", after=SUM)
ANY = _each("any", operator.or_, vote="any")
ALL = _each("all", operator.and_, vote="all")
_KNOWN: dict[Any, Operation] = {operator.add: SUM, select.max: MAX, select.min: MIN}


def _lowest(like: Value) -> Number:
    return -float("inf") if like.dtype.is_float else like.dtype.min


def _highest(like: Value) -> Number:
    return float("inf") if like.dtype.is_float else like.dtype.max


def widened(x: Value) -> Value:
    """How ``x`` is summed: f16 and bf16 in f32, bool as i32, every other type as itself."""
    if x.dtype in (dtypes.f16, dtypes.bf16):
        return dtypes.f32(x)
    return dtypes.i32(x) if x.dtype is dtypes.bool_ else x


def adding(x: Leaves) -> Operation:
    """What sums ``x``."""
    return COUNT if all(leaf.dtype is dtypes.bool_ for leaf in x) else SUM


def narrowed(x: Value, like: Value) -> Value:
    """The sum ``x`` in the type of what was summed."""
    return like.dtype(x) if like.dtype.is_float and x.dtype is not like.dtype else x


def extreme_and_index(op: Operation) -> Operation:
    """Of pairs (value, index): the extreme value of ``op``, and the least index of those that have it."""

    def combine(a: Leaves, b: Leaves) -> Leaves:
        (value,) = op.combine(a[:1], b[:1])
        return [value, select.min(*(index_of(value, *pair) for pair in (a, b)))]

    return Operation(f"arg{op.name}", combine, extreme=op)


def index_of(extreme: Value, value: Value, index: Value) -> Value:
    """``index`` where ``value`` is the extreme, else the highest one there is."""
    return select.select(is_extreme(value, extreme), index, as_value(index.dtype.max, index))


def is_extreme(x: Value, extreme: Value) -> Value:
    """Whether ``x`` is the extreme of the values that it was found among: NaN is, if there was nothing else."""
    same = x == extreme
    return same | (extreme != extreme) if x.dtype.is_float else same


def of_the_users(what: str, function: Any, build: Callable[[Leaves], Any], take: Any) -> Operation:
    """The operation that ``function`` does with two values. ``build`` and ``take``: leaves to a value and back."""
    if function in _KNOWN:
        return _KNOWN[function]
    if not callable(function):
        raise trace_error(
            f"{what} with {function!r}",
            rule="the operation is a function of two values, of earlier and of later threads, to one",
            fix=f"{what}(x, lambda a, b: a * b)",
        )
    called = scope.current(what).converted(function)

    def combine(a: Leaves, b: Leaves) -> Leaves:
        found = take(called(build(a), build(b)), what)[0]
        if len(found) != len(a):
            raise _other_type(what, f"{len(found)} values", f"{len(a)}")
        for x, y in zip(found, a, strict=True):
            if x.dtype is not y.dtype or x.shape != y.shape:
                raise _other_type(what, _described(x), _described(y))
        return found

    return Operation(what, combine, symmetric=False)


def _described(x: Value) -> str:
    return f"{x.shape[0]} x {x.dtype.name}" if x.shape else x.dtype.name


def _other_type(what: str, got: str, given: str) -> Exception:
    return trace_error(
        f"the operation of {what} makes {got} of {given}",
        rule="its result takes the place of its arguments: it has their types",
        fix="convert in the operation, nv.f16(a + b), or convert the values before",
    )
