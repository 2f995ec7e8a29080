"""Where Python keeps state that code may change, one ``Kind`` of holder each: how to read it, to put it back, and to
name a part of it."""

from __future__ import annotations

import functools
import warnings
import zlib
from collections.abc import Callable, Iterator
from types import CellType, GeneratorType, MemberDescriptorType
from typing import Any, NamedTuple

import numpy as np

NOTHING = object()  # what a variable or an attribute holds that is not assigned
_LARGE = 1 << 20  # bytes of an array beyond which a checksum stands for them

Path = Any  # the way to an object: a variable's name, or (path, format, key)


def shown(path: Path) -> str:
    """A path as the user would write it: ``s[1].x``."""
    parts = []
    while isinstance(path, tuple):
        path, form, key = path
        parts.append(form % (key,))
    return path + "".join(reversed(parts))


class Kind(NamedTuple):
    """How one kind of holder keeps its state. ``read`` gives its contents as a list; ``write`` puts such a list back;
    ``part`` is the path of element ``i`` of the list."""

    read: Callable[[Any], list[Any]]
    write: Callable[[Any, list[Any]], Any]
    part: Callable[[Path, Any, list[Any], int], Path]


class Storage(NamedTuple):
    """A place that holds state."""

    path: Path
    holder: Any
    kind: Kind

    def read(self) -> list[Any]:
        return self.kind.read(self.holder)


def _whole(path: Path, holder: Any, contents: list[Any], i: int) -> Path:
    return path


def _replace(x: Any, contents: list[Any]) -> None:
    x[:] = contents


def _refill(x: Any, contents: list[Any]) -> None:
    while len(x):
        x.pop()
    x.extend(contents)


SEQUENCE = Kind(list, _replace, lambda path, x, contents, i: (path, "[%r]", i))
QUEUE = SEQUENCE._replace(write=_refill)


def _mapping_part(path: Path, x: Any, contents: list[Any], i: int) -> Path:
    keys = len(contents) // 2
    return (path, "[%r]", contents[i - keys]) if i >= keys else path


def _write_mapping(x: Any, contents: list[Any]) -> None:
    keys = len(contents) // 2
    x.clear()
    x.update(zip(contents[:keys], contents[keys:], strict=True))


MAPPING = Kind(lambda x: [*x, *x.values()], _write_mapping, _mapping_part)


def _order(x: Any) -> tuple[str, Any]:
    plain = isinstance(x, (int, float, str, bytes))
    return type(x).__name__ + "#" * plain, repr(x) if plain else str(id(x))


def _write_set(x: Any, contents: list[Any]) -> None:
    x.clear()
    x.update(contents)


SET = Kind(lambda x: sorted(x, key=_order), _write_set, _whole)  # sets that hold the same may give it in another order


def _bytes(x: Any) -> list[Any]:
    return [x.shape, x.tobytes() if x.nbytes <= _LARGE else zlib.crc32(np.ascontiguousarray(x).data)]


def _write_bytes(x: Any, contents: list[Any]) -> None:
    shape, data = contents
    if shape == x.shape and isinstance(data, bytes) and x.dtype != object:
        x[...] = np.frombuffer(data, x.dtype).reshape(shape)


NUMPY = Kind(_bytes, _write_bytes, _whole)


@functools.cache
def _slots(kind: type) -> dict[str, Any]:
    """The descriptors of what objects of a class keep in slots, by attribute."""
    classes = reversed(kind.__mro__)
    found = {name: x for base in classes for name, x in vars(base).items() if type(x) is MemberDescriptorType}
    return {name: x for name, x in found.items() if not name.startswith("__")}


@functools.cache
def has_attributes(kind: type) -> bool:
    return kind.__dictoffset__ != 0 or bool(_slots(kind))


def attributes(x: Any) -> dict[str, Any]:
    """What an object's attributes hold."""
    found = dict(getattr(x, "__dict__", ()))
    kind: Any = type(x)
    for name, slot in _slots(kind).items():
        try:
            found[name] = slot.__get__(x)
        except AttributeError:
            continue
    return found


def _write_attributes(x: Any, contents: list[Any]) -> None:
    keys = len(contents) // 2
    before = dict(zip(contents[:keys], contents[keys:], strict=True))
    for name in attributes(x).keys() - before:
        object.__delattr__(x, name)
    for name, value in before.items():
        object.__setattr__(x, name, value)


def _attribute_part(path: Path, x: Any, contents: list[Any], i: int) -> Path:
    keys = len(contents) // 2
    return (path, ".%s", contents[i % keys]) if keys else path


def _read_attributes(x: Any) -> list[Any]:
    found = attributes(x)
    return [*found, *found.values()]


ATTRIBUTES = Kind(_read_attributes, _write_attributes, _attribute_part)


def _class_attributes(x: type) -> list[Any]:
    return [*vars(x), *vars(x).values()]


def _write_class(x: type, contents: list[Any]) -> None:
    keys = len(contents) // 2
    for name, value in zip(contents[:keys], contents[keys:], strict=True):
        if not name.startswith("__") and vars(x).get(name, NOTHING) is not value:
            setattr(x, name, value)


CLASS = Kind(_class_attributes, _write_class, _attribute_part)


def content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return NOTHING


def _write_cell(cell: CellType, contents: list[Any]) -> None:
    if contents[0] is not NOTHING:
        cell.cell_contents = contents[0]


CELL = Kind(lambda cell: [content(cell)], _write_cell, _whole)


class Globals(NamedTuple):
    """The variables of a module that a function names."""

    variables: dict[str, Any]
    names: tuple[str, ...]


def _write_globals(x: Globals, contents: list[Any]) -> None:
    for name, value in zip(x.names, contents, strict=True):
        if value is not NOTHING:
            x.variables[name] = value
        else:
            x.variables.pop(name, None)


GLOBALS = Kind(
    lambda x: [x.variables.get(name, NOTHING) for name in x.names],
    _write_globals,
    lambda path, x, contents, i: (path, ".%s", x.names[i]) if path else x.names[i],
)


def _progress(x: Any) -> list[Any]:
    """How far an iterator is."""
    if isinstance(x, GeneratorType):
        frame = x.gi_frame
        if frame is None:
            return []
        return [frame.f_lasti, *frame.f_locals.values(), *_flat(x.gi_yieldfrom)]
    try:
        return [x.__length_hint__()]
    except (AttributeError, TypeError):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pickling of itertools is deprecated
        try:
            return list(_flat(x.__reduce__()))
        except TypeError:
            return []


def _flat(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple):
        for part in x:
            yield from _flat(part)
    elif isinstance(x, Iterator):
        yield from _progress(x)
    else:
        yield x


ITERATOR = Kind(_progress, lambda x, contents: None, _whole)
