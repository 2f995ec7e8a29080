"""What a name holds, taken apart into values that MLIR can merge and carry, and put together again.

*Leaves* are numbers and traced values. They may sit in tuples (named ones, too), lists and dicts, and in
objects with the carry protocol: ``__nv_values__()`` gives the object's traced values (it may emit ops for
them), and ``__nv_rebuild__(values)`` the same kind of object around others; neither changes the object. Two of them
are merged only if their ``__nv_key__``, where they have one, is equal: what the values do not say. Any
other object is a leaf that stays as it is: it can't be merged or carried, only be the same on both ways.

A list or dict whose elements the user's code assigns (place ``"x[]"``) is filled again in place, so that
who else holds it sees the new values; where its name is assigned (place ``"x"``), the name gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from nvdsl.errors import TraceError
from nvdsl.errors.frames import caller
from nvdsl.errors.records import dataclass
from nvdsl.mlir import ir
from nvdsl.trace.exits import RESULT
from nvdsl.values import dtypes
from nvdsl.values.traced import Unsigned, Value, as_value, wrap

MISSING = type("Missing", (), {"__repr__": lambda self: "<not assigned>"})()


def shown(place: str) -> str:
    """A place as messages name it."""
    if place == RESULT:
        return "the returned value"
    return f"an element of `{place[:-2]}`" if place.endswith("[]") else f"`{place}`"


class Undefined:
    """Stands for what has no value here, and why: each use of it raises a ``TraceError``."""

    def __init__(self, place: str, message: str, fix: str) -> None:
        object.__setattr__(self, "_parts", (shown(place), message, fix))

    def __repr__(self) -> str:
        name, message, _ = object.__getattribute__(self, "_parts")
        return f"<{name}: {message}>"

    def __getattribute__(self, attribute: str) -> NoReturn:
        name, message, fix = object.__getattribute__(self, "_parts")
        raise TraceError(f"{name} is used, but {message}", where=caller(), fix=fix)

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        return self.any_attribute  # raises


_OPERATORS = """add sub mul truediv floordiv mod divmod pow matmul lshift rshift and or xor
    radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow rmatmul rlshift rrshift rand ror rxor
    iadd isub imul itruediv ifloordiv imod ipow imatmul ilshift irshift iand ior ixor
    neg pos abs invert eq ne lt le gt ge bool int float complex index round len iter next contains reversed
    getitem setitem delitem setattr delattr call enter exit hash str format"""
for _operator in _OPERATORS.split():
    setattr(Undefined, f"__{_operator}__", Undefined._use)


@dataclass
class Frozen:
    """What ``obj`` held at one moment. ``parts`` is None for a leaf."""

    obj: Any
    parts: list[Frozen] | None = None
    keys: tuple[Any, ...] = ()

    def leaves(self) -> Iterator[Any]:
        if self.parts is None:
            yield self.obj
        else:
            for part in self.parts:
                yield from part.leaves()

    def shape(self) -> Any:
        """Equal for two objects whose leaves correspond."""
        if self.parts is None:
            return None
        return type(self.obj), self.keys, [part.shape() for part in self.parts]

    def thaw(self, leaves: Iterator[Any], in_place: bool = False) -> Any:
        """The object with other ``leaves``."""
        if self.parts is None:
            return next(leaves)
        if hasattr(type(self.obj), "__nv_values__"):
            return self._carrier([part.thaw(leaves) for part in self.parts])
        return _rebuild(self.obj, self.keys, [part.thaw(leaves, in_place) for part in self.parts], in_place)

    def _carrier(self, values: list[Any]) -> Any:
        undefined = [value for value in values if type(value) is Undefined]
        if undefined:
            return undefined[0]
        assert self.parts is not None
        if all(new is old.obj for new, old in zip(values, self.parts, strict=True)):
            return self.obj
        return self.obj.__nv_rebuild__(values)


def freeze(x: Any) -> Frozen:
    kind = type(x)
    if kind is Undefined or isinstance(x, (ir.Value, int, float, str)):
        return Frozen(x)
    if kind is list or isinstance(x, tuple) and (kind is tuple or hasattr(x, "_fields")):
        return Frozen(x, [freeze(part) for part in x])
    if kind is dict:
        return Frozen(x, [freeze(part) for part in x.values()], tuple(x))
    if hasattr(kind, "__nv_values__"):
        return Frozen(x, [Frozen(value) for value in x.__nv_values__()], (getattr(x, "__nv_key__", None),))
    return Frozen(x)


def _rebuild(obj: Any, keys: tuple[Any, ...], parts: list[Any], in_place: bool) -> Any:
    kind = type(obj)
    now = list(obj.values() if kind is dict else obj)
    as_before = len(now) == len(parts) and all(new is old for new, old in zip(parts, now, strict=True))
    if as_before and (kind is not dict or tuple(obj) == keys):
        return obj
    if kind is dict:
        target = obj if in_place else {}
        target.clear()
        target.update(zip(keys, parts, strict=True))
        return target
    if kind is list and in_place:
        obj[:] = parts
        return obj
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def is_number(x: Any) -> bool:
    """Is ``x`` a number that may become a traced value? (An enumeration's member stays what it is.)"""
    return type(x) in (bool, int, float) or isinstance(x, np.generic) and x.dtype in _NUMPY


_NUMPY = frozenset(t.numpy for t in dtypes.ALL)


def is_value(x: Any) -> bool:
    return type(x) is not Undefined and isinstance(x, ir.Value)


def same(a: Any, b: Any) -> bool:
    """Are the leaves ``a`` and ``b`` one object, one SSA value, or one number?"""
    if a is b:
        return True
    if Undefined in (type(a), type(b)):
        return False
    if isinstance(a, ir.Value) and isinstance(b, ir.Value):
        return ir.Value.__eq__(a, b) and _signedness(a) == _signedness(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, str):
        return a == b
    return is_number(a) and repr(a) == repr(b)  # -0.0 is not 0.0, NaN is NaN


def describe(x: Any) -> str:
    """The type of a leaf as messages name it."""
    if type(x) is Undefined or x is MISSING:
        return "not assigned"
    if isinstance(x, Value):
        shape = "x".join(map(str, x.shape))
        return f"{x.dtype.name} vector of {shape}" if shape else x.dtype.name
    if isinstance(x, ir.Value):
        return str(x.type)
    if x is None:
        return "None"
    if hasattr(type(x), "__nv_key__"):
        return repr(x)
    kind = type(x).__name__
    if isinstance(x, (list, tuple, dict)):
        return f"a {kind} of {len(x)}"
    return f"the Python {kind} {x}" if is_number(x) else f"a Python {kind}"


def one_type(place: str, where: str, *objects: Any) -> str:
    """What to write so that ``objects``, which a place holds on different ways, can be merged."""
    if any(is_value(x) or is_number(x) for x in objects):
        return f"give {shown(place)} one type {where}, with nv.f32(...) for example"
    if all(hasattr(type(x), "__nv_key__") for x in objects):
        return f"give {shown(place)} one shape and type {where}"
    return (
        f"assign the traced parts of {shown(place)} to variables of their own, or give its class the methods "
        "__nv_values__ (its traced values) and __nv_rebuild__(values) (the same around others)"
    )


def alike(a: Any, b: Any) -> bool:
    """Have two ``ir.Value``s one type, of one signedness?"""
    return a.type == b.type and _signedness(a) == _signedness(b)


def _signedness(x: Any) -> Any:
    """What a Python object knows about its elements that its MLIR type does not say."""
    return isinstance(x, Unsigned) if isinstance(x, Value) else getattr(x, "_dtype", None)


def retyped(raw: Any, old: Any) -> Any:
    """``raw``, a result or block argument that stands for ``old``, with what ``old`` knows in Python."""
    if isinstance(old, Value):
        return wrap(raw, old.dtype)
    if type(raw) is type(old) and "_dtype" in getattr(old, "__dict__", ()):  # a memref's array remembers its dtype
        raw._dtype = old._dtype
    return raw


def typed(number: Any, beside: Value) -> Value | None:
    """A Python number as a value of the type of ``beside``; None if it is of another kind."""
    t = dtypes.of(number)
    if beside.shape or isinstance(number, np.generic) and t is not beside.dtype:
        return None
    kinds = {"bool": ("bool",), "int": ("int", "index", "float"), "float": ("float",)}
    return as_value(number, like=beside) if beside.dtype.kind in kinds[t.kind] else None


def unify(a: Any, b: Any) -> tuple[Any, Any] | None:
    """The leaves ``a`` and ``b`` as values of one type, or None if they have none in common."""
    if Undefined in (type(a), type(b)):
        return None
    if isinstance(a, ir.Value) and isinstance(b, ir.Value):
        return (a, b) if alike(a, b) else None
    if isinstance(a, Value) and is_number(b):
        second = typed(b, a)
        return None if second is None else (a, second)
    if is_number(a) and isinstance(b, Value):
        first = typed(a, b)
        return None if first is None else (first, b)
    if is_number(a) and is_number(b):
        common = dtypes.common(dtypes.of(a), dtypes.of(b))
        return None if common is None else (as_value(a, like=common), as_value(b, like=common))
    return None


Scope = dict[str, Any]  # the local variables of the user's function
Getters = dict[str, Callable[[], Any]]  # by place that is no name: how to get the object it is a part of


def read(place: str, scope: Scope, getters: Getters) -> Frozen:
    """What ``place`` (see liveness) holds now; ``MISSING`` if nothing."""
    if place.isidentifier():
        return freeze(scope.get(place, MISSING))
    holder = owner(place, getters)
    if holder is MISSING or place.endswith("[]"):
        return freeze(holder)
    return freeze(getattr(holder, place.rpartition(".")[2], MISSING))


def part(x: Any, key: int | str) -> Any:
    """The element of a container that is carried by its leaves; ``MISSING`` of anything else."""
    if type(x) is dict:
        return x.get(key, MISSING)
    is_sequence = type(x) is list or type(x) is not Undefined and isinstance(x, tuple)
    return x[key] if is_sequence and isinstance(key, int) and -len(x) <= key < len(x) else MISSING


def owner(place: str, getters: Getters) -> Any:
    """The object that ``place`` is an attribute or the contents of; ``MISSING`` if there is none."""
    try:
        return getters[place]()
    except (AttributeError, NameError):
        return MISSING


class Merge:
    """Two ways that meet. ``pairs``: the leaves that differ, as pairs of values of one type."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []

    def add(
        self, then: Frozen, other: Frozen, undefined: Callable[[Any, Any], Any], in_place: bool = False
    ) -> Callable[[Sequence[Any]], Any]:
        """Take in what one place holds on either way. The function that is returned makes the merged object
        of the pairs' results. ``undefined(a, b)`` makes what stands for leaves that can't be merged."""
        if then.shape() != other.shape():
            nothing = undefined(then.obj, other.obj)
            return lambda results: nothing
        leaves = [self._leaf(a, b, undefined) for a, b in zip(then.leaves(), other.leaves(), strict=True)]
        return lambda results: then.thaw((leaf(results) for leaf in leaves), in_place)

    def _leaf(self, a: Any, b: Any, undefined: Callable[[Any, Any], Any]) -> Callable[[Sequence[Any]], Any]:
        if same(a, b):
            return lambda results: a
        pair = unify(a, b)
        if pair is None:
            nothing = undefined(a, b)
            return lambda results: nothing
        position = len(self.pairs)
        self.pairs.append(pair)
        return lambda results: retyped(results[position], pair[0])
