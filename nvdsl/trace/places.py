"""The places that statements assign and the names that they read.

A *place* is what an assignment changes:

* ``"x"``: a local name;
* ``"s.x"``: an attribute, reached from a name by dots only; always live, since others may hold ``s``;
* ``"x[]"``: what ``x`` (or ``s.x``, or ``x[1]``) holds at any depth, changed by ``x[i] = ...`` or ``x[i][j] = ...``;
  always live, too.

Names that nested functions and lambdas capture are live everywhere; names that they assign (``nonlocal``)
count as assigned by each statement that calls something. Names declared ``global`` are no places.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable

from nvdsl.trace.syntax import FUNCTIONS, everything, of_scope, walk

Names = frozenset[str]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
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


def wholes(found: dict[str, int], assigned: Collection[str]) -> dict[str, int]:
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


def names_read(*nodes: ast.AST | None) -> Names:
    """The names that expressions (or the stored parts of targets) read."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, COMPREHENSIONS):
            first = node.generators[0].iter
            inner = names_read(*(child for child in ast.iter_child_nodes(node)))
            own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            names |= (inner - own) | names_read(first)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif node is not None:
            names |= names_read(*of_scope(node))
    return frozenset(names)


def names_bound(*nodes: ast.AST | None) -> Names:
    """The plain names among assignment targets: after the assignment their old values are dead."""
    return frozenset(
        inner.id
        for node in nodes
        if node is not None
        for inner in walk([node])
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del))
    )
