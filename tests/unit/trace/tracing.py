"""Traces a function alone: its arguments become those of a func.func, its results are returned."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from nvdsl.errors import TraceError, Where
from nvdsl.ir import location
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import func
from nvdsl.trace.carry import is_value
from nvdsl.trace.regions import discarding
from nvdsl.trace.rewrite import convert
from nvdsl.trace.watch import located
from tests.unit.trace.evaluate import Evaluator


@dataclass
class Traced:
    """``result``: what the traced function returned in Python. ``function``: the func.func."""

    module: Any
    function: Any
    result: Any

    def __str__(self) -> str:
        return str(self.module)

    def run(self, *arguments: Any) -> Any:
        """What the function returns for these numbers: one, or a tuple if it returns several values."""
        results = Evaluator().run(self.function, list(arguments))
        return results[0] if len(results) == 1 else tuple(results)

    def printed(self, *arguments: Any) -> list[str]:
        """What it prints."""
        evaluator = Evaluator()
        evaluator.run(self.function, list(arguments))
        return [form.replace("%ll", "%") % tuple(values) for form, values in evaluator.printed]

    def ops(self, name: str) -> list[Any]:
        """The ops of that name, wherever they are, in order."""
        found = []

        def visit(op: Any) -> Any:
            if op.name == name:
                found.append(op)
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found


def define(source: str, **names: Any) -> Any:
    """The function that ``source`` defines, in a module of its own with ``names``. Its source can be found."""
    lines = source.splitlines(keepends=True)
    filename = f"<test source {hash(source)}>"
    linecache.cache[filename] = (len(source), None, lines, filename)
    module: dict[str, Any] = {"__name__": "defined", **names}
    exec(compile(source, filename, "exec"), module)
    return next(x for x in module.values() if getattr(x, "__module__", "") == "defined")


@cache
def _context() -> Any:
    """One for all tests: a new one takes 30 ms."""
    return ir.Context()


_alive: list[Any] = []  # a value whose module is gone is a dangling pointer


def trace(function: Callable[..., Any], *types: Any) -> Traced:
    """``function``, converted and called with arguments of these DTypes. The module is verified.

    The values that it returns (alone or in a tuple) are returned by the func.func; Python numbers are not.
    """
    return located(lambda: _trace(function, types))


def _trace(function: Callable[..., Any], types: tuple[Any, ...]) -> Traced:
    converted = convert(function)
    with _context(), location.tracebacks():
        module = ir.Module.create()
        _alive.append(module)
        with ir.InsertionPoint(module.body):
            op = func.FuncOp("traced", ([t.ir for t in types], []))
        block = op.add_entry_block()
        with discarding(module), ir.InsertionPoint(block):
            result = converted(*(t(x) for t, x in zip(types, block.arguments, strict=True)))
            values = [x for x in (result if isinstance(result, tuple) else (result,)) if is_value(x)]
            func.ReturnOp(values)
        signature = ir.FunctionType.get([t.ir for t in types], [x.type for x in values])
        op.attributes["function_type"] = ir.TypeAttr.get(signature)
        module.operation.verify()
        return Traced(module, op.operation, result)


def fails(function: Callable[..., Any], *types: Any, match: str) -> TraceError:
    """Tracing ``function`` raises a TraceError at its line that ends with ``# <-``; ``match`` is a regular
    expression for the whole message: what happened, the rule, the fix."""
    with pytest.raises(TraceError, match=match) as caught:
        trace(function, *types)
    lines, first = inspect.getsourcelines(function)
    (line,) = (first + i for i, text in enumerate(lines) if text.rstrip().endswith("# <-"))
    assert caught.value.where == Where(function.__code__.co_filename, line)
    return caught.value
