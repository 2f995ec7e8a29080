"""Run-time side of `and`, `or`, `not`, chained comparisons, `x if c else y` and `assert`.

Plain Python operands keep Python's rules: short circuit, and the operand itself as the result. A traced
operand is an i1 value. What stands right of it is evaluated under it, as in Python, but without a
branch where that makes no difference.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.errors.frames import caller
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import cf, gpu, scf
from nvdsl.trace.carry import Merge, describe, freeze
from nvdsl.trace.printing import Text, escaped, format_of
from nvdsl.trace.regions import Branching
from nvdsl.trace.watch import of_thunk
from nvdsl.values.traced import Value, as_value

Thunk = Callable[[], Any]  # a lambda, made by ``expressions``


def _contains(x: Any, found: Any) -> Any:
    """``x in found``. Where a number of either is traced, one comparison with each element, as Python makes them."""
    if isinstance(found, range) and isinstance(x, Value) and not x.shape:
        if not found:
            return False
        low, high = min(found[0], found[-1]), max(found[0], found[-1])
        return (x >= low) & (x <= high) & ((x - low) % abs(found.step) == 0)
    if not isinstance(found, (tuple, list, set, frozenset, dict)):
        return x in found
    elements = list(found)
    if not all(map(_is_number, (x, *elements))) or not any(isinstance(one, ir.Value) for one in (x, *elements)):
        return x in found
    return functools.reduce(operator.or_, [x == one for one in elements], False)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.number, np.bool_)) or isinstance(x, Value) and not x.shape


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": _contains,
    "NotIn": lambda a, b: negate(_contains(a, b)),
}


def condition(x: Any, what: str) -> Any:
    """The i1 value that ``x`` is, or None if it is plain Python's. ``what`` uses it, in messages.

    Raises ``TraceError`` for a traced value of another type.
    """
    if isinstance(x, (ir.OpView, ir.Operation)) and len(x.results) == 1:
        x = x.results[0]
    if not isinstance(x, ir.Value):
        return None
    if not isinstance(x.type, ir.IntegerType) or x.type.width != 1:
        raise trace_error(
            f"{what} takes a condition, and was given a value of type {describe(x)}",
            rule="a traced condition is a bool (i1)",
            fix="compare it: `x != 0`",
        )
    return x


def both(left: Any, *rights: Thunk) -> Any:
    """``left and right and ...``"""
    return _chain(left, rights, stop=False)


def either(left: Any, *rights: Thunk) -> Any:
    """``left or right or ...``"""
    return _chain(left, rights, stop=True)


def _chain(value: Any, rights: tuple[Thunk, ...], stop: bool) -> Any:
    for right in rights:
        traced = condition(value, "`or`" if stop else "`and`")
        if traced is not None:
            value = _under(traced, right, stop)
        elif bool(value) is stop:
            return value
        else:
            value = right()
    return value


def _under(left: Any, right: Thunk, stop: bool) -> Any:
    """The right operand matters where ``left`` is not ``stop``; elsewhere the result is ``stop``."""
    what = "`or`" if stop else "`and`"
    with Branching(left) as branch:
        branch.fill(branch.blocks[stop])
        value = _guarded(right)
        result = condition(value, what)
        if result is None:
            result = _constant(value, what)
        with branch.before_op():
            short = as_value(stop)
        return branch.select([(short, result) if stop else (result, short)])[0]


def _guarded(operand: Thunk) -> Any:
    """The value of an operand that the kernel may not evaluate."""
    watch = of_thunk(operand)
    value = operand()
    watch.check("an operand that a traced condition guards")
    return value


def _constant(value: Any, what: str) -> Any:
    if not isinstance(value, (bool, np.bool_)):
        raise trace_error(
            f"{what} of a traced condition and {describe(value)}",
            rule="the result must be one traced bool, so the right operand is a condition, too",
            fix="compare the right operand, or write `x if c else y`",
        )
    return as_value(bool(value))


def negate(value: Any) -> Any:
    """``not value``"""
    traced = condition(value, "`not`")
    return not value if traced is None else ~traced


def compare(left: Any, name: str, right: Any, *more: Any) -> Any:
    """``left < right < third``, given as ``compare(left, "Lt", right, "Lt", lambda: third)``."""
    result = COMPARISONS[name](left, right)
    if not more:
        return result
    following, third, *rest = more
    return both(result, lambda: compare(right, following, third(), *rest))


def mistaken(left: Any, name: str, right: Any, *more: Any) -> Any:
    """`compare` of what is written like ``a == 0 & b == 0``."""
    if isinstance(left, Value) or isinstance(right, Value):
        raise trace_error(
            "a chain of comparisons around `&` or `|`",
            rule="`&` and `|` bind closer than comparisons: a == 0 & b == 0 is a == (0 & b) == 0",
            fix="write (a == 0) & (b == 0), or a == 0 and b == 0",
        )
    return compare(left, name, right, *more)


def called(x: Any) -> Any:
    """``x``, which is compared or tested, and has the name of one of `expressions.IDS`."""
    if isinstance(x, FunctionType) and x.__module__.startswith("nvdsl.ops."):
        raise trace_error(
            f"`{x.__name__}` without parentheses in a condition",
            rule="a function is no number: Python compares the function itself, and takes it for true",
            fix=f"call it: nv.{x.__name__}()",
        )
    return x


def choose(test: Any, then: Thunk, other: Thunk) -> Any:
    """``then() if test else other()``"""
    traced = condition(test, "`x if c else y`")
    if traced is None:
        return then() if test else other()
    with Branching(traced) as branch:
        branch.fill(branch.blocks[0])
        first = freeze(_guarded(then))
        branch.fill(branch.blocks[1])
        second = freeze(_guarded(other))
        merge = Merge()
        with branch.before_op():
            result = merge.add(first, second, _mismatch)
        return result(branch.select(merge.pairs))


def _mismatch(a: Any, b: Any) -> Any:
    raise trace_error(
        f"`x if c else y` on a traced condition gives {describe(a)} or {describe(b)}",
        rule="both values of a traced choice have the same type",
        fix="convert one of them, for example nv.f32(x)",
    )


def check(test: Any, message: str | Thunk | None = None, formatted: bool = False) -> Any:
    """What `assert` checks: plain Python's value itself; for a traced one an assert of the kernel is built, and True
    given back.

    It is a cf.assert, or, with traced values in the message (``formatted``: an f-string), the gpu.printf of it where
    the test fails, marked as an assert. The simulator and debug mode stop there; else the lowering leaves them out.
    """
    traced = condition(test, "`assert`")
    if traced is None:
        return test
    if formatted and callable(message):
        message = _check_with_values(traced, message)
        if message is None:
            return True
    text = message() if callable(message) else message
    cf.assert_(traced, f"{caller()}: " + (str(text) if text is not None else "assertion failed"))
    return True


def _check_with_values(holds: Any, message: Thunk) -> str | None:
    """Build the assert, with what its message needs under it; or give the message back, which has no traced values."""
    branch = scf.IfOp(~holds)
    with ir.InsertionPoint(branch.then_block):
        text = message()
        if type(text) is Text:
            form, values = format_of(text)
            gpu.printf(escaped(f"{caller()}: ") + form, *values).attributes["nvdsl.assert"] = ir.UnitAttr.get()
        scf.yield_([])
    if type(text) is Text:
        return None
    branch.operation.erase()
    return str(text)
