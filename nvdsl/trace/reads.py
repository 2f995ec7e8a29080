"""What a function reads outside of its arguments: globals, closure cells, defaults, attributes, elements of containers.

`reads` follows names as far as the user's code goes. It starts at a function (and at what it is given), takes the names
that its code loads, looks at their values, and goes on with the functions, classes and objects that it finds. Of a
module, a class or an object it takes the attributes that are named by some code on the way; of a list, a dict or a set
everything. A function that is named counts as called. Python's own library and installed packages are not followed
(unless one of their functions was decorated), nor is nvdsl itself: they are taken as they were imported.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import enum
import sys
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from nvdsl.errors.frames import is_own_name
from nvdsl.trace.loaded import names, wrapped
from nvdsl.trace.tokens import Same, token

LIBRARIES = ("numpy", "ml_dtypes", "torch", "cupy", "jax", "nvdsl")
"""What they hold is no part of a kernel, and there is much of it."""

MISSING = Same("missing")
"""The value of a name, an attribute or a cell that is not there."""


class Read(NamedTuple):
    """``name``: for people. By ``kind``, what was read of the ``holder``:

    ==========  ================================================================================================
    item        ``holder[key]``, of a dict of globals
    attribute   ``vars(holder)[key]``, of a module, a class, an object
    slot        ``holder.key``, of an object with slots
    cell        its contents; ``key`` is the code that they are free in, and the name there
    function    ``value``: its code, defaults, and keyword defaults, a tuple of names and values
    items       ``value``: keys and values, or elements, a tuple
    array       ``value``: dtype, shape, strides, bytes
    ==========  ================================================================================================
    """

    kind: str
    holder: Any
    key: Any
    value: Any
    name: str

    @property
    def place(self) -> Hashable:
        """What was read, but for its value. A function and its closure are made anew by each turn of a loop."""
        return self.kind, None if self.kind in ("cell", "function") else Weak.of(self.holder), self.key

    @property
    def token(self) -> Hashable:
        """Equal for values that mean the same to a trace."""
        return _token(self.value)


class Weak:
    """Equal for one object only, which it does not keep."""

    __slots__ = ("_hash", "ref")

    def __init__(self, ref: Any, number: int) -> None:
        self.ref, self._hash = ref, number

    @staticmethod
    def of(value: Any) -> Hashable:
        try:
            return Weak(weakref.ref(value), id(value))  # one and the same as long as the object lives
        except TypeError:
            return Same(value)

    def __eq__(self, other: Any) -> bool:
        return other.__class__ is Weak and other.ref is self.ref

    def __hash__(self) -> int:
        return self._hash


def _token(value: Any) -> Hashable:
    """By type and bits where that is all there is to a value; by identity otherwise: what is in it is another read."""
    if isinstance(value, FunctionType):
        return Same(value.__code__), Same(value.__globals__)
    if isinstance(value, _ATOMS):
        return token(value)
    if isinstance(value, tuple):
        return value.__class__, tuple([_token(x) for x in value])
    return Weak.of(value)


_ATOMS = (int, float, complex, str, bytes, bool, type(None), np.generic, range)


_REFLECTIVE = frozenset(
    "getattr hasattr vars __dict__ asdict astuple replace fields attrgetter methodcaller copy deepcopy".split()
)
"""What reads attributes without naming them: beside one of these every attribute of an object is read."""

_ALL_GLOBALS = frozenset(("eval", "exec", "globals"))
"""Functions beside which every global of their module is read."""


def is_followed(module: str | None) -> bool:
    """Whether what belongs to the module is the user's."""
    name = module or ""
    return name.partition(".")[0] not in LIBRARIES and is_own_name(name)


def reads(roots: Iterable[Any], follow: Callable[[str | None], bool] = is_followed) -> list[Read]:
    """All that is read by the functions and of the objects ``roots``, in an order that depends on nothing else."""
    return _Walk(follow).run(roots)


