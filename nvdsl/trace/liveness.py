"""Which places a construct must merge (`if`) or carry (`for`, `while`): backward liveness over the AST.

A *place* is what an assignment changes:

* ``"x"``: a local name;
* ``"s.x"``: an attribute, reached from a name by dots only; always live, since others may hold ``s``;
* ``"x[]"``: what ``x`` (or ``s.x``, or ``x[1]``) holds at any depth, changed by ``x[i] = ...`` or ``x[i][j] = ...``;
  always live, too.

Names that nested functions and lambdas capture are live everywhere; names that they assign (``nonlocal``)
count as assigned by each statement that calls something. Names declared ``global`` are no places.
Liveness may be over-, never underestimated: a name too many costs a loop argument.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Names = frozenset[str]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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
    scope = _Scope(function)
    flow = _Flow(scope, exit=scope.nonlocals)
    if scope.branches:
        flow.block(function.body, scope.nonlocals)
    return flow.facts, scope.globals


def _children(node: ast.AST) -> list[ast.AST]:
    """The parts of ``node`` that belong to the same scope: of a nested function or class, only what is
    evaluated where it is defined; of a comprehension, all but its own names."""
    usual = _USUAL.get(node.__class__)
    if usual is not None:
        return usual(node)
    if isinstance(node, FUNCTIONS):
        arguments = node.args
        defaults = [d for d in (*arguments.defaults, *arguments.kw_defaults) if d is not None]
        return [*defaults, *getattr(node, "decorator_list", ())]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, ast.comprehension):
        return [node.iter, *node.ifs]
    return children(node)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below ``node`` but for operators and contexts, which hold nothing."""
    kind: Any = node.__class__
    usual = _USUAL.get(kind)
    if usual is not None:
        return usual(node)
    found: list[ast.AST] = []
    for name in parts(kind):
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [x for x in value if isinstance(x, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


@functools.cache
def parts(kind: Any) -> tuple[str, ...]:
    """The fields that may hold nodes, operators and contexts aside."""
    return tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "id", "attr", "arg", "type_comment"))


# Nine of ten nodes are one of these.
_USUAL: dict[type[ast.AST], Callable[[Any], list[ast.AST]]] = {
    ast.Name: lambda node: [],
    ast.Constant: lambda node: [],
    ast.Attribute: lambda node: [node.value],
    ast.Call: lambda node: [node.func, *node.args, *node.keywords],
    ast.keyword: lambda node: [node.value],
    ast.Expr: lambda node: [node.value],
    ast.Assign: lambda node: [*node.targets, node.value],
    ast.BinOp: lambda node: [node.left, node.right],
    ast.Subscript: lambda node: [node.value, node.slice],
    ast.Tuple: lambda node: node.elts,
    ast.If: lambda node: [node.test, *node.body, *node.orelse],
    ast.Compare: lambda node: [node.left, *node.comparators],
}


