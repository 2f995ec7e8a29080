"""Calling what the user gave (a predicate, a heuristic, a reference) with what its parameters name."""

from __future__ import annotations

import functools
import hashlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nvdsl.errors import ArgumentError, Where
from nvdsl.errors.frames import is_user_module


def call(function: Callable[..., Any], known: Mapping[str, Any], what: str) -> Any:
    """``function`` called with those of ``known`` that its parameters name; with all of them for ``**rest``.

    Raises ArgumentError at the function's line for a parameter that names nothing.
    """
    chosen: dict[str, Any] = {}
    for parameter in _parameters(function):
        if parameter.kind is parameter.VAR_KEYWORD:
            chosen = {**known, **chosen}
        elif parameter.name in known:
            chosen[parameter.name] = known[parameter.name]
        elif parameter.default is parameter.empty:
            raise ArgumentError(
                f"{what} asks for {parameter.name!r}",
                where=line(function),
                rule="its parameters are filled in by name: arguments of the tuned function, tuned parameters",
                fix=f"the names are {', '.join(known)}",
            )
    return function(**chosen)


@functools.lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of a function's source, and of the user's functions, classes and constants that it refers to, and so on:
    by name, through a module, as a default, in what `_contents` looks into."""
    first, digest = _unwrapped(function), hashlib.sha256()
    seen: set[Any] = set()
    waiting: list[Any] = [first]
    while waiting:
        one = _unwrapped(waiting.pop())
        if isinstance(one, int | float | str | bool):
            digest.update(f"{one!r};".encode())
        elif isinstance(one, FunctionType | type):
            key = one.__code__ if isinstance(one, FunctionType) else one
            if key not in seen and (one is first or _is_followed(one.__module__)):
                seen.add(key)
                digest.update(_source(one).encode() if isinstance(one, FunctionType) else one.__qualname__.encode())
                waiting += _referred(one) if isinstance(one, FunctionType) else _members(one)
        elif id(one) not in seen:
            seen.add(id(one))
            waiting += _contents(one)
    return digest.hexdigest()[:16]


_LIBRARIES = ("numpy", "ml_dtypes", "torch", "cupy", "jax")
"""What they compute is no part of a kernel, and there is much of it."""


def _is_followed(module: str | None) -> bool:
    return is_user_module(module or "") and (module or "").partition(".")[0] not in _LIBRARIES


def _unwrapped(value: Any) -> Any:
    """The function below decorators, of a method, of a property."""
    value = getattr(value, "__func__", value)
    if isinstance(value, property):
        value = value.fget
    return inspect.unwrap(value) if callable(value) else value


def _referred(function: FunctionType) -> list[Any]:
    """A function's defaults, and the values of the globals, of the modules' members and of the closure's cells that its
    code (and the code in it) names."""
    names = {name for code in _codes(function) for name in code.co_names}
    found = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    scopes, modules = [function.__globals__], set()
    while scopes:
        scope = scopes.pop()
        for name in sorted(names & scope.keys()):
            value = scope[name]
            if not isinstance(value, ModuleType):
                found.append(value)
            elif value.__name__ not in modules and _is_followed(value.__name__):
                modules.add(value.__name__)
                scopes.append(vars(value))
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return found


def _members(cls: type) -> list[Any]:
    """What a class is made of; what Python adds to each is no matter."""
    own = [value for name, value in vars(cls).items() if not name.startswith("__") or callable(value)]
    return [*cls.__bases__, *own]


def _contents(value: Any) -> list[Any]:
    """What is in a tuple, a dataclass or a partial. Of lists, dicts and sets only what can be called: a kernel may keep
    notes in them, and these are no part of it."""
    if isinstance(value, Mapping | list | set):
        return [x for x in (value.values() if isinstance(value, Mapping) else value) if callable(x)]
    if isinstance(value, functools.partial):
        return [value.func, value.args, tuple(value.keywords.items())]
    if is_dataclass(value):
        return [type(value), *(getattr(value, field.name) for field in fields(value))]
    return list(value) if isinstance(value, tuple) else []


def _codes(function: FunctionType) -> list[CodeType]:
    """A function's code, and the code in it."""
    found = [function.__code__]
    for code in found:
        found += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


def _source(function: FunctionType) -> str:
    """A function's lines. (inspect.getsource takes 0.5 ms for each function; a GEMM has more than a hundred.)"""
    code = function.__code__
    last = max(line or 0 for one in _codes(function) for _, _, line in one.co_lines())
    lines = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 : last]
    if lines:
        return textwrap.dedent("".join(lines))
    return repr((code.co_code, code.co_names, [c for c in code.co_consts if not isinstance(c, CodeType)]))  # exec()


def line(function: Any) -> Where | None:
    """Where a function is; None where Python doesn't say."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Where(code.co_filename, code.co_firstlineno) if code else None
