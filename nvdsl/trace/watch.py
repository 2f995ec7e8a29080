"""State that code in a traced region changes behind the region's back.

A region merges or carries what its own statements assign. A call in it may change more: attributes of the
user's objects (in methods), variables of other functions (``nonlocal``). That would happen once, while the
region is traced, whatever the kernel does. What can be reached from the region's variables is compared
before and after; a number or a traced value that changed is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from nvdsl.errors import TraceError, trace_error
from nvdsl.trace import location
from nvdsl.trace.carry import Getters, Scope, Undefined, is_number, is_value, owner, same

_NOTHING = object()


@dataclass
class _Cell:
    """A variable of a function around a user's function."""

    name: str
    cell: CellType

    def read(self) -> Any:
        return _content(self.cell)

    def is_at(self, place: str, getters: Getters) -> bool:
        return place == self.name


@dataclass
class _Attribute:
    """An attribute of an object of the user's; ``name``: how it was reached."""

    name: str
    holder: Any
    attribute: str

    def read(self) -> Any:
        return vars(self.holder).get(self.attribute, _NOTHING)

    def is_at(self, place: str, getters: Getters) -> bool:
        return place.endswith(f".{self.attribute}") and owner(place, getters) is self.holder


class Watch:
    """``scope``: the variables of the function that the region is in, by name. ``places``, ``getters``: what
    the region merges or carries."""

    def __init__(self, scope: Scope, places: Sequence[str] = (), getters: Getters | None = None) -> None:
        # What has the carry protocol and is assigned there is carried as a whole.
        carriers = (scope.get(place) for place in places if place.isidentifier())
        self._reached = {id(x) for x in carriers if hasattr(type(x), "__nv_values__")}
        found = [storage for x in scope.items() for storage in self._find(*x)]
        self._before = [
            (storage, storage.read())
            for storage in found
            if not any(storage.is_at(place, getters or {}) for place in places)
        ]

    def check(self, what: str) -> None:
        """Raise a ``TraceError`` if something changed. ``what``: the region, in messages."""
        for storage, before in self._before:
            now = storage.read()
            if now is not before and _is_state(before, now):
                raise _changed(storage.name, what)

    def _find(self, name: str, x: Any) -> Iterator[_Cell | _Attribute]:
        """All that may change through ``x``, the variable ``name``."""
        if type(x) is MethodType:
            yield from self._find(name, x.__self__)
            x = x.__func__
        if type(x) is Undefined or id(x) in self._reached:
            return
        self._reached.add(id(x))
        if type(x) is FunctionType:
            if location.is_user(x.__code__.co_filename):
                for free, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
                    yield _Cell(free, cell)
                    yield from self._find(free, _content(cell))
        elif _is_users(x.__class__):
            for attribute in vars(x):
                yield _Attribute(f"{name}.{attribute}", x, attribute)


def of_thunk(thunk: Any) -> Watch:
    """Watches what a lambda can reach."""
    cells = zip(thunk.__code__.co_freevars, thunk.__closure__ or (), strict=True)
    return Watch({name: _content(cell) for name, cell in cells})


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _NOTHING


@functools.cache
def _is_users(kind: type) -> bool:
    """Is it a class of the user's whose objects have attributes?"""
    if kind.__dictoffset__ == 0 or issubclass(kind, (type, ModuleType)):
        return False
    return kind is SimpleNamespace or location.is_user_module(kind.__module__)


def _is_state(before: Any, now: Any) -> bool:
    if same(before, now):
        return False
    return any(map(is_value, (before, now))) or is_number(before) and is_number(now)


def _changed(name: str, what: str) -> TraceError:
    return trace_error(
        f"{what} changes `{name}` without carrying it",
        rule="carried are variables that its own statements assign, and attributes of objects that they name and "
        "do not assign; what a call changes is changed once, while it is traced",
        fix=f"return the new value from the call, and assign it there: `{name} = ...` (what is meant to happen "
        "once goes before the statement)",
    )
