"""Whether what a compiled kernel was made from is still what it was.

    a trace -> all that its function reads (`nvdsl.trace.reads`) -> a state, a number in the key of what is compiled
    the next call -> the guard: is each of them the very object it was? -> the same state, at once
                     no: all is read again, and gives a state that is known by what was read, or a new one

The guard compares identities, in one function that is written for these reads: about 25 ns for each. What the trace
itself changes (a list that it appends a note to) is no change between two calls.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import is_
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from nvdsl.errors import AdvisoryWarning, Where, frames
from nvdsl.mlir import threads
from nvdsl.trace.reads import MISSING, Read, array_state, contents, items, reads

MOST = 64
"""States that one function keeps compilations of, the latest used."""

_MANY = 32  # changes, after which a warning says what changes all the time
_FEW = 8  # elements of a list that are looked at one by one
_numbers = itertools.count(1)

Guard = Callable[[], bool]
State = tuple[tuple[Hashable, Hashable], ...]
"""What was read: places and values."""


_lock = threads.lock()
_all: weakref.WeakSet[Dependencies] = weakref.WeakSet()


class Dependencies:
    """What a function, with the compile-time constants of a call, reads. ``forget`` is called with a dropped state.

    ``state``: of the last look. ``guard``: false where it may be another now.
    """

    def __init__(self, function: Callable[..., Any], forget: Callable[[int], None]) -> None:
        self.function, self.forget = function, forget
        self.state = 0
        self.guard = self._next = never
        self._constants: Sequence[Any] = ()
        self._found: State = ()
        self._names: list[str] = []
        self._states: dict[State, int] = {}
        self._places: set[Hashable] = set()  # of these states
        self._changes = 0
        with _lock:  # another thread may go through them
            _all.add(self)

    def drop(self) -> None:
        """Forget all states."""
        for state in set(self._states.values()):
            self.forget(state)

    def current(self, constants: Sequence[Any]) -> int:
        """The state now. ``constants``: of this call."""
        if self.guard():
            return self.state
        with threads.mlir, _lock:  # once no other thread's trace is under way, which may have changed it
            if self.guard():
                return self.state
            before, names = self._found, self._names
            state = self._states.get(self._read(constants), 0) or next(_numbers)
            if before and state != self.state:
                self._count(before, names)
            self._keep(state)
            return state

    def settle(self, state: int, constants: Sequence[Any]) -> None:
        """After a trace in ``state``: what the trace itself changed is the same state, for all who read it."""
        with _lock:
            before = dict(self._found)
            after = dict(self._read(constants))
            changed = {(x, before[x]): (x, after[x]) for x in before.keys() & after.keys() if before[x] != after[x]}
            if changed:
                places = {place for place, _ in changed}
                for one in list(_all):
                    if one is self or not places.isdisjoint(one._places):  # a process has thousands
                        one._follow(changed, one is self)
            self._keep(state)

    def _follow(self, changed: Mapping[Any, Any], read: bool) -> None:
        """Somebody's trace changed what was read: ``changed``, before -> after. ``read``: it was read again."""
        touched = [found for found in self._states if not changed.keys().isdisjoint(found)]
        for found in touched:
            self._states[tuple([changed.get(one, one) for one in found])] = self._states.pop(found)
        if read or changed.keys().isdisjoint(self._found):
            return
        before, guard, names = self._found, self.guard, self._names
        now = self._read(self._constants)
        if {changed.get(one, one) for one in before} <= set(now):
            self._keep(self.state)
        else:  # it was out of date already
            self._found, self.guard, self._names = before, guard, names

    def _read(self, constants: Sequence[Any]) -> State:
        """Until the next `_keep` no guard holds: another thread would take the state of before with it."""
        found = reads([self.function, *constants])
        self._constants, self.guard, self._next = constants, never, _Guard(found)
        self._found, self._names = tuple([(one.place, one.token) for one in found]), [one.name for one in found]
        return self._found

    def _keep(self, state: int) -> None:
        self._states.pop(self._found, None)
        self._states[self._found] = self.state = state
        self._places.update([place for place, _ in self._found])
        self.guard = self._next  # after the state: who sees the guard sees the state
        self._bound()

    def _bound(self) -> None:
        if len(self._states) <= MOST:
            return
        dropped = self._states.pop(next(iter(self._states)))
        self._places = {place for found in self._states for place, _ in found}
        if dropped not in self._states.values():
            self.forget(dropped)

    def _count(self, before: State, names: list[str]) -> None:
        self._changes += 1
        if self._changes != _MANY:
            return
        now = set(self._found)
        what = next((name for one, name in zip(before, names, strict=True) if one not in now), "what it reads")
        place = frames.caller(kernels=False) or Where("<nvdsl>", 0)
        text = (
            f"what `{self.function.__name__}` reads changed {_MANY} times between its calls, and each time it may be "
            f"compiled again. The last time it was {what}. Pass what changes as an argument, and keep what the kernel "
            "does not need apart from what it reads"
        )
        warnings.warn_explicit(text, AdvisoryWarning, place.file, place.line)


