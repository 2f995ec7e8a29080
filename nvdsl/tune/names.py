"""Calling what the user gave (a predicate, a heuristic, a reference) with what its parameters name."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from nvdsl.errors import ArgumentError, Where
from nvdsl.trace.location import is_user_module


def call(function: Callable[..., Any], known: Mapping[str, Any], what: str) -> Any:
    """``function`` called with those of ``known`` that its parameters name; with all of them for ``**rest``.

    Raises ArgumentError at the function's line for a parameter that names nothing.
    """
    chosen: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            chosen = {**known, **chosen}
        elif parameter.name in known:
            chosen[parameter.name] = known[parameter.name]
        elif parameter.default is parameter.empty:
            raise ArgumentError(
                f"{what} asks for {parameter.name!r}",
                where=_line(function),
                rule="its parameters are filled in by name: arguments of the tuned function, tuned parameters",
                fix=f"the names are {', '.join(known)}",
            )
    return function(**chosen)


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of a function's source, and of the user's functions that it refers to by name, and so on."""
    digest, seen = hashlib.sha256(), set()
    waiting = [inspect.unwrap(function)]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, FunctionType) or one.__code__ in seen:
            continue
        seen.add(one.__code__)
        digest.update(_source(one).encode())
        for value in _referred(one):
            value = inspect.unwrap(value) if callable(value) else value
            if isinstance(value, FunctionType) and is_user_module(value.__module__ or ""):
                waiting.append(value)
            elif isinstance(value, int | float | str | bool | tuple):
                digest.update(repr(value).encode())
    return digest.hexdigest()[:16]


def _referred(function: FunctionType) -> list[Any]:
    """The values of the globals and the closure's cells that the function's code (and the code in it) names."""
    names: set[str] = set()
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    found = [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return found


def _source(function: FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # exec() keeps none
        code = function.__code__
        return repr((code.co_code, code.co_names, [c for c in code.co_consts if not isinstance(c, CodeType)]))


def _line(function: Any) -> Where | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Where(code.co_filename, code.co_firstlineno) if code else None
