"""Which Python state a function can reach.

From its variables the way goes on through containers, attributes of the user's objects and classes, iterators, and
the user's functions: their closures, defaults, and the globals that they name. What belongs to Python, to nvdsl and
to installed packages is not looked into; containers and iterators are, whoever made them. Nor are the globals and
classes of ``nvdsl/kernels``, which hold no state.
"""

from __future__ import annotations

import enum
import functools
from array import array
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from nvdsl.errors import frames
from nvdsl.mlir import ir
from nvdsl.trace import loaded, storage
from nvdsl.trace.carry import Undefined
from nvdsl.trace.storage import Globals, Kind, Path, Storage

_OWN = "__nv"  # names that ``transform`` makes up


class Reach:
    """A walk. ``skipped``: the ids of objects that it leaves out."""

    def __init__(self, skipped: set[int]) -> None:
        self.found: list[Storage] = []
        self.seen = skipped
        self._ahead: list[tuple[Path, Any]] = []

    def variables(self, variables: dict[str, Any]) -> None:
        """Go on from these variables of a function."""
        self._ahead += [(name, x) for name, x in variables.items() if not name.startswith(_OWN)]

    def named(self, code: CodeType, module: dict[str, Any]) -> None:
        """Go on from the globals that ``code`` names in its ``module``, and in modules of the user's."""
        names = loaded.names(code)
        if names.stored:
            self.add("", Globals(module, tuple(names.stored)), storage.GLOBALS)
        for name in names.globals:
            found = module.get(name)
            if type(found) is ModuleType:
                if frames.is_own_module(found):
                    self._members(name, vars(found), tuple(names.every))
            elif found is not None:
                self._ahead.append((name, found))

    def _members(self, path: str, module: dict[str, Any], names: tuple[str, ...]) -> None:
        self.add(path, Globals(module, names), storage.GLOBALS)
        for name in names:
            if name in module:
                self.go_on(path, ".%s", name, module[name])

    def add(self, path: Path, holder: Any, kind: Kind) -> None:
        self.found.append(Storage(path, holder, kind))

    def go_on(self, path: Path, form: str, key: Any, x: Any) -> None:
        self._ahead.append(((path, form, key), x))

    def follow(self) -> list[Storage]:
        """All the storages on the way."""
        ahead, seen = self._ahead, self.seen
        while ahead:
            path, x = ahead.pop()
            kind: Any = type(x)
            look = _look(kind)
            if look is not None and id(x) not in seen:
                seen.add(id(x))
                look(self, path, x)
        return self.found


Look = Callable[[Reach, Path, Any], None]


@functools.cache
def _look(kind: type) -> Look | None:
    """How to look into objects of a class; None for what holds no state of the user's."""
    if kind is Undefined or issubclass(kind, (ir.Value, str, bytes, int, float, enum.Enum)):
        return None
    for base, look in _LOOKS.items():
        if issubclass(kind, base):
            return look
    if issubclass(kind, type):
        return _class
    if issubclass(kind, Iterator) and kind.__module__ in ("builtins", "itertools"):
        return _iterator
    holds = kind is SimpleNamespace or issubclass(kind, (UserDict, UserList))
    return _object if holds or frames.is_own_class(kind) else None


def _items(reach: Reach, path: Path, keys: Any, values: Any) -> None:
    if any(map(_look, set(map(type, values)))):
        for key, x in zip(keys, values, strict=False):
            reach.go_on(path, "[%r]", key, x)


def _tuple(reach: Reach, path: Path, x: Any) -> None:
    _items(reach, path, range(len(x)), x)


def _sequence(reach: Reach, path: Path, x: Any) -> None:
    reach.add(path, x, storage.SEQUENCE if isinstance(x, (list, bytearray)) else storage.QUEUE)
    _items(reach, path, range(len(x)), x)
    _object(reach, path, x)


def _mapping(reach: Reach, path: Path, x: Any) -> None:
    reach.add(path, x, storage.MAPPING)
    _items(reach, path, x, x.values())
    _object(reach, path, x)


def _set(reach: Reach, path: Path, x: Any) -> None:
    reach.add(path, x, storage.SET)


def _array(reach: Reach, path: Path, x: Any) -> None:
    reach.add(path, x, storage.NUMPY)


def _iterator(reach: Reach, path: Path, x: Any) -> None:
    reach.add(path, x, storage.ITERATOR)


def _object(reach: Reach, path: Path, x: Any) -> None:
    kind: Any = type(x)
    if storage.has_attributes(kind):
        reach.add(path, x, storage.ATTRIBUTES)
        for name, value in storage.attributes(x).items():
            reach.go_on(path, ".%s", name, value)
    if frames.is_own_class(kind) and not kind.__module__.startswith("nvdsl."):
        reach.go_on("", "%s", kind.__name__, kind)


def _class(reach: Reach, path: Path, x: type) -> None:
    for base in x.__mro__:
        if frames.is_own_class(base):
            reach.seen.add(id(base))
            reach.add(path, base, storage.CLASS)
            for name, value in vars(base).items():
                if type(value) in _WRAPPERS:
                    (value,) = loaded.wrapped(value)
                kind: Any = type(value)
                if _look(kind) is not None and (kind is FunctionType or not name.startswith("__")):
                    reach.go_on(path, ".%s", name, value)


_WRAPPERS = (property, staticmethod, classmethod)


def _function(reach: Reach, path: Path, x: FunctionType) -> None:
    if not frames.is_helper(x):
        return
    for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
        reach.add(name, cell, storage.CELL)
        reach.go_on("", "%s", name, storage.content(cell))
    if x.__dict__:
        reach.add(path, x, storage.ATTRIBUTES)
        for name, value in vars(x).items():
            reach.go_on(path, ".%s", name, value)
    for default in (*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()):
        reach.go_on(path, "%s", ", in a default value", default)
    if not x.__code__.co_filename.startswith(frames.KERNELS):
        reach.named(x.__code__, x.__globals__)


def _wrapper(reach: Reach, path: Path, x: Any) -> None:
    for part in loaded.wrapped(x):
        reach.go_on(path, "%s", "", part)


_LOOKS: dict[type, Look] = {
    tuple: _tuple,
    list: _sequence,
    bytearray: _sequence,
    array: _sequence,
    deque: _sequence,
    dict: _mapping,
    set: _set,
    np.ndarray: _array,
    FunctionType: _function,
    MethodType: _wrapper,
    functools.partial: _wrapper,
}
