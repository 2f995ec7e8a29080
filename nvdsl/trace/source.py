"""The syntax tree of a function, from its source: at the true lines and columns, and fresh each time."""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from nvdsl.errors import TraceError, Where


def definition(function: FunctionType) -> ast.FunctionDef | ast.Lambda | None:
    """The definition of ``function``; None if there is no source, or not one lambda that fits.

    Raises ``TraceError`` if something else is defined there now.
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if len(lines) < code.co_firstlineno:
        return None
    return _lambda(code, lines) if code.co_name == "<lambda>" else _function(code, lines)


def no_source(code: CodeType, what: str) -> TraceError:
    return TraceError(
        f"the source of `{code.co_qualname}` {what}",
        where=Where(code.co_filename, code.co_firstlineno),
        rule="control flow is traced from a function's source",
        fix="define it in a file or a notebook cell (exec() keeps no source); import it anew after a change",
    )


def _function(code: CodeType, lines: list[str]) -> ast.FunctionDef:
    """A definition ends before a line that is indented no more than it, unless that line is in the middle of
    a string or of brackets: then what is before it does not parse. (``inspect.getsource`` takes longer
    than all the rest of a conversion.)"""
    first = code.co_firstlineno
    indent = _indent(lines[first - 1])
    before = "\n" * (first - 2) + "if 1:\n" if indent else "\n" * (first - 1)
    for end in _ends(lines, first, indent):
        try:
            body = ast.parse(before + "".join(lines[first - 1 : end])).body
        except SyntaxError:
            continue
        node = body[0].body[0] if indent else body[0]  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return node
        break
    raise no_source(code, "has changed since it was imported")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _ends(lines: list[str], first: int, indent: int) -> Iterator[int]:
    """Where a definition that starts at line ``first`` may end: counts of lines, the likeliest first."""
    for number in range(first, len(lines)):
        text = lines[number].strip()
        if text and text[0] != "#" and _indent(lines[number]) <= indent:
            yield number
    yield len(lines)


_trees: dict[str, tuple[list[str], ast.Module]] = {}  # by file name: of these very lines


def _lambda(code: CodeType, lines: list[str]) -> ast.Lambda | None:
    """The smallest lambda of the file that has the parameters of ``code`` and is around its instructions."""
    known = _trees.get(code.co_filename)
    if known is None or known[0] is not lines:
        try:
            known = _trees[code.co_filename] = lines, ast.parse("".join(lines))
        except SyntaxError:  # no Python file, or a changed one
            return None
    inside = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    fitting = [
        node
        for node in ast.walk(known[1])
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] == names
        and all(_is_around(node, position) for position in inside)
    ]
    if not fitting or not inside:
        return None
    return copy.deepcopy(min(fitting, key=lambda node: (node.end_lineno or 0, -node.col_offset)))


def _is_around(node: ast.expr, position: Any) -> bool:
    line, end_line, column, end_column = position
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= (line, column) and (end_line, end_column) <= end
