"""A user's own PTX in a kernel, with its meaning in Python for the simulator.

PTX ISA, "Instruction Statements"; LLVM, "Inline Assembler Expressions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.ptx import unpack
from nvdsl.values import dtypes, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value, wrap
from nvdsl.values.typing import Number, Pointer

NAME = "user"
"""The op's ``nvdsl.ptx``: not one of `ptx.REGISTRY`."""

TYPES, MEANING = "nvdsl.types", "nvdsl.meaning"
"""Attributes of the op: the names of the types of results and operands, and that of `meanings`."""

Meaning = Callable[..., Any]

meanings: dict[str, Meaning] = {}
"""By name: what the simulator executes."""

_REGISTERS = {  # by bits; a predicate has one
    ("int", 16): "h", ("int", 32): "r", ("int", 64): "l", ("float", 16): "h", ("float", 32): "f", ("float", 64): "d",
    ("bool", 1): "b",
}  # fmt: skip
_DOLLAR = re.compile(r"\$(?:\$|(\d+)|\{(\d+)\}|\{:uid\}|(.?))")


def ptx(
    text: str,
    *operands: Number | Pointer,
    result: DType | Sequence[DType] | None = None,
    meaning: Meaning | None = None,
    volatile: bool = True,
    memory: bool | None = None,
) -> Any:
    """PTX of one's own: ``nv.ptx("lop3.b32 $0, $1, $2, $3, 0x96;", a, b, c, result=nv.u32, meaning=f)``.

    ``text``: one or more instructions, each with its semicolon. ``$0``, ``$1``, ... are the registers, first of the
    results and then of the operands; ``$$`` is a dollar sign. Labels and registers of its own stand in braces
    ``{ .reg .b32 t; ... }``; ``${:uid}`` is another number at each place where the text ends up.
    ``operands``: traced values, numbers, conditions (predicates), and pointers (`nv.ops.pointer.address_of`,
    ``tile.pointer()``). Types say the register class: 16, 32 and 64 bits, a bool is a predicate. ``result``: the type
    of the result, or a sequence of several.

    ``volatile=False``: the text does nothing but compute its results. It may then be left out where nobody uses them,
    and moved or shared. Else each thread that comes to it executes it once, in the order of the program.
    ``memory``: it reads or writes memory, so that no load and no store is moved across it; by default that is so where
    an operand is a pointer.

    ``meaning``: a function that does the same in the simulator. It is called once for each warp, with NumPy arrays: of
    each operand what the active lanes have; it returns an array for each result. For a pointer it gets a `Memory`,
    whose ``load`` and ``store`` the simulator checks as it does other accesses. Without it the simulator stops here.
    What the text does to memory beside that nobody can see, neither races nor what is out of bounds.

    Returns a value, a tuple of values, or None. Raises TraceError where the text and the registers don't fit. What
    ptxas has against the text is a LowerError at this line.
    """
    scope.current("nv.ptx")
    results = [] if result is None else [result] if isinstance(result, DType | str) else list(result)
    given = [_operand(x, i) for i, x in enumerate(operands)]
    _check_text(text, len(results), len(given))
    if not results and not volatile:
        raise trace_error(
            "nv.ptx without a result, and with volatile=False",
            rule="what is not volatile is there for its results alone",
            fix="leave volatile out, or name a result",
        )
    classes = [*(_of_result(dtype) for dtype in results), *(kind for _, kind, _ in given)]
    outputs, inputs = [f"={c}" for c in classes[: len(results)]], classes[len(results) :]
    if any(space is not None for _, _, space in given) if memory is None else memory:
        inputs.append("~{memory}")
    types = [dtype.ir for dtype in results]
    struct = None if not types else types[0] if len(types) == 1 else llvm.StructType.get_literal(types)
    op = llvm.InlineAsmOp(
        struct,
        [value for value, _, _ in given],
        text,
        ",".join([*outputs, *inputs]),
        has_side_effects=volatile,
        asm_dialect=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
    )
    names = [*(dtype.name for dtype in results), *(space or value.dtype.name for value, _, space in given)]
    op.operation.attributes["nvdsl.ptx"] = ir.StringAttr.get(NAME)
    op.operation.attributes[TYPES] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
    if meaning is not None:
        op.operation.attributes[MEANING] = ir.StringAttr.get(_named(meaning))
    if len(results) < 2:
        return wrap(op.results[0], results[0]) if results else None
    return tuple(wrap(x, dtype) for x, dtype in zip(unpack(op.results[0]), results, strict=True))


