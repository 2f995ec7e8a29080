"""Walking a syntax tree, in one scope or through all. (As the ast module does, in a part of the time.)"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def of_scope(node: ast.AST) -> list[ast.AST]:
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
        below = of_scope(node)
        if below:
            stack += below[::-1]
