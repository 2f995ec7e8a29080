"""`print` in a kernel: traced arguments are printed on the device (gpu.printf, CUDA's printf).

Integers print as ``%d``, unsigned ones as ``%u``, 64-bit ones and index with ``ll``, bools as 0 or 1,
floats as ``%g``, vectors, lists, tuples and dicts element by element. A part of a fragment is printed
row by row, each by one thread. In an f-string a format after the colon is handed on:
``print(f"{x:.3f} {i:4d} {mask:#x}")``. The rest of the text is fixed while the kernel is traced.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, scf
from nvdsl.trace.carry import describe, is_value
from nvdsl.values import dtypes
from nvdsl.values.traced import Value

_SPEC = re.compile(r"([-+ #0]*\d*(?:\.\d+)?)([a-zA-Z]?)")
# As ast.FormattedValue has them: none, !r, !s, !a.
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {-1: lambda x: x, 114: repr, 115: str, 97: ascii}


class Text:
    """An f-string with traced pieces: ``(value, conversion, format)`` or fixed text."""

    def __init__(self, pieces: tuple[Any, ...]) -> None:
        self.pieces = pieces


def text(*pieces: Any) -> Any:
    """An f-string that is printed: a ``str`` if it has no traced piece."""
    if any(isinstance(piece, tuple) and _is_traced(piece[0]) for piece in pieces):
        return Text(pieces)
    return "".join(map(_plain, pieces))


def _plain(piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    value, conversion, spec = piece
    return format(_CONVERSIONS[conversion](value), spec)


def print_(*arguments: Any, **options: Any) -> None:
    """Python's ``print``; with traced arguments, on the device: then ``sep`` and ``end`` are all it takes."""
    for position, x in enumerate(arguments):
        if hasattr(type(x), "__nv_lines__") and (lines := x.__nv_lines__()) is not None:
            for prints, pieces in lines:
                text = Text(tuple((piece, -1, "") if is_value(piece) else piece for piece in pieces))
                line = (*arguments[:position], text, *arguments[position + 1 :])
                if prints is True:
                    print_(*line, **options)
                    continue
                with ir.InsertionPoint(scf.IfOp(prints).then_block):
                    print_(*line, **options)
                    scf.yield_([])
            return
        if hasattr(type(x), "__nv_unprintable__"):
            raise trace_error(
                f"print of {'an' if type(x).__name__[0] in 'AE' else 'a'} {type(x).__name__}",
                rule="the device prints numbers: tiles and accumulators are loaded element by element",
                fix=f"{type(x).__nv_unprintable__}; print(repr(x)) prints what it is, once, while the kernel is traced",
            )
    if not any(_is_traced(x) or type(x) is Text for x in arguments):
        builtins.print(*arguments, **options)
        return
    separator, end = options.pop("sep", " "), options.pop("end", "\n")
    if options:
        names = ", ".join(options)
        raise trace_error(f"print(..., {names}=...) of traced values", rule="the device prints to stdout")
    values: list[Any] = []
    parts = []
    for x in arguments:
        pieces = x.pieces if type(x) is Text else [(x, -1, "") if _is_traced(x) else str(x)]
        parts.append("".join(_format(piece, values) for piece in pieces))
    separator, end = (escaped(default if x is None else x) for x, default in ((separator, " "), (end, "\n")))
    _check_count(values)
    gpu.printf(separator.join(parts) + end, *values)


def format_of(text: Text) -> tuple[str, list[Any]]:
    """The printf format of a text, and the values that it prints."""
    values: list[Any] = []
    form = "".join(_format(piece, values) for piece in text.pieces)
    _check_count(values)
    return form, values


def _check_count(values: list[Any]) -> None:
    if len(values) > arch.MAX_PRINTED:
        raise trace_error(
            f"{len(values)} traced values in one print",
            rule=f"the device's printf takes {arch.MAX_PRINTED} values (CUDA programming guide, Formatted Output)",
            fix="print them in several calls",
        )


def _is_traced(x: Any) -> bool:
    """Whether ``x`` is a traced value, or a list, tuple or dict with one in it."""
    if type(x) is dict:
        return any(map(_is_traced, x.values()))
    return any(map(_is_traced, x)) if type(x) in (list, tuple) else is_value(x)


def escaped(fixed: str) -> str:
    """What printf prints as ``fixed``."""
    return fixed.replace("%", "%%")


def _format(piece: Any, values: list[Any]) -> str:
    """The piece's part of the format; what it prints is appended to ``values``."""
    if isinstance(piece, str) or not _is_traced(piece[0]):
        return escaped(_plain(piece))
    value, _, spec = piece
    if isinstance(value, list | tuple | dict):
        return _of_container(value, values)
    if not isinstance(value, Value):
        raise trace_error(
            f"print of a value of type {describe(value)}",
            rule="the device prints numbers",
            fix="print elements, x[i]; print(repr(x)) prints what it is, once, while the kernel is traced",
        )
    if value.shape:
        parts = [_number(value[i], spec, values) for i in range(value.shape[0])]
        return f"[{', '.join(parts)}]"
    return _number(value, spec, values)


def _of_container(found: Any, values: list[Any]) -> str:
    """As Python writes it, with the numbers in the place of traced values."""

    def one(x: Any) -> str:
        return _format((x, -1, ""), values) if _is_traced(x) else escaped(repr(x))

    if isinstance(found, dict):
        return "{" + ", ".join(f"{escaped(repr(key))}: {one(x)}" for key, x in found.items()) + "}"
    inside = ", ".join(map(one, found))
    return f"[{inside}]" if isinstance(found, list) else f"({inside}{',' * (len(found) == 1)})"


def _number(value: Value, spec: str, values: list[Any]) -> str:
    t = value.dtype
    flags = _SPEC.fullmatch(spec)
    allowed = "fFeEgGaA" if t.is_float else "duxXo"
    if flags is None or flags[2] and flags[2] not in allowed:
        raise trace_error(
            f"print of a traced {t.name} with the format {spec!r}",
            rule="the device's printf takes flags, a width, a precision and a letter",
            fix=f"use one of the letters {', '.join(allowed)}",
        )
    if t.is_float:
        values.append(value if t in (dtypes.f64, dtypes.f32) else dtypes.f32(value))
        return f"%{flags[1]}{flags[2] or 'g'}"
    letter = flags[2] or ("u" if t.is_unsigned else "d")
    if t.bits == 64:
        values.append(dtypes.i64(value) if t is dtypes.index else value)
        return f"%{flags[1]}ll{letter}"
    values.append(value if t.bits == 32 else (dtypes.u32 if t.is_unsigned else dtypes.i32)(value))
    return f"%{flags[1]}{letter}"
