"""Run-time side of a call in a traced function: which function is called in the place of which.

Helpers, that is functions and methods of the user's own code, are rewritten when they are called. Some
builtins have a meaning on traced values that Python's own can't have.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import nvdsl.values.math
from nvdsl.errors import frames, trace_error
from nvdsl.mlir import ir
from nvdsl.trace import logic
from nvdsl.trace.carry import is_value
from nvdsl.trace.printing import print_
from nvdsl.values import scope
from nvdsl.values.select import max as select_max
from nvdsl.values.select import min as select_min
from nvdsl.values.tracing import is_tracing

Convert = Callable[[FunctionType], Callable[..., Any]]


def resolve(f: Any, convert: Convert) -> Any:
    """What to call where the user's code calls ``f``."""
    kind = type(f)
    if kind is FunctionType:
        return convert(f) if frames.is_helper(f) else f
    if kind is MethodType or kind is BuiltinFunctionType:
        _refuse_once(f)
    if kind is MethodType:
        function = f.__func__
        helper = type(function) is FunctionType and frames.is_helper(function)
        return MethodType(convert(function), f.__self__) if helper else f
    if kind is BuiltinFunctionType:
        return _BUILTINS.get(f, f)
    if kind is functools.partial:
        return functools.partial(resolve(f.func, convert), *f.args, **f.keywords)
    method = getattr(kind, "__call__", None)  # noqa: B004
    if type(method) is FunctionType and not isinstance(f, type) and frames.is_helper(method):
        return MethodType(convert(method), f)
    return f


def _refuse_once(f: Any) -> None:
    """Raise a ``TraceError`` for what gives another number at each call: a trace would keep the first one."""
    owner = f.__self__
    kind = type(owner)
    if kind is ModuleType:
        is_once = owner.__name__ == "time" and not scope.is_host()
        fix = "nv.clock() and nv.globaltimer() count in a kernel, nv.nanosleep(n) waits"
    else:
        shared = _SHARED.get(kind.__module__)
        is_once = shared is not None and owner is getattr(sys.modules.get(shared[0]), shared[1], None) and is_tracing()
        fix = "pass random numbers, or a seed: of this and an index a kernel computes them (a hash, Philox)"
    if is_once:
        raise trace_error(
            f"`{f.__name__}` of {getattr(owner, '__name__', kind.__module__)} in a function that is traced",
            rule="Python calls it once, while tracing: all threads of all launches would have that number",
            fix=fix,
        )


_SHARED = {"random": ("random", "_inst"), "numpy.random.mtrand": ("numpy.random.mtrand", "_rand")}
"""Where the generators are that functions of a module share, by the module of their class."""


def _extreme(builtin: Callable[..., Any], on_values: Callable[..., Any]) -> Callable[..., Any]:
    """min or max: of the arguments, or of the elements of one argument."""

    def extreme(*arguments: Any, **options: Any) -> Any:
        items = list(arguments[0]) if len(arguments) == 1 else arguments
        if not any(map(is_value, items)):
            return builtin(*([items] if len(arguments) == 1 else arguments), **options)
        if options:
            raise trace_error(
                f"{builtin.__name__}(..., {', '.join(options)}=...) of traced values",
                fix=f"write {builtin.__name__}(a, b, ...) without options",
            )
        return functools.reduce(on_values, items)

    return extreme


def _quantifier(builtin: Callable[..., Any], join: Callable[..., Any]) -> Callable[..., Any]:
    """any or all. A plain element that decides ends it, as in Python."""

    def quantifier(items: Any) -> Any:
        result: Any = builtin(())
        for item in items:
            operand = item if isinstance(item, ir.Value) else bool(item)
            result = join(result, lambda operand=operand: operand)
            if not is_value(result) and bool(result) is not builtin(()):
                return bool(result)
        return result if is_value(result) else bool(result)

    return quantifier


def _sum(items: Any, /, start: Any = 0) -> Any:
    """Python's sum adds 0 first, which would be an op."""
    items = list(items)
    if any(map(is_value, items)) and type(start) is int and start == 0:
        return functools.reduce(lambda a, b: a + b, items)
    return builtins.sum(items, start)


def _round(x: Any, *digits: Any, **options: Any) -> Any:
    if not is_value(x):
        return builtins.round(x, *digits, **options)
    if digits or options:
        raise trace_error("round() of a traced value to digits", fix="write nv.math.round(x * 100.0) / 100.0")
    return nvdsl.math.round(x)


_BUILTINS: dict[Any, Any] = {
    builtins.min: _extreme(builtins.min, select_min),
    builtins.max: _extreme(builtins.max, select_max),
    builtins.any: _quantifier(builtins.any, logic.either),
    builtins.all: _quantifier(builtins.all, logic.both),
    builtins.sum: _sum,
    builtins.round: _round,
    builtins.print: print_,
}
