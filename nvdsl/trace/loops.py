"""Run-time side of `for` and `while`.

`for` over ``nv.range`` runs its body once, into an scf.for; what the body assigns is carried. Over any other
iterable it is Python's own loop.

`while` runs its test and its body once, into the two regions of an scf.while. Whether the test is traced
shows only when it was evaluated. So the first evaluation sees the variables as they are. If it gives a
plain value, the loop is Python's own. If it gives a traced one and may have read a variable that the
loop carries, it is taken back and done again on the carried value.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.frames import innermost
from nvdsl.mlir import ir
from nvdsl.trace import limits
from nvdsl.trace.branches import Plain
from nvdsl.trace.carry import Getters, Scope, Undefined, is_value, read, retyped
from nvdsl.trace.logic import condition
from nvdsl.trace.range import Range
from nvdsl.trace.regions import Construct, add_block, add_yield, move_out
from nvdsl.trace.state import LoopState
from nvdsl.trace.watch import Watch
from nvdsl.values.traced import wrap
from nvdsl.values.tracing import is_tracing


class PlainFor(Plain):
    """`for` over what Python iterates over."""

    def __init__(self, iterable: Any) -> None:
        self.iterable = iterable
        self.tracing = is_tracing()
        if self.tracing:
            limits.count_pass()

    def items(self) -> Any:
        """The iterable. Only the statement holds on to it: a generator ends when its loop does."""
        iterable, self.iterable = self.iterable, None
        return limits.counted(iterable) if self.tracing else iterable


def for_(iterable: Any) -> For | PlainFor:
    return For(iterable) if type(iterable) is Range else PlainFor(iterable)


class For(Construct):
    """`for` over an ``nv.range``. ``objects``: what the carried places (and ``last``, the names of the loop's
    target, after the loop) hold from now on. See ``liveness.Loop``."""

    what = "a `for` over nv.range"

    def __init__(self, span: Range) -> None:
        super().__init__()
        self.span = span
        self.objects: list[Any] = []

    def begin(self, scope: Scope, carried: Any, last: Sequence[str], getters: Getters) -> None:
        self.state, self.last = LoopState(carried, scope, getters), last
        inits = self.state.inits
        types = [init.type for init in inits]
        bounds = self.span.bounds()
        self.op = ir.Operation.create("scf.for", results=types, operands=[*bounds, *inits], regions=1)
        if self.span.dtype.is_unsigned:
            self.op.attributes["unsignedCmp"] = ir.UnitAttr.get()
        if annotation := self.span.annotation():
            self.op.attributes["loop_annotation"] = annotation
        self.block = add_block(self.op, 0, [bounds[0].type, *types])
        self.fill(self.block)
        self.objects = self.state.bind(list(self.block.arguments)[1:])

    def items(self) -> tuple[Any]:
        """The one pass that is traced."""
        return (self.span.item(wrap(self.block.arguments[0], self.span.dtype)),)

    def end(self, scope: Scope) -> None:
        self.state.watch.check(self.what)
        add_yield(self.block, self.state.collect(scope))
        self.close()
        op, self.op = self.op, None
        why = f"it is the variable of the traced loop at {self.state.where}, which has ended"
        ended = [Undefined(name, why, f"keep it in another variable: `last = {name}`") for name in self.last]
        self.objects = [*self.state.results(op.results), *ended]


class While(Construct):
    """`while`. ``objects``: what the carried places, and ``last`` (names that the test binds), hold from now
    on. ``scope``: the local variables before the test, if the test may assign some. ``endless``: the test is a true
    constant, and no statement leaves the loop.
    """

    what = "a `while` on a traced condition"

    def __init__(self, scope: Scope | None = None, endless: bool = False) -> None:
        super().__init__()
        self.traced = self.plain = self.done = False
        self.again = False  # the test must be evaluated once more, on the carried values
        self.scope = scope and dict(scope)
        self.endless = endless
        self.tracing = is_tracing()
        self.state: LoopState | None = None
        self.objects: list[Any] = []

    def more(self) -> bool:
        """Is the test to be evaluated (again)? Before the first time, open the region for it."""
        if self.op is None and not (self.plain or self.done):
            if not self.tracing:  # a converted function that Python calls
                self.plain = True
                return True
            if self.endless:
                raise limits.endless()
            self.op = ir.Operation.create("scf.while", regions=2)
            self.before = add_block(self.op, 0, [])
            self.watch = Watch(innermost(sys._getframe(1)).f_locals)  # type: ignore[union-attr]
            self.fill(self.before)
        elif self.plain and self.tracing:
            limits.count_pass()
        return not self.done

    def test(self, value: Any) -> Any:
        """Take the test's value in. True: run the body, in Python's way or traced."""
        traced = condition(value, "`while`")
        if self.plain or self.traced:
            if (traced is None) is not self.plain:
                raise self._turned()
        elif traced is None:
            self._give_up()
        self.traced, self.condition = not self.plain, traced
        return value if self.plain else True

    def _give_up(self) -> None:
        """The loop is Python's: what the test emitted stays, in front of where the op was."""
        self.close()
        move_out(self.before, self.op)
        self.op.erase()
        self.op, self.plain = None, True

    def _turned(self) -> Exception:
        first, now = ("a plain Python value", "traced") if self.plain else ("traced", "a plain Python value")
        return trace_error(
            f"the test of this `while` was {first} at first, and is {now} after a pass",
            rule="a `while` runs either in Python or in the kernel",
            fix="for a loop in the kernel, make what the test reads traced before the loop: `i = nv.i32(0)`, "
            "`go = nv.bool_(True)`",
        )

    def begin(self, scope: Scope, carried: Any, last: Sequence[str], rereads: bool, getters: Getters) -> None:
        """The test was traced: evaluate it again on the carried values, or go on to the body."""
        if self.state is None:
            with ir.InsertionPoint(self.op):  # the values that numbers become belong before the loop
                self.watch.check("the test of a `while`", (place for place, _, _ in carried))
                self.state = state = LoopState(carried, self.scope or scope, getters)
            self.again = rereads and bool(state.inits)
            if self.again:
                for op in reversed(list(self.before.operations)):
                    op.operation.erase()
            passed = [self.before.add_argument(init.type, self.op.location) for init in state.inits]
            self.objects = state.bind(passed)
            if self.again:
                self.objects += [scope.get(name) for name in last]  # the test binds them anew
                return
        else:
            self.again = False
            passed = self.state.collect(scope)
        self._enter_body(scope, passed, last)

    def _enter_body(self, scope: Scope, passed: list[Any], last: Sequence[str]) -> None:
        """End the test's region with the values ``passed`` on to the body, and with those that it bound."""
        assert self.state is not None
        self.bound = [read(name, scope, {}) for name in last]
        values = passed + [x for frozen in self.bound for x in frozen.leaves() if is_value(x)]
        point = ir.InsertionPoint(self.before)
        ir.Operation.create("scf.condition", operands=[self.condition, *values], ip=point)
        self.types = [value.type for value in values]
        self.body = add_block(self.op, 1, self.types)
        self.fill(self.body)
        arguments = list(self.body.arguments)
        self.count = len(passed)
        self.objects = self.state.bind(arguments[: self.count]) + self._rebound(arguments)

    def _rebound(self, values: Sequence[Any]) -> list[Any]:
        """The objects that the test bound, around ``values``."""
        rest = iter(values[self.count :])
        return [
            frozen.thaw(retyped(next(rest), x) if is_value(x) else x for x in frozen.leaves()) for frozen in self.bound
        ]

    def end(self, scope: Scope) -> None:
        assert self.state is not None
        self.state.watch.check(self.what)
        add_yield(self.body, self.state.collect(scope))
        op = self.finish("scf.while", self.state.inits, self.types, [self.before, self.body])
        results = list(op.results)
        self.objects = self.state.results(results[: self.count]) + self._rebound(results)
        self.done = True