never: Guard = False.__bool__
"""The guard of what was not read yet."""

always: Guard = True.__bool__
"""The guard of what reads nothing."""


class _Guard:
    """Compiled when it is asked first: most functions of a short program are called once."""

    def __init__(self, found: Sequence[Read]) -> None:
        self._terms, self._values = _terms(found)
        self._check: Guard | None = None

    def __call__(self) -> bool:
        return (self._check or self.compiled())()

    def compiled(self) -> Guard:
        """The function itself, without the step through this object."""
        if self._check is None:
            self._check = _compile(self._terms, self._values) if self._terms else always
        return self._check


def compiled(guard: Guard) -> Guard:
    """``guard`` as a plain function, for a call that comes again and again."""
    return guard.compiled() if isinstance(guard, _Guard) else guard


def _terms(found: Sequence[Read]) -> tuple[list[str], list[Any]]:
    """An expression for each read, false where it is another now, over v0, v1, ..., the values."""
    terms: list[str] = []
    values: list[Any] = []

    def put(*given: Any) -> list[str]:
        values.extend(given)
        return [f"v{len(values) - len(given) + i}" for i in range(len(given))]

    def same(expression: str, value: Any) -> None:
        if value is None or value is True or value is False:
            terms.append(f"{expression} is {value}")
            return
        held = _held(value)
        (name,) = put(held)
        terms.append(f"{expression} is {name}" if held is value else f"{name}() is {expression} is not None")

    def mapping(holder: dict[str, Any]) -> None:
        where, order = put(holder, list(holder))
        terms.append(f"[*{where}] == {order}")  # a trace may go through them
        elements(where, holder)

    def elements(where: str, holder: dict[str, Any]) -> None:
        for key, value in holder.items():
            same(f"{where}[{key!r}]", value)

    for kind, holder, key, value, _ in found:
        if kind in _PLACES:
            (where,) = put(vars(holder) if kind == "attribute" else holder)
            there, absent = _PLACES[kind]
            if value is MISSING:
                terms.append(absent.format(where, key))
            else:
                same(there.format(where, key), value)
        elif kind == "function":
            (function,) = put(holder)
            same(f"{function}.__code__", value[0])
            same(f"{function}.__defaults__", holder.__defaults__)
            named = holder.__kwdefaults__
            same(f"{function}.__kwdefaults__", named)
            if named:
                (where,) = put(named)
                elements(where, named)
        elif kind == "items":
            if isinstance(holder, dict) and all(isinstance(k, str) for k in holder):
                mapping(holder)
            elif isinstance(holder, list | deque) and len(holder) <= _FEW:
                (where,) = put(holder)
                terms.append(f"len({where}) == {len(value)}")
                for i, one in enumerate(value):
                    same(f"{where}[{i}]", one)
            else:
                terms.append("alike(items({}), {})".format(*put(holder, value)))
        else:
            terms.append("array_state({}) == {}".format(*put(holder, value)))
    return terms, values


_PLACES = {
    "item": ("{}[{!r}]", "{1!r} not in {0}"),
    "attribute": ("{}[{!r}]", "{1!r} not in {0}"),
    "slot": ("{}.{}", "not hasattr({}, {!r})"),
    "cell": ("{}.cell_contents", "contents({}) is missing"),
}
"""How a guard reads one value of a holder, and how it says that there is none."""


def _held(value: Any) -> Any:
    """The value, or a weak reference to it: a guard keeps no tensor alive."""
    if isinstance(value, _KEPT):
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return value


_KEPT = (int, float, complex, str, bytes, tuple, np.generic, FunctionType, CodeType, ModuleType, type)


def _compile(terms: list[str], values: list[Any]) -> Guard:
    """Values are defaults of parameters: locals, the fastest to read."""
    parameters = ", ".join(f"v{i}=v{i}" for i in range(len(values)))
    parts = [terms[i : i + 200] for i in range(0, len(terms), 200)]
    body = "".join(f"    if not ({' and '.join(part)}): return False\n" for part in parts[:-1])
    text = (
        f"def guard({parameters}):\n  try:\n{body}    return {' and '.join(parts[-1])}\n"
        "  except (KeyError, IndexError, ValueError, AttributeError):\n    return False\n"
    )
    scope: dict[str, Any] = {f"v{i}": value for i, value in enumerate(values)}
    scope |= {"alike": _alike, "items": items, "array_state": array_state, "contents": contents, "missing": MISSING}
    exec(compile(text, "<nvdsl guard>", "exec"), scope)
    guard: Guard = scope["guard"]
    return guard


def _alike(now: tuple[Any, ...], then: tuple[Any, ...]) -> bool:
    return len(now) == len(then) and all(map(is_, now, then))
