"""What tells compile-time constants apart: their types and their bits, not ``==``.

1, 1.0 and True are equal to Python, as are 0.0 and -0.0, and a NaN is not equal to itself. To a trace the first are
different constants and the last is one. `token` is used wherever a compilation is found again by a constant.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import struct
from collections.abc import Callable, Hashable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from nvdsl.errors.frames import is_user_module
from nvdsl.values.dtypes import DType

Seen = tuple[int, ...]


class Same:
    """Equal for one object only. Keeps the object, so that its identity is not given to another."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return other.__class__ is Same and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def token(value: Any, seen: Seen = ()) -> Hashable:
    """Equal for values that are one constant to a trace, and for no others.

    Numbers by type and bits; tuples, frozensets and frozen dataclasses by what is in them; functions by their code,
    defaults and closure, so that a lambda that is written in a loop is one constant; objects of a class without
    ``__eq__`` by identity. What Python can't hash has a token that can't be hashed either.
    """
    kind = value.__class__
    if kind in PLAIN:
        return kind, value
    look = _LOOKS.get(kind)
    return _other(value, seen) if look is None else look(value, seen)


def _other(value: Any, seen: Seen) -> Hashable:
    kind = value.__class__
    if isinstance(value, tuple):
        return _tuple(value, seen)
    if isinstance(value, frozenset):
        return kind, frozenset([token(x, seen) for x in value])
    if isinstance(value, np.generic):
        return kind, value.dtype.str, value.tobytes()
    if isinstance(value, enum.Enum | type):
        return kind, Same(value)
    if kind.__hash__ is None or kind is memoryview:  # whose bytes may be writable
        refused: Any = [value]  # that can't be hashed
        return refused
    if kind.__hash__ is object.__hash__ or kind.__eq__ is object.__eq__:
        return Same(value)
    if dataclasses.is_dataclass(value):
        look = _LOOKS[kind] = _fields(kind)
        return look(value, seen)
    if not is_user_module(str(kind.__module__)):
        return kind, value, repr(value)
    if id(value) in seen:
        return Same(value)
    seen = (*seen, id(value))
    return kind, value, tuple([(name, _inside(x, seen)) for name, x in _state(value)])


def _fields(kind: Any) -> Callable[[Any, Seen], Hashable]:
    """The token of a dataclass's objects."""
    names = [field.name for field in dataclasses.fields(kind)]

    def look(value: Any, seen: Seen) -> Hashable:
        if id(value) in seen:
            return Same(value)
        seen = (*seen, id(value))
        return kind, tuple([token(getattr(value, name, None), seen) for name in names])

    return look


def _tuple(value: tuple[Any, ...], seen: Seen) -> Hashable:
    return value.__class__, tuple([token(x, seen) for x in value])


def _function(function: FunctionType, seen: Seen) -> Hashable:
    code = function.__code__
    if "<" not in code.co_qualname:
        return function  # of a module: made once
    if id(function) in seen:  # its closure holds it
        return Same(function)
    seen = (*seen, id(function))
    cells: Any = function.__closure__
    defaults, named = function.__defaults__, function.__kwdefaults__
    return (
        Same(code),  # made once, however often the function is
        Same(function.__globals__),
        cells and tuple([_part(c, seen) for c in cells]),
        defaults and _inside(defaults, seen),
        named and _inside(tuple(named.items()), seen),
    )


def _part(cell: Any, seen: Seen) -> Hashable:
    try:
        return _inside(cell.cell_contents, seen)
    except ValueError:  # not assigned yet
        return None


def _inside(value: Any, seen: Seen) -> Hashable:
    """The token of a part; by identity where that can't be hashed."""
    found = token(value, seen)
    try:
        hash(found)
    except TypeError:
        return tuple([_inside(x, seen) for x in value]) if isinstance(value, tuple) else Same(value)
    return found


def _state(value: Any) -> list[tuple[str, Any]]:
    """The attributes that an object has of its own, in ``__dict__`` or in slots."""
    found = dict(getattr(value, "__dict__", ()))
    for base in value.__class__.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                found.setdefault(name, getattr(value, name))
    return sorted(found.items())


PLAIN = frozenset((int, bool, str, bytes, type(None), type(Ellipsis), DType, BuiltinFunctionType, CodeType))
"""Classes of values that are told apart by ``==``."""

_LOOKS: dict[type, Callable[[Any, Seen], Hashable]] = {
    float: lambda x, _: (float, struct.pack("d", x)),
    complex: lambda x, _: (complex, struct.pack("dd", x.real, x.imag)),
    tuple: _tuple,
    range: lambda x, _: (range, x.start, x.stop, x.step),
    slice: lambda x, seen: (slice, _tuple((x.start, x.stop, x.step), seen)),
    FunctionType: _function,
    MethodType: lambda x, seen: (MethodType, token(x.__func__, seen), token(x.__self__, seen)),
    functools.partial: lambda x, seen: (
        functools.partial,
        token(x.func, seen),
        _inside(x.args, seen),
        _inside(tuple(x.keywords.items()), seen),
    ),
}