class _Walk:
    def __init__(self, follow: Callable[[str | None], bool]) -> None:
        self.follow = follow
        self.found: list[Read] = []
        self.seen: dict[int, Any] = {}  # what was reached; kept, so that no id comes twice
        self.waiting: deque[tuple[Any, str]] = deque()
        self.holders: list[tuple[Any, str]] = []  # modules, classes, objects: their attributes are read as named
        self.attributes: set[str] = set()
        self.looked: set[tuple[int, str]] = set()
        self.inherited: dict[tuple[int, bool], frozenset[str]] = {}
        self.reflective = False

    def run(self, roots: Iterable[Any]) -> list[Read]:
        self.waiting.extend((root, "") for root in roots)
        size = -1
        while size != (size := len(self.attributes) + len(self.holders)) or self.waiting:
            while self.waiting:
                self.reach(*self.waiting.popleft())
            for holder, name in list(self.holders):
                self.look(holder, name)
        return self.found

    def read(self, kind: str, holder: Any, key: Any, value: Any, name: str) -> None:
        self.found.append(Read(kind, holder, key, value, name))
        self.waiting.append((value, name))

    def reach(self, value: Any, name: str) -> None:
        if isinstance(value, _ATOMS) or id(value) in self.seen or value is MISSING:
            return
        self.seen[id(value)] = value
        if isinstance(value, FunctionType):
            if self.follow(value.__module__):
                self.function(value)
        elif parts := wrapped(value):
            self.waiting += ((part, name) for part in parts)
        elif isinstance(value, ModuleType):
            if self.follow(value.__name__):
                self.holders.append((value, value.__name__))
        elif isinstance(value, type):
            self.cls(value)
        elif isinstance(value, np.ndarray | bytearray | array.array):
            self.found.append(Read("array", value, None, array_state(value), name))
            if isinstance(value, np.ndarray) and value.dtype.hasobject:
                self.waiting += ((part, name) for part in value.ravel().tolist())
        else:
            self.object(value, name)

    def function(self, function: FunctionType) -> None:
        code, scope = function.__code__, function.__globals__
        named, what = names(code), code.co_name
        if code.co_filename != "<string>":  # what a dataclass generates stays as it is
            defaults = code, function.__defaults__, items(function.__kwdefaults__ or {})
            self.read("function", function, None, defaults, f"`{what}` or its defaults")
        for cell, free in zip(function.__closure__ or (), code.co_freevars, strict=True):
            self.read("cell", cell, (Same(code), free), contents(cell), f"`{free}` of `{what}`")
        loaded: Iterable[str] = named.globals
        if named.globals & _ALL_GLOBALS:
            loaded = named.globals | {name for name in scope if name[:2] != "__"}
        for name in sorted(loaded):
            key = id(scope), name
            if key not in self.looked:
                self.looked.add(key)
                self.read("item", scope, name, scope.get(name, MISSING), f"the global `{name}`")
        for name in sorted(named.imports):
            package = scope.get("__package__") or ""
            for full in (name, name.partition(".")[0], f"{package}.{name}".rstrip(".")):
                if full in sys.modules and self.follow(full):
                    self.read("item", sys.modules, full, sys.modules[full], f"the module `{full}`")
        self.attributes |= named.attributes
        self.reflective |= bool(_REFLECTIVE & (named.globals | named.attributes))

    def cls(self, cls: type) -> None:
        self.waiting.append((type(cls), cls.__name__))
        for base in cls.__mro__:
            if not self.follow(base.__module__):
                continue
            if id(base) not in self.seen or base is cls:
                self.seen[id(base)] = base
                self.holders.append((base, base.__name__))
                for key, value in list(vars(base).items()):
                    if key[:2] == "__" and isinstance(value, FunctionType):  # called without its name
                        self.attribute("attribute", base, key, value, base.__name__)

    def object(self, value: Any, name: str) -> None:
        """Anything else: what it contains, and what attributes it has."""
        if isinstance(value, Mapping | list | set | deque):
            self.read("items", value, None, items(value), f"an element of {name}")
        elif isinstance(value, tuple | frozenset):
            self.waiting += ((part, name) for part in value)
        if callable(value):
            with contextlib.suppress(Exception):  # what a `__getattr__` of the user's raises
                self.waiting += [(inner, name) for inner in [value.__wrapped__] if inner is not None]
        kind = type(value)
        if kind.__module__.partition(".")[0] in LIBRARIES and not self.follow(kind.__module__):
            if dataclasses.is_dataclass(value):  # an epilogue of nvdsl's around a function of the user's
                self.waiting += ((getattr(value, field.name), name) for field in dataclasses.fields(value))
            return
        self.waiting.append((kind, kind.__name__))
        self.holders.append((value, name))

    def look(self, holder: Any, name: str) -> None:
        """The attributes of a module, a class or an object that some code names."""
        own = getattr(holder, "__dict__", {})
        everything = self.reflective and not isinstance(holder, ModuleType | type) or isinstance(holder, enum.Enum)
        wanted = own.keys() if everything else own.keys() & self.attributes
        for key in sorted(wanted):
            self.attribute("attribute", holder, key, own[key], name)
        if isinstance(holder, ModuleType):
            return
        slots = () if isinstance(holder, type) else _slots(type(holder))
        for key in slots:
            if everything or key in self.attributes:
                self.attribute("slot", holder, key, getattr(holder, key, MISSING), name)
        if hasattr(holder, "__dict__"):
            of_bases = self.names_of_bases(holder) & self.attributes
            for key in sorted(of_bases - wanted - set(slots)):  # one of its own would hide the class's
                self.attribute("attribute", holder, key, MISSING, name)

    def names_of_bases(self, holder: Any) -> frozenset[str]:
        """The attributes that a class has from its bases, or an object from its class."""
        is_class = isinstance(holder, type)
        cls = holder if is_class else type(holder)
        if (names := self.inherited.get((id(cls), is_class))) is None:
            bases = cls.__mro__[1:] if is_class else cls.__mro__
            names = self.inherited[id(cls), is_class] = frozenset().union(*(vars(base) for base in bases))
        return names

    def attribute(self, kind: str, holder: Any, key: str, value: Any, name: str) -> None:
        if (id(holder), key) not in self.looked:
            self.looked.add((id(holder), key))
            self.read(kind, holder, key, value, f"`{name.rpartition(' ')[2].strip('`')}.{key}`")


def items(container: Any) -> tuple[Any, ...]:
    """Keys and values, or elements."""
    if isinstance(container, Mapping):
        return (*container.keys(), *container.values())
    return tuple(container)


def array_state(value: Any) -> tuple[Any, ...]:
    """All that a trace can read of an array, NumPy's or Python's."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.strides, value.tobytes()
    return (bytes(value),)


def contents(cell: Any) -> Any:
    """What is in a closure's cell; `MISSING` before it is assigned."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _slots(kind: type) -> tuple[str, ...]:
    found = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else [name for name in slots if name[:2] != "__"]
    return tuple(found)
