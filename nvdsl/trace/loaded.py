"""The names that a function's code loads."""

from __future__ import annotations

import dis
import sys
import weakref
from types import CodeType
from typing import NamedTuple


class Names(NamedTuple):
    """What the code of a function, and the code in it, loads by name."""

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]


_names: weakref.WeakKeyDictionary[CodeType, Names] = weakref.WeakKeyDictionary()
_SHIFT_ATTRIBUTE = 1 if sys.version_info >= (3, 12) else 0
_ATTRIBUTES = {
    dis.opmap[name]: shift
    for name, shift in (("LOAD_ATTR", _SHIFT_ATTRIBUTE), ("LOAD_METHOD", 0), ("IMPORT_FROM", 0), ("LOAD_SUPER_ATTR", 2))
    if name in dis.opmap
}
_GLOBALS = {
    dis.opmap[name]: shift
    for name, shift in (("LOAD_GLOBAL", 1), ("LOAD_NAME", 0), ("LOAD_FROM_DICT_OR_GLOBALS", 0))
    if name in dis.opmap
}
_IMPORT, _EXTENDED = dis.opmap["IMPORT_NAME"], dis.opmap["EXTENDED_ARG"]


def names(code: CodeType) -> Names:
    """(``dis.get_instructions`` takes thirty times as long.)"""
    known = _names.get(code)
    if known is not None:
        return known
    found: tuple[set[str], set[str], set[str]] = set(), set(), set()
    high, raw = 0, code.co_code
    for at in range(0, len(raw), 2):
        op, argument = raw[at], raw[at + 1] | high
        high = argument << 8 if op == _EXTENDED else 0
        if op in _ATTRIBUTES:
            found[1].add(code.co_names[argument >> _ATTRIBUTES[op]])
        elif op in _GLOBALS:
            found[0].add(code.co_names[argument >> _GLOBALS[op]])
        elif op == _IMPORT:
            found[2].add(code.co_names[argument])
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for mine, inner in zip(found, names(constant), strict=True):
                mine.update(inner)
    result = _names[code] = Names(*map(frozenset, found))
    return result
