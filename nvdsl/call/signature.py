"""A glance at a call's arguments: what they are, as far as a microsecond says it, and where they lie.

A call like one before is found by it. What takes a longer look (host arrays, JAX's, arrays of a class that was never
seen, positional constants) has no glance: a call with such an argument takes the long way, through `specialize`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from nvdsl.call.specialize import number
from nvdsl.driver import arrays
from nvdsl.errors import ArgumentError
from nvdsl.trace.tokens import token

Look = Callable[[Any], tuple[Hashable, Any]]

_MOST = 4096  # prepared calls in one table, before it starts again: shapes may vary without end


def _number(x: Any) -> tuple[Hashable, Any]:
    spec, value = number(x)
    return spec.dtype, value


_looks: dict[type, Look] = {bool: _number, int: _number, float: _number, type(None): lambda x: (None, 0)}


def glance(arguments: Iterable[Any]) -> tuple[tuple[Hashable, ...], list[Any]] | None:
    """What each argument is (equal for arguments of one spec, on one device), and its value: the address of an array, a
    number, 0 for None. None where one of them takes a longer look."""
    what, values = [], []
    try:
        for argument in arguments:
            one, value = _looks[argument.__class__](argument)
            what.append(one)
            values.append(value)
    except (KeyError, RuntimeError, ArgumentError):  # an unknown class; a tensor without plain memory; 2**64
        return None
    return tuple(what), values


def constants(named: dict[str, Any]) -> tuple[Hashable, ...] | None:
    """What tells compile-time arguments apart. None where one can't be hashed."""
    what = tuple([(name, token(x)) for name, x in named.items()])
    try:
        hash(what)
    except TypeError:
        return None
    return what


def learn(arguments: Iterable[Any]) -> None:
    """From now on arrays of these classes have a glance, where their libraries offer one."""
    for argument in arguments:
        library = arrays.library_of(argument)
        if library is not None and library.glance is not None:
            _looks.setdefault(argument.__class__, library.glance)


def keep(known: dict[Any, Any], key: Any, prepared: Any) -> None:
    """Let a call be found by ``key``, where it could be prepared."""
    if prepared is not None:
        if len(known) >= _MOST:
            known.clear()
        known[key] = prepared
