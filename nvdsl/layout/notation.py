"""CuTe's notation, written and read: ``(4,8):(8,1)``, ``(64,32):(1@0,1@1)``, and ``8:X(0x90)`` for bits."""

from __future__ import annotations

import ast
from typing import Any

from nvdsl.errors import layout_error
from nvdsl.layout import core
from nvdsl.layout.core import Layout
from nvdsl.layout.nested import is_nested
from nvdsl.layout.strides import E, X


def show(layout: Layout) -> str:
    """A layout as CuTe prints it. A scaled basis coordinate is ``2@1``; a dynamic extent is ``?``.

    >>> show(Layout(((4, 8), 2), ((E(0, 2), E(1, 0)), E(0, 1))))
    '((4,8),2):((2@1,1@0),1@1)'
    """
    return f"{_show(layout.shape)}:{_show(layout.stride)}"


def _show(x: Any) -> str:
    if is_nested(x):
        return f"({','.join(map(_show, x))}{',' * (len(x) == 1)})"
    if isinstance(x, E):
        return "+".join(f"{_show(n)}@{i}" for i, n in enumerate(x) if not (isinstance(n, int) and n == 0)) or "0@0"
    return str(x) if isinstance(x, (int, X)) else "?"


def parse(text: str) -> Layout:
    """The layout that `show` would write as ``text``. ``E(0, 2)`` may stand for ``2@1``; a shape of one mode needs no
    stride.

    >>> parse("(4,8):(8,1)")
    Layout((4, 8), (8, 1))

    Raises LayoutError for anything else.
    """
    try:
        shape, *strides = (ast.parse(part.strip(), mode="eval").body for part in text.split(":"))
        if not strides:
            return Layout(_read(shape, 0))
        (stride,) = strides
        return Layout(_read(shape, 0), _read(stride, _axes(stride)))
    except (SyntaxError, TypeError, AttributeError, KeyError) as error:
        raise _unreadable(text, str(error)) from None
    except ValueError as error:
        raise (error if hasattr(error, "rule") else _unreadable(text, str(error))) from None


def _unreadable(text: str, why: str) -> Exception:
    return layout_error(
        f"{text!r} is no layout" + (f": {why}" if why else ""),
        rule="shape : stride, nested alike; sizes are ints, strides ints, coordinates 2@1 or E(0,2), or bits X(0x90)",
        fix="(4,8):(8,1), (64,32):(1@0,1@1), ((8,2),64):((X(0x90),1024),X(2))",
    )


def _axes(tree: ast.AST) -> int:
    """Axes of the coordinates in a stride, as many as its highest ``@`` names."""
    return 1 + max(
        (n.right.value for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult)
         and isinstance(n.right, ast.Constant) and isinstance(n.right.value, int)),
        default=0,
    )  # fmt: skip


def _read(tree: ast.AST, axes: int) -> Any:
    match tree:
        case ast.Tuple(elts=entries):
            return tuple(_read(entry, axes) for entry in entries)
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.BinOp(left=left, op=ast.MatMult(), right=ast.Constant(value=int(axis))):
            return E(*(_read(left, 0) if i == axis else 0 for i in range(axes)))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _read(left, axes) + _read(right, axes)
        case ast.Call(func=ast.Name(id="E" | "X" as kind), args=entries, keywords=[]):
            numbers = [_read(entry, 0) for entry in entries]
            return E(*numbers) if kind == "E" else X(*numbers)
    raise SyntaxError(f"{ast.unparse(tree)!r}")


core.below["show"] = show
