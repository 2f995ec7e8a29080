"""Which places a construct must merge (`if`) or carry (`for`, `while`): backward liveness over the AST.

Liveness may be over-, never underestimated: a name too many costs a loop argument.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field, replace

from nvdsl.errors.records import dataclass
from nvdsl.trace.places import Names, Scope, names_bound, names_read, wholes
from nvdsl.trace.syntax import walk


@dataclass(frozen=True)
class Branches:
    """Of an `if`. ``merge``: (place, line in the first branch, line in the second; 0 where it is not
    assigned). ``reset``: places that the second branch must find as they were before the first."""

    merge: tuple[tuple[str, int, int], ...]
    reset: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """Of a `for` or `while`. ``carried``: (place, line of its last assignment, whether the body may read
    it before it writes it). ``last``: names of the `for`'s target, or bound by the test of the `while`,
    that are live. ``rereads``: the `while`'s test may read what the loop carries."""

    carried: tuple[tuple[str, int, bool], ...]
    last: tuple[str, ...]
    rereads: bool = False


def analyze(function: ast.FunctionDef) -> tuple[dict[ast.stmt, Branches | Loop], Names]:
    """The facts of each `if`, `for` and `while` in ``function``, but not in functions nested in it; and
    the names that it declares `global`."""
    scope = Scope(function)
    flow = _Flow(scope, exit=scope.nonlocals)
    if scope.branches:
        flow.block(function.body, scope.nonlocals)
    return flow.facts, scope.globals


@dataclass
class _Flow:
    """Walks statements backward. ``exit``: live after `return`; ``brk``, ``cont``: after `break` and
    `continue`; ``handlers``: live where an exception may be caught."""

    scope: Scope
    exit: Names
    brk: Names = frozenset()
    cont: Names = frozenset()
    handlers: Names = frozenset()
    facts: dict[ast.stmt, Branches | Loop] = field(default_factory=dict)
    known: dict[tuple[ast.stmt, str], dict[str, int]] = field(default_factory=dict)

    def block(self, statements: list[ast.stmt], out: Names) -> Names:
        """The names live before ``statements``, when ``out`` are live after them."""
        for statement in reversed(statements):
            out = self.statement(statement, out) | self.handlers
        return out

    def statement(self, node: ast.stmt, out: Names) -> Names:
        match node:
            case ast.If():
                return self.branches(node, out)
            case ast.For() | ast.While():
                return self.loop(node, out)
            case ast.Assign(targets=targets, value=value):
                return (out - names_bound(*targets)) | names_read(value, *targets)
            case ast.AugAssign(target=target, value=value):
                return out | names_bound(target) | names_read(target, value)
            case ast.AnnAssign(target=target, value=value):
                return (out - names_bound(target) if value else out) | names_read(target, value)
            case ast.Return(value=value):
                return self.exit | names_read(value)
            case ast.Raise():
                return self.handlers | names_read(node)
            case ast.Break():
                return self.brk
            case ast.Continue():
                return self.cont
            case ast.With(items=items, body=body):
                inner = self.block(body, out)
                return (inner - names_bound(*(i.optional_vars for i in items))) | names_read(*items)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, out)
            case ast.Match(subject=subject, cases=cases):
                live = out | names_read(subject)
                for case in cases:
                    live |= self.block(case.body, out) | names_read(case.pattern, case.guard)
                return live
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return (out - {node.name}) | names_read(node)
            case ast.Delete(targets=targets):
                return (out - names_bound(*targets)) | names_read(*targets)
        return out | names_read(node)  # expressions, assert; import and others bind, which need not kill

    def attempt(self, node: ast.Try | ast.TryStar, out: Names) -> Names:
        """What the handlers and `finally` read is live anywhere in the body."""
        final = self.block(node.finalbody, out)
        caught = final
        for handler in node.handlers:
            caught |= self.block(handler.body, final) | names_read(handler.type)
        body = replace(self, handlers=self.handlers | caught)
        return body.block(node.body, self.block(node.orelse, final)) | caught

    def branches(self, node: ast.If, out: Names) -> Names:
        other = self.block(node.orelse, out)
        then = self.block(node.body, out)
        first, second = self.assigned(node, "body"), self.assigned(node, "orelse")
        first, second = (wholes(x, {**first, **second}) for x in (first, second))
        held = self.scope.captured | self.scope.nonlocals | self.handlers
        self.facts[node] = Branches(
            merge=tuple(
                (place, first.get(place, 0), second.get(place, 0))
                for place in wholes({**first, **second}, ())
                if not place.isidentifier() or place in out | held
            ),
            reset=tuple(place for place in first if not place.isidentifier() or place in other | held),
        )
        return then | other | names_read(node.test)

    def loop(self, node: ast.For | ast.While, out: Names) -> Names:
        """The head is where the next item is fetched or the test evaluated. What is live there is what a
        pass reads before it writes it, and what is live after the loop: one step finds the fixpoint."""
        done = self.block(node.orelse, out)
        nothing: Names = frozenset()
        once = self.inside(node, nothing, nothing)
        head = self.head(node, done | out, once)
        inside = self.inside(node, head, out)
        self.record(node, head, first_read=self.head(node, nothing, once), after=inside | done | out)
        return head | (names_read(node.iter) if isinstance(node, ast.For) else nothing)

    def inside(self, node: ast.For | ast.While, head: Names, out: Names) -> Names:
        """The names live where the body starts."""
        return replace(self, brk=out, cont=head).block(node.body, head)  # shares ``facts``

    def head(self, node: ast.For | ast.While, done: Names, inside: Names) -> Names:
        if isinstance(node, ast.For):
            return done | (inside - names_bound(node.target)) | names_read(node.target)
        reads = names_read(node.test)
        return ((done | inside) - (names_bound(node.test) - reads)) | reads

    def record(self, node: ast.For | ast.While, head: Names, first_read: Names, after: Names) -> None:
        held = self.scope.captured | self.scope.nonlocals | self.handlers
        is_for = isinstance(node, ast.For)
        own = names_bound(node.target if isinstance(node, ast.For) else node.test)
        assigned = {**({} if is_for else self.assigned(node, "test")), **self.assigned(node, "body")}
        assigned = wholes(assigned, assigned)
        carried = tuple(
            (place, line, not place.isidentifier() or place in first_read | held)
            for place, line in assigned.items()
            if (not place.isidentifier() or place in head | held) and not (is_for and place in own)
        )
        places = {place for place, _, _ in carried}
        rereads = isinstance(node, ast.While) and self.may_read(node.test, places)
        self.facts[node] = Loop(carried, tuple(sorted(own & (after | held) - places)), rereads)

    def assigned(self, node: ast.stmt, part: str) -> dict[str, int]:
        """What the ``part`` of ``node`` assigns, found once."""
        key = (node, part)
        if key not in self.known:
            nodes = getattr(node, part)
            self.known[key] = self.scope.assigned(nodes if isinstance(nodes, list) else [nodes])
        return self.known[key]

    def may_read(self, test: ast.expr, places: Iterable[str]) -> bool:
        """May evaluating ``test`` read one of ``places``? A call may read what nested functions capture,
        and any attribute or element."""
        calls = any(isinstance(node, ast.Call) for node in walk([test]))
        reads = names_read(test)
        parts = any(isinstance(node, (ast.Attribute, ast.Subscript)) for node in walk([test]))
        return any(
            (place in reads or calls and place in self.scope.captured) if place.isidentifier() else (calls or parts)
            for place in places
        )
