"""AST -> AST, expressions: `and`, `or`, `not`, comparisons, `x if c else y` and calls become calls of the
run-time side, with their lazy operands as lambdas: ``rt.both(a, lambda: b)``.

An operand that binds a name (``:=``) can't move into a lambda: such an expression stays Python's, and a
traced condition in it is an error.
"""

from __future__ import annotations

import ast
import functools
from typing import Any

from nvdsl.trace.syntax import children, parts, walk

RUNTIME = "__nv__"  # the free variable that holds the run-time side
# They look at the frame that calls them, or take only names: no helper to rewrite.
_UNWRAPPED = frozenset(("super", "locals", "globals", "vars", "dir", "eval", "exec"))
IDS = frozenset(
    "cluster_rank elect lane_id linear_thread_id warp_id warpgroup_id warpgroup_thread".split()
)
"""Functions without arguments whose results are compared and tested. Without its parentheses such a one is a function,
which Python compares and tests without a word."""
_BINDS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def place(node: Any, at: Any) -> Any:
    """``node`` and the nodes below it that have no place in the source yet, at the first line of ``at``.

    (On one line: Python reports a call of a method in the last line of ``x.method``.)
    """
    if not hasattr(node, "lineno"):
        if node._attributes:
            node.lineno = node.end_lineno = at.lineno
            node.col_offset = at.col_offset
            node.end_col_offset = at.end_col_offset if at.end_lineno == at.lineno else at.col_offset
        for child in children(node):
            place(child, at)
    return node


def constant(value: Any) -> ast.expr:
    return ast.Constant(value)


def load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def attribute(name: str, member: str) -> ast.expr:
    return ast.Attribute(load(name), member, ast.Load())


def call(name: str, member: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(attribute(name, member), list(arguments), [])


def local_names() -> ast.expr:
    return call(RUNTIME, "locals")


def thunk(body: ast.expr) -> ast.expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, body)


def lazy(*operands: ast.expr) -> bool:
    """May the operands move into lambdas?"""
    return not any(isinstance(node, _BINDS) for node in walk(operands))


def _binds_closer(node: ast.Compare) -> bool:
    """Is it ``a == 0 & b == 0``, which is ``a == (0 & b) == 0``? ``0 <= i & 7 < 4`` may be meant."""
    middle = node.comparators[:-1]
    masks = [x for x in middle if isinstance(x, ast.BinOp) and isinstance(x.op, ast.BitAnd | ast.BitOr)]
    equal = all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
    return any(equal or isinstance(x.left, ast.Constant) for x in masks)


def _named(node: ast.AST) -> str:
    """The last name of ``x``, ``nv.x``; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Expressions:
    """Rewrites expressions, in any kind of statement. (As an `ast.NodeTransformer`, in half the time.)"""

    def visit(self, node: ast.AST) -> Any:
        """What ``node`` becomes: a node, or of a statement a list of them."""
        kind: Any = node.__class__
        if kind is ast.Name or kind is ast.Constant:
            return node
        owner: Any = self.__class__
        method = _method(owner, kind)
        return self.generic_visit(node) if method is None else method(self, node)

    def generic_visit(self, node: Any) -> Any:
        """``node``, with what its parts become."""
        for name in parts(node.__class__):
            value = getattr(node, name, None)
            if value.__class__ is list:
                found: list[Any] = []
                for one in value:
                    new = self.visit(one) if isinstance(one, ast.AST) else one
                    if new.__class__ is list:
                        found += new
                    else:
                        found.append(new)
                value[:] = found
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def _expression(self, node: ast.expr, function: str, *arguments: ast.expr) -> ast.expr:
        return place(call(RUNTIME, function, *arguments), node)

    def tested(self, node: ast.expr) -> ast.expr:
        """What an operand of a comparison, or a condition, becomes, whose parts are rewritten."""
        return self._expression(node, "called", node) if _named(node) in IDS else node

    def _plain(self, test: ast.expr) -> ast.expr:
        return self._expression(test, "plain", test, constant("binds"))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        node.values = [self.tested(x) for x in node.values]
        first, *rest = node.values
        if not lazy(*rest):
            node.values = [*map(self._plain, node.values[:-1]), rest[-1]]
            return node
        function = "both" if isinstance(node.op, ast.And) else "either"
        return self._expression(node, function, first, *map(thunk, rest))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return self._expression(node, "negate", self.tested(node.operand))

    def visit_Compare(self, node: ast.Compare) -> Any:
        function = "mistaken" if _binds_closer(node) else "compare"
        self.generic_visit(node)
        node.left, node.comparators = self.tested(node.left), [self.tested(x) for x in node.comparators]
        asks = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)  # an operand for its truth
        if len(node.ops) == 1 and not asks or not lazy(*node.comparators[1:]):
            return node
        arguments = [node.left]
        for position, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            arguments += [ast.Constant(type(op).__name__), thunk(right) if position else right]
        return self._expression(node, function, *arguments)

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A statement that is an expression: a result that is dropped, or a function that is not called."""
        value = node.value
        self.generic_visit(node)
        if isinstance(value, ast.Call):
            found = value.func
            if isinstance(found, ast.Call) and found.args and isinstance(found.args[0], ast.Attribute):
                found.args[0] = self._expression(found.args[0], "for_effect", found.args[0])
        elif isinstance(value, (ast.Attribute, ast.Compare, ast.BinOp, ast.UnaryOp)):
            node.value = self._expression(value, "unused", node.value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        node.test = self.tested(node.test)
        if not lazy(node.body, node.orelse):
            node.test = self._plain(node.test)
            return node
        return self._expression(node, "choose", node.test, thunk(node.body), thunk(node.orelse))

    def visit_Call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "print":
            node.args = [pieces(x) if isinstance(x, ast.JoinedStr) else x for x in node.args]
        self.generic_visit(node)
        if name not in _UNWRAPPED:
            if isinstance(node.func, ast.Attribute):  # a call of a method is reported where its name stands
                node.lineno = node.func.end_lineno or node.lineno
                node.col_offset = (node.func.end_col_offset or 0) - len(node.func.attr)
            node.func = self._expression(node.func, "call", node.func)
        return node


@functools.cache
def _method(owner: Any, kind: Any) -> Any:
    return getattr(owner, f"visit_{kind.__name__}", None)


def pieces(text: ast.JoinedStr) -> ast.expr:
    """An f-string that the kernel prints: its pieces, since only the kernel knows the traced ones' values."""
    parts: list[ast.expr] = []
    for value in text.values:
        if isinstance(value, ast.FormattedValue):
            spec = value.format_spec or ast.Constant("")
            parts.append(ast.Tuple([value.value, ast.Constant(value.conversion), spec], ast.Load()))
        else:
            parts.append(value)
    return place(call(RUNTIME, "text", *parts), text)