def everything(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and all nodes below it, of other scopes, too."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += children(node)


def walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """``nodes`` and everything below them in the same scope."""
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        yield node
        below = _children(node)
        if below:
            stack += below[::-1]


class _Scope:
    """What holds for the whole function: its globals, its nonlocals, and what nested functions share; and whether it
    has an `if` or a loop."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.globals: Names = frozenset()
        self.nonlocals: Names = frozenset()
        self.branches = False
        captured: set[str] = set()
        shared: set[str] = set()  # assigned by nested functions
        for node in walk(function.body):
            if isinstance(node, ast.expr) and not isinstance(node, ast.Lambda):
                continue
            if isinstance(node, ast.If | ast.For | ast.While):
                self.branches = True
            elif isinstance(node, ast.Global):
                self.globals |= set(node.names)
            elif isinstance(node, ast.Nonlocal):
                self.nonlocals |= set(node.names)
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                for inner in everything(node):
                    if isinstance(inner, ast.Name):
                        captured.add(inner.id)
                    elif isinstance(inner, ast.Nonlocal):
                        shared.update(inner.names)
        self.captured = frozenset(captured)
        self.shared = frozenset(shared)

    def assigned(self, nodes: Iterable[ast.AST]) -> dict[str, int]:
        """The places that ``nodes`` assign, each with the line of its last assignment."""
        found: dict[str, int] = {}
        for node in walk(nodes):
            for place in _bound(node):
                found[place] = node.lineno  # type: ignore[attr-defined]
            if isinstance(node, ast.Call):
                found.update(dict.fromkeys(self.shared, node.lineno))
        return {place: line for place, line in found.items() if place not in self.globals}


def _wholes(found: dict[str, int], assigned: Collection[str]) -> dict[str, int]:
    """``found``, where a part of an object is taken for its name if the name is ``assigned`` as well, and an element's
    contents for those of all. Parts that are elements stay by themselves, and come first."""
    wholes: dict[str, int] = {}
    for place, line in found.items():
        path = place.removesuffix("[]")
        root = re.split(r"[.[]", path)[0]
        around = [q for q in assigned if q.endswith("[]") and path.startswith(q[:-1])]
        if root in assigned and path == place:
            place = root
        elif around:
            place = min(around, key=len)
        wholes[place] = line
    return {place: wholes[place] for place in sorted(wholes, key=lambda place: not place.endswith("[]"))}


def _bound(node: ast.AST) -> list[str]:
    """The places that this one node assigns."""
    if isinstance(node, ast.expr):
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            if isinstance(node, ast.Name):
                return [node.id]
            path = dotted(node)
            if isinstance(node, ast.Subscript):
                path, _ = _container(node.value)
                path += "[]" if path else ""
            return [path] if path else []
        return []
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [asname or name.partition(".")[0]]
    return []


def _container(node: ast.expr) -> tuple[str, bool]:
    """The path of what an expression gives, as far as constants and dots tell it; and whether they tell it all.
    Else the object is somewhere in what has that path; ``""`` where that is not known either."""
    match node:
        case ast.Name(id=name):
            return name, True
        case ast.Attribute(value=base, attr=attribute):
            path, exact = _container(base)
            return (f"{path}.{attribute}", True) if exact else ("", False)
        case ast.Subscript(value=base, slice=index):
            path, exact = _container(base)
            try:
                key = ast.literal_eval(index)
            except (ValueError, SyntaxError):
                return path, False
            plain = type(key) is int or type(key) is str and key.isidentifier()
            return (f"{path}[{key!r}]", True) if exact and plain else (path, False)
    return "", False


def dotted(node: ast.expr) -> str:
    """``"a.b.c"`` for that expression, ``""`` for any that is not a name with attributes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return base and f"{base}.{node.attr}"
    return ""


def _reads(*nodes: ast.AST | None) -> Names:
    """The names that expressions (or the stored parts of targets) read."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, COMPREHENSIONS):
            first = node.generators[0].iter
            inner = _reads(*(child for child in ast.iter_child_nodes(node)))
            own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            names |= (inner - own) | _reads(first)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif node is not None:
            names |= _reads(*_children(node))
    return frozenset(names)


def _targets(*nodes: ast.AST | None) -> Names:
    """The plain names among assignment targets: after the assignment their old values are dead."""
    return frozenset(
        inner.id
        for node in nodes
        if node is not None
        for inner in walk([node])
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del))
    )


@dataclass
class _Flow:
    """Walks statements backward. ``exit``: live after `return`; ``brk``, ``cont``: after `break` and
    `continue`; ``handlers``: live where an exception may be caught."""

    scope: _Scope
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
                return (out - _targets(*targets)) | _reads(value, *targets)
            case ast.AugAssign(target=target, value=value):
                return out | _targets(target) | _reads(target, value)
            case ast.AnnAssign(target=target, value=value):
                return (out - _targets(target) if value else out) | _reads(target, value)
            case ast.Return(value=value):
                return self.exit | _reads(value)
            case ast.Raise():
                return self.handlers | _reads(node)
            case ast.Break():
                return self.brk
            case ast.Continue():
                return self.cont
            case ast.With(items=items, body=body):
                inner = self.block(body, out)
                return (inner - _targets(*(i.optional_vars for i in items))) | _reads(*items)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, out)
            case ast.Match(subject=subject, cases=cases):
                live = out | _reads(subject)
                for case in cases:
                    live |= self.block(case.body, out) | _reads(case.pattern, case.guard)
                return live
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return (out - {node.name}) | _reads(node)
            case ast.Delete(targets=targets):
                return (out - _targets(*targets)) | _reads(*targets)
        return out | _reads(node)  # expressions, assert; import and others bind, which need not kill

    def attempt(self, node: ast.Try | ast.TryStar, out: Names) -> Names:
        """What the handlers and `finally` read is live anywhere in the body."""
        final = self.block(node.finalbody, out)
        caught = final
        for handler in node.handlers:
            caught |= self.block(handler.body, final) | _reads(handler.type)
        body = replace(self, handlers=self.handlers | caught)
        return body.block(node.body, self.block(node.orelse, final)) | caught

    def branches(self, node: ast.If, out: Names) -> Names:
        other = self.block(node.orelse, out)
        then = self.block(node.body, out)
        first, second = self.assigned(node, "body"), self.assigned(node, "orelse")
        first, second = (_wholes(x, {**first, **second}) for x in (first, second))
        held = self.scope.captured | self.scope.nonlocals | self.handlers
        self.facts[node] = Branches(
            merge=tuple(
                (place, first.get(place, 0), second.get(place, 0))
                for place in _wholes({**first, **second}, ())
                if not place.isidentifier() or place in out | held
            ),
            reset=tuple(place for place in first if not place.isidentifier() or place in other | held),
        )
        return then | other | _reads(node.test)

    def loop(self, node: ast.For | ast.While, out: Names) -> Names:
        """The head is where the next item is fetched or the test evaluated. What is live there is what a
        pass reads before it writes it, and what is live after the loop: one step finds the fixpoint."""
        done = self.block(node.orelse, out)
        nothing: Names = frozenset()
        once = self.inside(node, nothing, nothing)
        head = self.head(node, done | out, once)
        inside = self.inside(node, head, out)
        self.record(node, head, first_read=self.head(node, nothing, once), after=inside | done | out)
        return head | (_reads(node.iter) if isinstance(node, ast.For) else nothing)

    def inside(self, node: ast.For | ast.While, head: Names, out: Names) -> Names:
        """The names live where the body starts."""
        return replace(self, brk=out, cont=head).block(node.body, head)  # shares ``facts``

    def head(self, node: ast.For | ast.While, done: Names, inside: Names) -> Names:
        if isinstance(node, ast.For):
            return done | (inside - _targets(node.target)) | _reads(node.target)
        reads = _reads(node.test)
        return ((done | inside) - (_targets(node.test) - reads)) | reads

    def record(self, node: ast.For | ast.While, head: Names, first_read: Names, after: Names) -> None:
        held = self.scope.captured | self.scope.nonlocals | self.handlers
        is_for = isinstance(node, ast.For)
        own = _targets(node.target if isinstance(node, ast.For) else node.test)
        assigned = {**({} if is_for else self.assigned(node, "test")), **self.assigned(node, "body")}
        assigned = _wholes(assigned, assigned)
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
        reads = _reads(test)
        parts = any(isinstance(node, (ast.Attribute, ast.Subscript)) for node in walk([test]))
        return any(
            (place in reads or calls and place in self.scope.captured) if place.isidentifier() else (calls or parts)
            for place in places
        )
