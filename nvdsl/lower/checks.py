"""What would fail later in the lowering with a message that helps nobody, or end the process."""

from __future__ import annotations

import functools
import re
from typing import Any

from nvdsl.errors import LowerError
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, string
from nvdsl.ir.walk import walk
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.prepare import Kernels, functions, parameter_count
from nvdsl.mlir import ir

_NOWHERE = (
    *("acos", "asin", "atan", "atan2", "cosh", "exp", "exp10", "log", "log10", "log2", "pow", "powi", "sinh", "tan"),
    *("lround", "llround", "lrint", "llrint"),
)
_APPROXIMATE = ("sin", "cos", "tanh")
_UP_TO_32_BITS = (*_APPROXIMATE, "exp2")

INTRINSICS = ("llvm.call_intrinsic", *(f"llvm.intr.{name}" for name in (*_NOWHERE, *_UP_TO_32_BITS)))
"""The ops that `intrinsics` looks at."""

INLINE_PTX = ("llvm.inline_asm", "nvvm.inline_ptx")
"""The ops after whose lowering `inline_ptx` looks."""


def static_arrays(device: Any, kernels: Kernels, _: Any) -> None:
    """Raise LowerError for an array argument whose shape is not static: a bare pointer carries none."""
    for function, kernel in functions(device, kernels):
        for argument in list(function.regions[0].blocks[0].arguments)[: parameter_count(function)]:
            _check_static(argument, kernel)


def _check_static(argument: Any, kernel: Kernel) -> None:
    type = argument.type
    ranked = isinstance(type, ir.MemRefType)
    if not ranked and not isinstance(type, ir.UnrankedMemRefType):
        return
    if ranked and type.has_static_shape and _has_static_layout(type):
        return
    raise LowerError(
        f"kernel {kernel.name} is passed an array of type {type}",
        where=kernel.where,
        rule="kernels take arrays as bare pointers: shape, strides and offset are part of the compiled kernel",
        fix="use an array whose shape is known when the function is traced",
    )


def _has_static_layout(type: Any) -> bool:
    strides, offset = type.get_strides_and_offset()
    return ir.ShapedType.get_dynamic_stride_or_offset() not in (*strides, offset)


def intrinsics(device: Any, kernels: Kernels, _: Any) -> None:
    """Raise LowerError for an intrinsic that the NVPTX backend has no instruction for: it would end the process."""
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            name = _intrinsic(op)
            if name and not _is_selectable(name, op):
                raise LowerError(
                    f"the NVPTX backend has no instruction for llvm.{name} on {op.results[0].type}",
                    where=where(op),
                    rule="exp2, and approximate sin, cos and tanh, on at most 32 bits, are instructions (PTX ISA)",
                    fix="use the op of the math dialect, which calls libdevice, or set the flag afn",
                )


def _intrinsic(op: Any) -> str:
    """``sin`` for ``llvm.intr.sin`` and for a call of ``llvm.sin.f32``; "" for another op."""
    if op.name == "llvm.call_intrinsic":
        return string(op, "intrin").split(".")[1]
    return op.name.removeprefix("llvm.intr.") if op.name in INTRINSICS else ""


def _is_selectable(name: str, op: Any) -> bool:
    if name in _UP_TO_32_BITS and "f64" in str(op.results[0].type):
        return False
    flags = str(op.attributes["fastmathFlags"]) if has(op, "fastmathFlags") else ""
    if name in _APPROXIMATE and "afn" not in flags and "fast>" not in flags:
        return False
    return name not in _NOWHERE


def inline_ptx(device: Any, kernels: Kernels, _: Any) -> None:
    """Raise LowerError for inline PTX whose ``$`` or operands don't fit: it would end the process."""
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name == "llvm.inline_asm":
                problem = _asm_problem(string(op, "asm_string"), string(op, "constraints"), len(op.operands))
                if problem:
                    raise LowerError(
                        f"inline PTX {string(op, 'asm_string')!r}: {problem}",
                        where=where(op),
                        rule="$0, $1, ... (in nvvm.inline_ptx %0, %1, ...) are the operands, results first; $$ is a $",
                        fix="count operands and constraints; read a special register through its own nvvm op",
                    )


_NUMBER = re.compile(r"\$(\d+)")
_DOLLAR = re.compile(r"\$(?:\$|(\d+)|\{(\d+)\}|\{:uid\}|[(|)]|(\{?[\w:]*))")


@functools.lru_cache(maxsize=256)  # a wgmma has hundreds of operands, and a kernel many of these
def _asm_problem(text: str, constraints: str, operands: int) -> str:
    kinds = [c for c in constraints.split(",") if c and not c.startswith("~")]
    inputs = sum(not c.startswith("=") for c in kinds)
    if inputs != operands:
        return f"{operands} operands for {inputs} input constraints ({constraints})"
    numbers = _NUMBER.findall(text)
    if len(numbers) == text.count("$") and all(int(number) < len(kinds) for number in numbers):
        return ""
    for match in _DOLLAR.finditer(text):
        number = match[1] or match[2]
        if match[3] is not None:
            return f"${match[3]} is no operand"
        if number and int(number) >= len(kinds):
            return f"${number} of {len(kinds)} operands"
    return ""
