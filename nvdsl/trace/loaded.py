"""The names in a function's code, and what methods and their like stand for."""

from __future__ import annotations

import dis
import functools
import sys
import weakref
from collections.abc import KeysView
from types import CodeType, MethodType
from typing import Any, NamedTuple


class Names(NamedTuple):
    """By what they are to the code of a function and the code in it: the globals, attributes and modules that it loads,
    the globals that it assigns, and all its names but those of locals. Each in the order of the code."""

    globals: KeysView[str]
    attributes: KeysView[str]
    imports: KeysView[str]
    stored: KeysView[str]
    every: KeysView[str]


_names: weakref.WeakKeyDictionary[CodeType, Names] = weakref.WeakKeyDictionary()
_GLOBAL, _ATTRIBUTE, _IMPORT, _STORED, _EVERY = range(5)
_KINDS = {
    dis.opmap[name]: (kind, shift)  # the shift takes flags off the number of the name
    for name, kind, shift in (
        ("LOAD_GLOBAL", _GLOBAL, 1), ("LOAD_NAME", _GLOBAL, 0), ("LOAD_FROM_DICT_OR_GLOBALS", _GLOBAL, 0),
        ("LOAD_ATTR", _ATTRIBUTE, 1 if sys.version_info >= (3, 12) else 0), ("LOAD_METHOD", _ATTRIBUTE, 0),
        ("LOAD_SUPER_ATTR", _ATTRIBUTE, 2), ("IMPORT_FROM", _ATTRIBUTE, 0), ("IMPORT_NAME", _IMPORT, 0),
        ("STORE_GLOBAL", _STORED, 0), ("DELETE_GLOBAL", _STORED, 0),
    )
    if name in dis.opmap
}  # fmt: skip
_EXTENDED = dis.opmap["EXTENDED_ARG"]


def names(code: CodeType) -> Names:
    """(``dis.get_instructions`` takes thirty times as long.)"""
    known = _names.get(code)
    if known is not None:
        return known
    found: list[dict[str, None]] = [{} for _ in Names._fields]
    found[_EVERY] = dict.fromkeys(code.co_names)
    high, raw = 0, code.co_code
    for at in range(0, len(raw), 2):
        op, argument = raw[at], raw[at + 1] | high
        high = argument << 8 if op == _EXTENDED else 0
        if op in _KINDS:
            kind, shift = _KINDS[op]
            found[kind][code.co_names[argument >> shift]] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for mine, inner in zip(found, names(constant), strict=True):
                mine.update(dict.fromkeys(inner))
    result = _names[code] = Names(*[one.keys() for one in found])
    return result


def wrapped(value: Any) -> tuple[Any, ...]:
    """What a method, a partial, a property or a static or class method is made of; () for anything else."""
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, property):
        return (value.fget,)
    return (value.__func__,) if isinstance(value, classmethod | staticmethod) else ()
