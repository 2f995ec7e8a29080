"""Early exits without jumps: `return` and `continue` at the tail become plain branches.

    if c:                        if c:
        return a                     result = a
    b = f()             ->       else:
    return b                         b = f()
                                     result = b
                                 return result

The same for `continue` in the body of a loop, without a result. In plain Python both forms mean the same;
of a traced `if` only the second can be built. An exit that is not at the tail (in a loop, a `with`, a
`try`, or in a branch that may also run on into the statements after the `if`) stays what it is.
"""

from __future__ import annotations

import ast

from nvdsl.trace.expressions import place

RESULT = "__nv_result__"
# Each folded exit nests the rest of the function one level deeper, and Python limits nesting.
_DEPTH = 8

_Exit = type[ast.Return] | type[ast.Continue]


def fold(function: ast.FunctionDef) -> None:
    """Fold the exits of ``function`` and of its loops, in place; nested functions are left alone."""
    _fold_loops(function.body)
    if any(isinstance(s, ast.If) and _contains(s, ast.Return) for s in function.body):
        end = place(ast.Return(ast.Name(RESULT, ast.Load())), function.body[-1])
        function.body = [*_tail(function.body, ast.Return, function.body[-1]), end]


def _fold_loops(statements: list[ast.stmt]) -> None:
    for statement in statements:
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                _fold_loops(getattr(statement, part, []))
        for inner in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            _fold_loops(inner.body)
        if isinstance(statement, (ast.For, ast.While)):
            statement.body = _tail(statement.body, ast.Continue, statement)


def _tail(statements: list[ast.stmt], kind: _Exit, near: ast.stmt, depth: int = 0) -> list[ast.stmt]:
    """``statements``, after which the function (the loop's pass) ends, without exits where possible."""
    for position, statement in enumerate(statements):
        before, rest = statements[:position], statements[position + 1 :]
        if isinstance(statement, kind):
            return [*before, _exit(statement)]
        if not isinstance(statement, ast.If) or not _contains(statement, kind) or depth == _DEPTH:
            continue
        then_ends, other_ends = _ends(statement.body), _ends(statement.orelse)
        if not (then_ends or other_ends or not rest):
            continue  # the rest would be needed in both branches
        then = statement.body + ([] if then_ends else rest)
        other = statement.orelse + ([] if other_ends else rest)
        statement.body = _tail(then, kind, statement, depth + 1)
        statement.orelse = _tail(other, kind, statement, depth + 1) if other or kind is ast.Return else []
        return [*before, statement]
    if kind is ast.Return:  # running off the end returns None
        return [*statements, _exit(place(ast.Return(), near))]
    return statements


def _exit(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.Return):
        return place(ast.Assign([ast.Name(RESULT, ast.Store())], node.value or ast.Constant(None)), node)
    return place(ast.Pass(), node)


def _ends(statements: list[ast.stmt]) -> bool:
    """Does no way through ``statements`` run on into what follows?"""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise))


def _contains(node: ast.stmt, kind: _Exit) -> bool:
    """Is ``node`` an exit, or an `if` with one in its branches?"""
    if isinstance(node, ast.If):
        return any(_contains(s, kind) for s in (*node.body, *node.orelse))
    return isinstance(node, kind)
