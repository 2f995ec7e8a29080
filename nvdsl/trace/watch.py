"""State that code in a traced region changes behind the region's back.

A region merges or carries what its own statements assign. Other state may change in it, too: elements of a list in a
helper, attributes in a method, an iterator, a global. That would happen once, while the region is traced, whatever the
kernel does. So what can be reached from the region's variables is compared before and after, and a change is an
error. Which line made it, only a second trace finds out, which looks after each line: see ``located``.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

from nvdsl.errors import TraceError, Where, frames
from nvdsl.trace import storage
from nvdsl.trace.carry import Getters, Scope, is_value, owner, same
from nvdsl.trace.reach import Reach
from nvdsl.trace.storage import NOTHING, Storage, shown

T = TypeVar("T")


class StateError(TraceError):
    """A change that a region does not carry. ``undo`` puts back what was there before."""

    undo: Callable[[], None]


class Watch:
    """``scope``: the variables of the function that the region is in, by name. ``places``, ``getters``: what
    the region merges or carries. ``operand``: the region is a lambda, one of the variables."""

    def __init__(
        self,
        scope: Scope,
        places: Sequence[str] = (),
        getters: Getters | None = None,
        operand: bool = False,
    ) -> None:
        frame = frames.innermost(sys._getframe(1))
        self.where = frames.at(frame)
        # What has the carry protocol and is assigned there is carried as a whole; so are elements that are.
        reach = Reach({id(scope.get(p)) for p in places if hasattr(type(scope.get(p)), "__nv_values__")})
        self._names = {p: scope.get(p, NOTHING) for p in places if p.isidentifier()}
        self._attributes: set[tuple[int, str]] = set()
        for place in places:
            if place.endswith("[]"):
                self._skip(reach, place[:-2], owner(place, getters or {}))
            elif not place.isidentifier():
                self._attributes.add((id(owner(place, getters or {})), place.rpartition(".")[2]))
        reach.variables(scope)
        if frame is not None and not operand:
            reach.named(frame.f_code, frame.f_globals)
        self._before = [(found, found.read()) for found in reach.follow() if not self._is_carried(found)]
        if (search := _search.get()) is not None:
            search.open(self)

    def _skip(self, reach: Reach, path: str, x: Any) -> None:
        """Leave out what is filled again in place, but not the objects in it."""
        if type(x) is not list and type(x) is not dict and not isinstance(x, tuple):
            reach.variables({path: x})
        elif id(x) not in reach.seen:
            reach.seen.add(id(x))
            for part in x.values() if type(x) is dict else x:
                self._skip(reach, path, part)

    def _is_carried(self, found: Storage) -> bool:
        """Is it a variable that the region's own statements assign?"""
        if found.kind is not storage.CELL or found.path not in self._names:
            return False
        return storage.content(found.holder) is self._names[found.path]

    def check(self, what: str, but: Iterable[str] = (), last: bool = True) -> None:
        """Raise a ``TraceError`` if something changed, ``but`` for these variables. ``what``: the region, in messages.
        ``last``: nobody asks again."""
        search, assigned = _search.get(), set(but)
        for found, before in self._before:
            if found.kind is storage.CELL and found.path in assigned:
                continue
            now = found.read()
            if not _alike(before, now) and (path := self._difference(found, before, now)) is not None:
                where = search.line(self, found) if search is not None else self.where
                as_many = len(before) == len(now)
                error = _changed(shown(path), found, as_many, f"{what} ({self.where})", where or self.where)
                error.undo = self._undo
                raise error
        if search is not None and last:
            search.close(self)

    def changed(self) -> Iterator[Storage]:
        """What is not as it was at first."""
        return (found for found, before in self._before if not _alike(before, found.read()))

    def _difference(self, found: Storage, before: list[Any], now: list[Any]) -> Any:
        """The path of what changed; None if the region carries all of it."""
        if found.kind is storage.ATTRIBUTES or found.kind is storage.CLASS:
            return self._attribute(found, before, now)
        if len(before) != len(now):
            return found.path
        (position, *_) = (i for i, (a, b) in enumerate(zip(before, now, strict=True)) if not unchanged(a, b))
        return found.kind.part(found.path, found.holder, before, position)

    def _attribute(self, found: Storage, before: list[Any], now: list[Any]) -> Any:
        old, new = _halves(before), _halves(now)
        for name in {**old, **new}:
            a, b = old.get(name, NOTHING), new.get(name, NOTHING)
            carried = (id(found.holder), name) in self._attributes or found.kind is storage.CLASS and name[:2] == "__"
            if not (carried or unchanged(a, b) or _is_cached(found.holder, name, a, b)):
                return found.path, ".%s", name
        return None

    def _undo(self) -> None:
        for found, before in self._before:
            if not _alike(before, found.read()):
                found.kind.write(found.holder, before)


