"""The syntax tree of a function, from its source: at the true lines and columns, and fresh each time.

A file may be edited after it was imported. What was imported is what runs: the text is kept when a function of the file
is decorated, and where there are two texts that counts which compiles to the very code that the function has.
"""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import os
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from nvdsl.errors import TraceError, Where

Definition = ast.FunctionDef | ast.Lambda

_STARTED = time.time()
_MOST = 8  # texts of one file
_texts: dict[str, list[list[str]]] = {}  # by file name: the latest last


def keep(function: Callable[..., Any]) -> None:
    """Keep the text of the function's file as it is now, when the function has just been made."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    lines, texts = _lines(code, function.__globals__), _texts.setdefault(code.co_filename, [])
    if lines and not (texts and (texts[-1] is lines or texts[-1] == lines)):
        texts.append(lines)
        del texts[:-_MOST]


def definition(function: FunctionType) -> Definition | None:
    """The definition of ``function``; None if there is no source, or not one lambda that fits.

    Raises ``TraceError`` if the file was edited and what was imported is not known.
    """
    code = function.__code__
    lines = _text(code, function.__globals__)
    if len(lines) < code.co_firstlineno:
        return None
    return _lambda(code, lines) if code.co_name == "<lambda>" else _function(code, lines)


def _text(code: CodeType, scope: dict[str, Any]) -> list[str]:
    """The lines that the code was compiled from."""
    now, kept = _lines(code, scope), _texts.get(code.co_filename, [])
    if all(text == now for text in kept) if kept else not _edited(code.co_filename):
        return now
    for lines in (now, *reversed(kept)):
        if code in _compiled(code.co_filename, "".join(lines)):
            return lines
    raise no_source(code, "has changed since it was imported")


@functools.lru_cache(maxsize=64)
def _compiled(filename: str, text: str) -> frozenset[CodeType]:
    """All functions of a file."""
    try:
        found = [compile(text, filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):  # edited just now, or no Python file
        return frozenset()
    for code in found:
        found += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(found)


def _lines(code: CodeType, scope: dict[str, Any]) -> list[str]:
    linecache.checkcache(code.co_filename)
    return linecache.getlines(code.co_filename, scope)


def _edited(filename: str) -> bool:
    """Whether a file is newer than this process's nvdsl."""
    try:
        return os.stat(filename).st_mtime > _STARTED
    except OSError:
        return False


def no_source(code: CodeType, what: str) -> TraceError:
    return TraceError(
        f"the source of `{code.co_qualname}` {what}",
        where=Where(code.co_filename, code.co_firstlineno),
        rule="control flow is traced from a function's source",
        fix="define it in a file or a notebook cell (exec() keeps no source); after a change load it anew: "
        "importlib.reload(module)",
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
