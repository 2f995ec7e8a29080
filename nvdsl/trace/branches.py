"""Run-time side of `if`, and of statements that jump.

``transform`` keeps each statement and puts calls around it. On plain Python values the calls do nothing,
and the statement is Python's own. On a traced condition both branches of an `if` run, each into its
region of an scf.if, and what they assigned is merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import NvdslError, TraceError, Where, trace_error
from nvdsl.errors.frames import caller
from nvdsl.trace.carry import MISSING, Frozen, Getters, Merge, Scope, Undefined, describe, one_type, owner, read, shown
from nvdsl.trace.logic import condition
from nvdsl.trace.regions import Branching
from nvdsl.trace.watch import Watch

_INSTEAD = {
    "`return`": "assign a variable there, and return that after the statement (`if c: return x` is fine at "
    "the function's top level, and in an `if` there)",
    "`break`": "carry a bool, `while i < n and not done:`, or guard the rest of the body with an `if`",
    "`continue`": "guard the rest of the body with an `if`",
    "`raise`": "write `assert condition, f\"x = {x}\"`, which the simulator and debug mode check (docs/debugging.md)",
}


def leave(what: str, *constructs: Any) -> None:
    """``what`` (`return`, `break`, ...) stands inside ``constructs``: an error if one of them is traced."""
    for construct in constructs:
        if construct.traced:
            raise trace_error(
                f"{what} inside {construct.what}",
                rule="whether the kernel takes a branch, or another pass, is not known while it is traced",
                fix=_INSTEAD.get(what, "move it out of the traced statement"),
            )


_LEFT_TO_PYTHON = {
    "deep": (
        "an `if` on a traced condition, nested too deeply",
        "Python limits how deep statements nest, and tracing takes a part of that",
        "move the inner statements into a function",
    ),
    "binds": (
        "`:=` in an operand that a traced condition guards",
        "the operand becomes a branch of its own, which can't bind a name of the function",
        "assign the name in a statement before",
    ),
}


def plain(test: Any, why: str) -> Any:
    """A test that ``transform`` left to Python."""
    if condition(test, "this test") is not None:
        message, rule, fix = _LEFT_TO_PYTHON[why]
        raise trace_error(message, rule=rule, fix=fix)
    return test


class Plain:
    """A statement that is Python's own."""

    traced = False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class PlainIf(Plain):
    def __init__(self, holds: bool) -> None:
        self.first, self.second = holds, not holds


_HOLDS, _FAILS = PlainIf(True), PlainIf(False)


def if_(test: Any) -> If | PlainIf:
    traced = condition(test, "`if`")
    if traced is None:
        return _HOLDS if test else _FAILS
    return If(traced)


class If(Branching):
    """`if` on a traced condition. Its places: see ``liveness.Branches``."""

    what = "an `if` on a traced condition"
    first = second = True  # both branches run
    where: Where | None = None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, NvdslError):
            error.add_note(f"(raised while a branch of the `if` at {self.where} was traced: both branches always are)")
        super().__exit__(kind, error, traceback)

    def begin(
        self, scope: Scope, merge: Sequence[tuple[str, int, int]], reset: Sequence[str], getters: Getters
    ) -> None:
        self.where = caller()
        self.places = merge
        # Of an element that is assigned: the list that it is in now, whatever the name holds in a branch.
        held = {place: owner(place, getters) for place in getters if place.endswith("[]")}
        self.getters = getters | {place: lambda held=x: held for place, x in held.items()}
        self.watch = Watch(scope, [*reset, *(place for place, _, _ in merge)], getters)
        with self.before_op():  # an object may emit the ops for its values only when it is asked for them
            self.before = {place: read(place, scope, getters) for place in reset}
        self.fill(self.blocks[0])

    def turn(self, scope: Scope) -> list[Any]:
        """From the first branch to the second. Gives what ``reset`` held before."""
        self.watch.check(self.what, last=False)
        self.then = [read(place, scope, self.getters) for place, _, _ in self.places]
        self.fill(self.blocks[1])
        return [self._reset(place, before) for place, before in self.before.items()]

    def _reset(self, place: str, before: Frozen) -> Any:
        if before.obj is MISSING:
            return self._undefined(place, 0, 0)(MISSING, MISSING)
        return before.thaw(before.leaves(), place.endswith("[]"))

    def merge(self, scope: Scope) -> list[Any]:
        """From the second branch to what follows. Gives what the places of ``merge`` hold from now on."""
        self.watch.check(self.what)
        merge, made = Merge(), []
        others = [read(place, scope, self.getters) for place, _, _ in self.places]
        with self.before_op():
            for (place, *lines), then, other in zip(self.places, self.then, others, strict=True):
                if place.endswith("[]") and then.shape() != other.shape():
                    raise _other_elements(place[:-2])
                made.append(merge.add(then, other, self._undefined(place, *lines), place.endswith("[]")))
        results = self.join(merge.pairs)
        return [make(results) for make in made]

    def _undefined(self, place: str, then_line: int, other_line: int) -> Any:
        def make(a: Any, b: Any) -> Any:
            return Undefined(place, *self._why(place, a, b, then_line, other_line))

        return make

    def _why(self, place: str, a: Any, b: Any, then_line: int, other_line: int) -> tuple[str, str]:
        nothing = [x is MISSING or type(x) is Undefined for x in (a, b)]
        if all(nothing):
            return f"it has no value before the `if` at {self.where}", f"assign {shown(place)} before the `if`"
        then_at, other_at = (f" (line {line})" if line else "" for line in (then_line, other_line))
        if any(nothing):
            way = f"is false{other_at}" if nothing[0] else f"is true{then_at}"
            return (
                f"it has a value only where the `if` at {self.where} {way}",
                f"assign {shown(place)} before the `if`, or in both branches",
            )
        return (
            f"the `if` at {self.where} leaves it as {describe(a)} where it is true{then_at} and as "
            f"{describe(b)} where it is false{other_at}",
            one_type(place, "in both branches", a, b),
        )


def _other_elements(name: str) -> TraceError:
    return trace_error(
        f"the branches of an `if` on a traced condition leave other elements in `{name}`",
        rule="how many elements a list has, and which keys a dict, does not depend on what the kernel computes",
        fix="assign the same elements in both branches",
    )