def of_thunk(thunk: Any) -> Watch:
    """Watches what a lambda can reach."""
    cells = zip(thunk.__code__.co_freevars, thunk.__closure__ or (), strict=True)
    variables = {name: storage.content(cell) for name, cell in cells}
    return Watch({"the operand": thunk, **variables}, operand=True)


def unchanged(a: Any, b: Any) -> bool:
    """Is ``b`` what ``a`` was: the same object, number or value, or a tuple of such?"""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(unchanged, a, b))
    return type(a) is bytes and a == b or same(a, b)


def _alike(before: list[Any], now: list[Any]) -> bool:
    if len(before) != len(now):
        return False
    return all(map(operator.is_, before, now)) or all(map(unchanged, before, now))


def _halves(contents: list[Any]) -> dict[str, Any]:
    count = len(contents) // 2
    return dict(zip(contents[:count], contents[count:], strict=True))


def _is_cached(x: Any, name: str, before: Any, now: Any) -> bool:
    """Is an attribute there because a ``cached_property`` was asked, whose value is no traced one?"""
    made = getattr(type(x), name, None) if before is NOTHING else None
    return isinstance(made, functools.cached_property) and not is_value(now)


def _changed(name: str, found: Storage, as_many: bool, what: str, where: Where | None) -> StateError:
    if found.kind is storage.ITERATOR:
        fix = "take what it gives before the statement, into a list; count in a variable that the statement assigns"
    elif found.kind is storage.NUMPY:
        fix = f"make it a list, `{name} = {name}.tolist()`, whose elements the statement assigns: they are carried"
    elif as_many or found.kind is storage.ATTRIBUTES:
        fix = f"return the new value from the call, and assign it in the statement: `{name} = ...`"
    else:
        fix = f"make all that `{name}` holds before the statement, and in it assign elements: `{name}[i] = ...`"
    fix += " (what is meant to happen once goes before the statement)"
    return StateError(
        f"{what} changes `{name}` without carrying it",
        where=where,
        rule="carried are variables, attributes of objects, and elements of lists and dicts that its own statements "
        "assign by their names; what else changes, in a call above all, would change once, while it is traced",
        fix=fix,
    )


class _Search:
    """Looks, after each line of user code, for changes in what the open watches watch."""

    def __init__(self) -> None:
        self._open: list[Watch] = []
        self._lines: dict[tuple[int, int], Where | None] = {}  # by watch and holder: the line that changed it last
        self._seen: dict[tuple[int, int], list[Any]] = {}
        self._at: Where | None = None  # the line that runs

    def open(self, watch: Watch) -> None:
        self._open.append(watch)

    def close(self, watch: Watch) -> None:
        self._open = [x for x in self._open if x is not watch]

    def line(self, watch: Watch, found: Storage) -> Where | None:
        self._look()
        return self._lines.get((id(watch), id(found.holder)))

    def _look(self) -> None:
        for watch in self._open:
            for found in watch.changed():
                key, now = (id(watch), id(found.holder)), found.read()
                if key not in self._seen or not _alike(self._seen[key], now):
                    self._seen[key], self._lines[key] = now, self._at

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not frames.is_user(file) or frames.is_installed(file):
            return None
        self._look()
        if event == "return":
            self._at = frames.at(frames.innermost(frame.f_back))
        elif not frame.f_code.co_flags & inspect.CO_GENERATOR:  # of a generator, who asks it is named
            self._at = Where(frame.f_code.co_filename, frame.f_lineno)
        return self.trace


_search: ContextVar[_Search | None] = ContextVar("nvdsl_search", default=None)


def located(trace: Callable[[], T]) -> T:
    """What ``trace`` gives. A ``StateError`` names the line that made the change: the trace is done again for it."""
    try:
        return trace()
    except StateError as found:
        found.undo()
    with _searching():
        try:
            return trace()  # another thread changed it
        except StateError as found:
            found.undo()
            first = found
    error = TraceError(first.message, where=first.where, rule=first.rule, fix=first.fix)
    raise error.with_traceback(first.__traceback__) from None


@contextmanager
def _searching() -> Iterator[None]:
    search, before, outer = _Search(), sys.gettrace(), _search.get()
    try:
        _search.set(search)
        sys.settrace(search.trace)
        yield
    finally:
        sys.settrace(before)
        _search.set(outer)
