"""AST -> AST: each construct keeps its statement, and gets calls of the run-time side around it.

    if c:                 with rt.if_(c) as n1:
        x = 1                 if n1.traced: n1.begin(locals, merge, reset, getters)
    else:                     if n1.first:
        x = 2                     x = 1
                              if n1.traced: (x,) = n1.turn(locals)       # x as it was before
                              if n1.second:
                                  x = 2
                              if n1.traced: (x,) = n1.merge(locals)

    for i in xs:          with rt.for_(xs) as n2:
        s += i                if n2.traced: n2.begin(locals, carried, last, getters)
                              for i in n2.items():
                                  if n2.traced: (s,) = n2.objects
                                  s += i
                                  if n2.traced: n2.end(locals)
                              else:
                                  if n2.traced: (s, i) = n2.objects

    try:                  with rt.try_(lambda: (E,)) as n4:
        x = f(y)              try:
    except E:                     x = f(y)
        x = 1                 except E:
                                  n4.caught()
                                  x = 1

    while c:              with rt.while_() as n3:
        x -= 1                while n3.more() and n3.test(c):
                                  if n3.traced:
                                      n3.begin(locals, carried, last, rereads, getters)
                                      (x,) = n3.objects
                                      if n3.again: continue
                                  x -= 1
                                  if n3.traced: n3.end(locals)
                              else:
                                  if n3.traced: (x,) = n3.objects

``rt`` is a free variable named ``__nv__``, ``locals`` is ``rt.locals()``. The bodies stay in the user's
function, so `break`, `continue`, `return` and exceptions are Python's; where they would leave a construct,
``rt.leave`` is asked first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nvdsl.trace import exits
from nvdsl.trace.expressions import (
    RUNTIME,
    Expressions,
    attribute,
    call,
    constant,
    lazy,
    load,
    local_names,
    pieces,
    place,
    thunk,
)
from nvdsl.trace.liveness import Branches, Loop, analyze
from nvdsl.trace.places import Names
from nvdsl.trace.syntax import walk

# Python nests at most 20 blocks; `with` and loops count. Deeper ones stay plain.
_DEPTH = 14


def transform(function: ast.FunctionDef | ast.Lambda) -> None:
    """Rewrite the body of ``function``, which is no generator, in place, and the functions nested in it."""
    if isinstance(function, ast.Lambda):
        function.body = Expressions().visit(function.body)
        return
    exits.fold(function)
    function.body = _Function(*analyze(function)).block(function.body)


def _path(place: str, context: ast.expr_context) -> ast.expr:
    """The expression for a place; of ``x[]``, ``x``. An element of what is no container is none: ``rt.part``."""
    place = place.removesuffix("[]")
    if place.endswith("]"):
        base, _, key = place[:-1].rpartition("[")
        return call(RUNTIME, "part", _path(base, ast.Load()), ast.Constant(ast.literal_eval(key)))
    base, _, name = place.rpartition(".")
    return ast.Attribute(_path(base, ast.Load()), name, context) if base else ast.Name(name, context)


def _targets(places: Sequence[str], unused: str) -> ast.expr:
    """A tuple to assign to. What ``x[]`` holds was put back in place: its target is ``unused``."""
    store = ast.Store()
    return ast.Tuple([_path(unused if p.endswith("[]") else p, store) for p in places], store)


def _getters(places: Sequence[str]) -> ast.expr:
    """``{"s.x": lambda: s, "v[]": lambda: v}``"""
    parts = [p for p in places if not p.isidentifier()]
    owners = [p[:-2] if p.endswith("[]") else p.rpartition(".")[0] for p in parts]
    keys: list[ast.expr | None] = [ast.Constant(p) for p in parts]
    return ast.Dict(keys, [thunk(_path(owner, ast.Load())) for owner in owners])


def _assign(places: Sequence[str], value: ast.expr) -> ast.stmt:
    return ast.Assign([_targets(places, "__nv_unused__")], value)


def _if_traced(construct: str, *body: ast.stmt | ast.expr) -> ast.stmt:
    statements = [ast.Expr(x) if isinstance(x, ast.expr) else x for x in body]
    return ast.If(attribute(construct, "traced"), statements, [])


def _leaves(body: list[ast.stmt]) -> bool:
    """May a statement leave the loop with this body?"""
    return any(isinstance(node, (ast.Break, ast.Return, ast.Raise)) for node in walk(body))


class _Function(Expressions):
    """Rewrites one function's body."""

    def __init__(self, facts: dict[ast.stmt, Branches | Loop], globals: Names) -> None:
        self.facts, self.globals = facts, globals
        self.count = self.depth = 0
        self.tries = 0  # the `try` statements around
        self.open: list[tuple[str, bool]] = []  # the constructs around, outermost first; is it a loop?

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            done.extend(result if isinstance(result, list) else [result])
        return done

    @contextmanager
    def construct(self, loop: bool) -> Iterator[str]:
        self.count += 1
        name = f"__nv{self.count}__"
        self.open.append((name, loop))
        with self.nested(1 + loop):
            yield name
        self.open.pop()

    @contextmanager
    def nested(self, blocks: int) -> Iterator[None]:
        self.depth += blocks
        yield
        self.depth -= blocks

    def plain_loop(self, node: ast.For | ast.While) -> ast.stmt:
        """A loop that stays Python's, since it is nested too deeply."""
        self.open.append(("", True))
        with self.nested(1):
            node.body = self.block(node.body)
        self.open.pop()
        node.orelse = self.block(node.orelse)
        return node

    def _with(self, name: str, value: ast.expr, body: list[ast.stmt], at: ast.AST) -> ast.stmt:
        return place(ast.With([ast.withitem(value, ast.Name(name, ast.Store()))], body), at)

    def visit_If(self, node: ast.If) -> Any:
        facts = self.facts[node]
        assert isinstance(facts, Branches)
        test = self.tested(self.visit(node.test))
        if self.depth >= _DEPTH:
            node.test = place(call(RUNTIME, "plain", test, constant("deep")), node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        merge = [p for p, _, _ in facts.merge]
        with self.construct(loop=False) as name:
            first, second = self.block(node.body), self.block(node.orelse)
        places = list(dict.fromkeys((*merge, *facts.reset)))
        arguments = [constant(facts.merge), constant(facts.reset), _getters(places)]
        body = [
            _if_traced(name, call(name, "begin", local_names(), *arguments)),
            ast.If(attribute(name, "first"), first, []),
            _if_traced(name, _assign(facts.reset, call(name, "turn", local_names()))),
            *([ast.If(attribute(name, "second"), second, [])] if second else []),
            _if_traced(name, _assign(merge, call(name, "merge", local_names()))),
        ]
        return self._with(name, call(RUNTIME, "if_", test), body, node.test)

    def visit_For(self, node: ast.For) -> Any:
        facts = self.facts[node]
        assert isinstance(facts, Loop)
        iterable, target = self.visit(node.iter), self.visit(node.target)
        if self.depth >= _DEPTH:
            node.target, node.iter = target, iterable
            return self.plain_loop(node)
        carried = [p for p, _, _ in facts.carried]
        with self.construct(loop=True) as name:
            inside = self.block(node.body)
        orelse = self.block(node.orelse)
        arguments = [constant(facts.carried), constant(facts.last), _getters(carried)]
        begin = _if_traced(name, call(name, "begin", local_names(), *arguments))
        loop = ast.For(
            target,
            call(name, "items"),
            [
                _if_traced(name, _assign(carried, attribute(name, "objects"))),
                *inside,
                _if_traced(name, call(name, "end", local_names())),
            ],
            [_if_traced(name, _assign([*carried, *facts.last], attribute(name, "objects"))), *orelse],
        )
        return self._with(name, call(RUNTIME, "for_", iterable), [begin, loop], node.iter)

    def visit_While(self, node: ast.While) -> Any:
        facts = self.facts[node]
        assert isinstance(facts, Loop)
        true = isinstance(node.test, ast.Constant) and bool(node.test.value)
        endless = true and not (self.tries or _leaves(node.body))
        test = self.tested(self.visit(node.test))
        if self.depth >= _DEPTH:
            node.test = test
            return self.plain_loop(node)
        carried = [p for p, _, _ in facts.carried]
        with self.construct(loop=True) as name:
            inside = self.block(node.body)
        orelse = self.block(node.orelse)
        arguments = [constant(x) for x in (facts.carried, facts.last, facts.rereads)]
        state = _assign([*carried, *facts.last], attribute(name, "objects"))
        loop = ast.While(
            ast.BoolOp(ast.And(), [call(name, "more"), call(name, "test", test)]),
            [
                _if_traced(
                    name,
                    call(name, "begin", local_names(), *arguments, _getters(carried)),
                    state,
                    ast.If(attribute(name, "again"), [ast.Continue()], []),
                ),
                *inside,
                _if_traced(name, call(name, "end", local_names())),
            ],
            [_if_traced(name, state), *orelse],
        )
        before = [constant(None)] if lazy(node.test) else [local_names()]
        if endless:
            before.append(constant(True))
        return self._with(name, call(RUNTIME, "while_", *before), [loop], node.test)

    def _leave(self, what: str, node: ast.stmt, names: list[str]) -> list[ast.stmt]:
        """``node``, preceded by the question whether it may leave the constructs ``names``."""
        names = [name for name in names if name]
        if not names:
            return [node]
        check = call(RUNTIME, "leave", ast.Constant(what), *map(load, names))
        return [place(ast.Expr(check), node), node]

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        return self._leave("`return`", node, self._all_open())

    def visit_Break(self, node: ast.Break) -> Any:
        return self._leave("`break`", node, self._up_to_loop())

    def visit_Continue(self, node: ast.Continue) -> Any:
        *ifs, loop = self._up_to_loop() or [""]
        end = [place(_if_traced(loop, call(loop, "end", local_names())), node)] if loop else []
        return [*self._leave("`continue`", node, ifs)[:-1], *end, node]

    def _all_open(self) -> list[str]:
        return [name for name, _ in self.open]

    def _up_to_loop(self) -> list[str]:
        """The constructs from the innermost loop (last) to the innermost one."""
        found = []
        for name, loop in reversed(self.open):
            found.append(name)
            if loop:
                return found
        return []

    def _store(self, node: Any) -> Any:
        """An assignment: to a global it would happen once, while tracing, whatever the condition."""
        self.generic_visit(node)
        if not self.globals:
            return node
        names = [n.id for n in walk([node]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        stored = [name for name in names if name in self.globals]
        return self._leave(f"assignment to the global `{stored[0]}`", node, self._all_open()) if stored else node

    visit_Assign = visit_AugAssign = visit_AnnAssign = _store

    def visit_Assert(self, node: ast.Assert) -> Any:
        arguments = [self.tested(self.visit(node.test))]
        if node.msg is not None:
            node.msg = self.visit(node.msg)
            if lazy(node.msg):
                message = pieces(node.msg) if isinstance(node.msg, ast.JoinedStr) else node.msg
                arguments += [thunk(message), constant(message is not node.msg)]
        node.test = place(call(RUNTIME, "check", *arguments), node.test)
        return node

    def visit_With(self, node: ast.With) -> Any:
        with self.nested(len(node.items)):
            return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> Any:
        self.tries += 1
        with self.nested(3):
            self.generic_visit(node)
        self.tries -= 1
        if not node.handlers or self.depth + 3 > _DEPTH:
            return node
        self.count += 1
        name = f"__nv{self.count}__"
        for handler in node.handlers:
            handler.body.insert(0, place(ast.Expr(call(name, "caught")), handler))
        kinds = [handler.type or constant(None) for handler in node.handlers]
        named = place(thunk(ast.Tuple(kinds, ast.Load())), node)
        return self._with(name, call(RUNTIME, "try_", named), [node], node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """Under a traced `if` it would always be raised, while tracing. Under a plain one it is Python's own."""
        self.generic_visit(node)
        return self._leave("`raise`", node, [name for name, loop in self.open if not loop][-1:])

    def visit_TryStar(self, node: ast.TryStar) -> Any:
        return self.visit_Try(node)  # type: ignore[arg-type]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args = self.visit(node.args)
        if not any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in walk(node.body)):
            transform(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Its names are no variables of a function; its methods are rewritten when they are called."""
        return node