def _operand(x: Any, number: int) -> tuple[Any, str, str | None]:
    """(value, register class, the type of a pointer)."""
    if isinstance(x, ir.Value) and str(x.type).startswith("!llvm.ptr"):
        return x, "r" if str(x.type) == "!llvm.ptr<3>" else "l", str(x.type)
    if not isinstance(x, Value | int | float | np.integer | np.floating):
        raise trace_error(
            f"operand {number} of nv.ptx is {type(x).__name__}",
            rule="operands are numbers, conditions and pointers",
            fix="nv.ops.pointer.address_of(array, space=GLOBAL) and tile.pointer() are pointers",
        )
    value = as_value(x)
    if value.dtype is dtypes.index:
        value = dtypes.i64(value)
    kind = _register(value.dtype)
    if kind is None or value.shape:
        shape = f" vector of {value.shape[0]}" if value.shape else ""
        raise trace_error(
            f"operand {number} of nv.ptx is a {value.dtype.name}{shape}",
            rule=_RULE,
            fix="convert it, nv.i32(x), or pack it, nv.bitcast(nv.vector([a, b]), nv.i32)",
        )
    return value, kind, None


_RULE = "a register of inline PTX holds a number of 16, 32 or 64 bits, or a predicate (a bool)"


def _register(dtype: DType) -> str | None:
    return _REGISTERS.get((dtype.kind, dtype.bits)) if dtype.arithmetic or dtype.kind == "bool" else None


def _of_result(dtype: DType) -> str:
    found = _register(dtype) if isinstance(dtype, DType) else None
    if found is None:
        raise trace_error(
            f"a result of nv.ptx of type {dtype.name if isinstance(dtype, DType) else dtype!r}",
            rule=_RULE,
            fix="result=nv.i32, or result=(nv.i32, nv.f32) for two",
        )
    return found


def _check_text(text: str, results: int, operands: int) -> None:
    if not re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).rstrip().endswith((";", "}")):
        raise trace_error(
            f"nv.ptx({text!r}): the last instruction has no semicolon",
            rule="an instruction ends with a semicolon (PTX ISA, Instruction Statements)",
            fix="write ; at the end",
        )
    count, used = results + operands, set()
    for match in _DOLLAR.finditer(text):
        number = match[1] or match[2]
        if number is not None:
            used.add(int(number))
        wrong = number is not None and int(number) >= count
        if wrong or match[3] is not None:
            raise trace_error(
                f"{match[0]} in the text of nv.ptx, which has {_counted(results, 'result')} and "
                f"{_counted(operands, 'operand')}",
                rule="$0, $1, ... are the registers of the results and then of the operands; $$ is a dollar sign",
                fix=f"count from $0 to ${count - 1}" if count else "name a result=, or pass operands",
            )
    for number in range(count):
        if number not in used:
            what = f"result {number}" if number < results else f"operand {number - results}"
            raise trace_error(
                f"{what} of nv.ptx is not in its text: there is no ${number}",
                rule="$0, $1, ... are the registers of the results and then of the operands, and each has its place",
                fix=f"write ${number} where it belongs, or leave the {what.split()[0]} out",
            )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _named(meaning: Meaning) -> str:
    """A name in `meanings`: the same for what is the same, from one process to the next where that is known."""
    if not callable(meaning):
        raise trace_error(
            f"meaning={meaning!r}",
            rule="a function of NumPy arrays, one for each operand, that returns one for each result",
            fix="meaning=lambda a, b: a ^ b",
        )
    name = base = f"{getattr(meaning, '__module__', '')}.{getattr(meaning, '__qualname__', type(meaning).__name__)}"
    number = 1
    while name in meanings and not _same(meanings[name], meaning):
        number += 1
        name = f"{base} ({number})"
    meanings[name] = meaning
    return name


def _same(one: Meaning, other: Meaning) -> bool:
    return one is other or _parts(one) == _parts(other) is not None


def _parts(function: Meaning) -> Hashable:
    """What two functions have in common that do the same; None where that isn't known."""
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    if code is None or getattr(function, "__defaults__", None):
        return None
    return code, tuple(id(cell.cell_contents) for cell in cells)
