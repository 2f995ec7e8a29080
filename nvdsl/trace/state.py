"""What a traced loop carries from pass to pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from nvdsl.errors import TraceError, Where
from nvdsl.errors.frames import caller
from nvdsl.errors.records import dataclass
from nvdsl.mlir import ir
from nvdsl.trace.carry import (
    MISSING,
    Getters,
    Scope,
    Undefined,
    alike,
    describe,
    is_number,
    one_type,
    read,
    retyped,
    same,
    shown,
    typed,
)
from nvdsl.trace.reach import Reach
from nvdsl.trace.watch import Watch
from nvdsl.values.traced import Value, as_value

_MISFIT = object()


@dataclass
class Leaf:
    """A leaf of what a place holds before the loop. ``init``: its value; None for what can't be carried."""

    before: Any
    init: Any = None
    bound: Any = None  # what stands for it in the pass that is traced
    changed: bool = False

    def after(self, results: Iterator[Any]) -> Any:
        if self.init is None:
            return self.bound
        result = retyped(next(results), self.init)
        return result if self.changed else self.before  # a number that stays the same stays Python's


class LoopState:
    """The places that a loop carries, and ``inits``: the values that they start with.

    Python numbers become traced values: int i32, float f32, bool i1.
    """

    def __init__(self, carried: Sequence[tuple[str, int, bool]], scope: Scope, getters: Getters) -> None:
        self.where = caller()
        self.carried = carried
        self.getters = getters = getters | self._renewed(scope)
        self.watch = Watch(scope, [place for place, _, _ in carried], getters)
        self.entries = [read(place, scope, getters) for place, _, _ in carried]
        self.leaves = [[Leaf(x, _init(x)) for x in entry.leaves()] for entry in self.entries]
        self.lost: dict[str, Undefined] = {}

    def _renewed(self, scope: Scope) -> Getters:
        """What the body gives a new value and also changes by its elements is carried by its name alone.

        Raises ``TraceError`` if somebody else holds the list: the first pass would change it, the others would not.
        """
        found: Getters = {}
        names = {place: line for place, line, _ in self.carried if place.isidentifier()}
        for place, _, _ in self.carried:
            name = re.split(r"[.[]", place)[0]
            if not place.endswith("[]") or name not in names:
                continue
            found[place] = lambda: MISSING
            held = scope.get(name)
            others = Reach(set())
            others.variables({other: x for other, x in scope.items() if other != name})
            others.follow()
            if type(held) in (list, dict) and id(held) in others.seen:
                raise TraceError(
                    f"the loop at {self.where} changes elements of `{name}` and also makes it a new "
                    f"{type(held).__name__}",
                    where=Where(self.where.file, names[name]) if self.where else None,
                    rule="another variable holds it as well: the first pass would change that, the others would not",
                    fix=f"copy it before the loop, `{name} = {name}.copy()`, or assign `{name}[:] = ...`",
                )
        return found

    @property
    def inits(self) -> list[Any]:
        return [leaf.init for leaves in self.leaves for leaf in leaves if leaf.init is not None]

    def bind(self, values: Sequence[Any]) -> list[Any]:
        """What the places hold in a pass, ``values`` being the block arguments for ``inits``."""
        following = iter(values)
        objects = []
        for (place, _, _), entry, leaves in zip(self.carried, self.entries, self.leaves, strict=True):
            for leaf in leaves:
                leaf.bound = leaf.before if leaf.init is None else retyped(next(following), leaf.init)
                if leaf.before is MISSING:
                    leaf.bound = self._unassigned(place)
            objects.append(entry.thaw((leaf.bound for leaf in leaves), place.endswith("[]")))
        return objects

    def collect(self, scope: Scope) -> list[Any]:
        """The values for the next pass, one for each of ``inits``.

        Raises ``TraceError`` for a place that holds another type than before the loop, if a pass may read it.
        A place that no pass reads before it assigns it is undefined after the loop instead.
        """
        values: list[Any] = []
        for carried, entry, leaves in zip(self.carried, self.entries, self.leaves, strict=True):
            now = read(carried[0], scope, self.getters)
            fits = now.shape() == entry.shape()
            if not fits:
                self._misfit(*carried, Leaf(entry.obj), now.obj)
            for leaf, x in zip(leaves, now.leaves() if fits else repeat(MISSING), strict=False):
                value = _next(leaf, x)
                if fits and value is _MISFIT:
                    self._misfit(*carried, leaf, x)
                if value is _MISFIT:
                    value = leaf.bound
                leaf.changed |= not same(value, leaf.bound)
                if leaf.init is not None:
                    values.append(value)
        return values

    def _misfit(self, place: str, line: int, first_read: bool, leaf: Leaf, now: Any) -> None:
        if first_read and leaf.before is not MISSING and type(leaf.before) is not Undefined:
            raise self._changed(place, line, leaf, now)
        self.lost[place] = self._only_inside(place, line)

    def results(self, values: Sequence[Any]) -> list[Any]:
        """What the places hold after the loop, ``values`` being the op's results."""
        following = iter(values)
        objects = []
        for (place, _, _), entry, leaves in zip(self.carried, self.entries, self.leaves, strict=True):
            result = entry.thaw((leaf.after(following) for leaf in leaves), place.endswith("[]"))
            objects.append(self.lost.get(place, result))
        return objects

    def _unassigned(self, place: str) -> Undefined:
        return Undefined(
            place,
            f"it is not assigned before the loop at {self.where}",
            f"assign {shown(place)} before the loop: its first pass reads it, or there may be no pass",
        )

    def _only_inside(self, place: str, line: int) -> Undefined:
        return Undefined(
            place,
            f"it has a value only inside the loop at {self.where} (assigned at line {line})",
            f"before the loop, assign {shown(place)} a value of the type that it has after a pass",
        )

    def _changed(self, place: str, line: int, leaf: Leaf, now: Any) -> TraceError:
        before = describe(leaf.before)
        if is_number(leaf.before):
            before = f"{describe(leaf.init)} ({before})"
        fix = one_type(place, "before the loop and at the end of its body", leaf.before, now)
        if isinstance(now, Value) and not place.endswith("[]"):
            if is_number(leaf.before):
                fix = f"write `{place} = nv.{now.dtype.name}({leaf.before})` before the loop"
            elif isinstance(leaf.init, Value):
                fix = f"write `{place} = nv.{leaf.init.dtype.name}({place})` at the end of the body"
        return TraceError(
            f"{shown(place)} is {before} before the loop at {self.where} and {describe(now)} after a pass",
            where=Where(self.where.file, line) if self.where else None,
            rule="a traced loop carries each variable in one type",
            fix=fix,
        )


def _init(x: Any) -> Any:
    if type(x) is Undefined:
        return None
    if isinstance(x, ir.Value):
        return x
    return as_value(x) if is_number(x) else None


def _next(leaf: Leaf, now: Any) -> Any:
    """What a pass leaves behind for ``leaf``; _MISFIT if that is not what stood there before."""
    if leaf.init is None:
        return now if same(leaf.bound, now) else _MISFIT
    if type(now) is Undefined:
        return _MISFIT
    if isinstance(now, ir.Value):
        return now if alike(leaf.init, now) else _MISFIT
    value = typed(now, leaf.init) if is_number(now) and isinstance(leaf.init, Value) else None
    return _MISFIT if value is None else value
