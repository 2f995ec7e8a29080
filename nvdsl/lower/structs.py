"""Inline PTX that takes a struct of registers: an accumulator, which a trace hands on as one value.

LLVM's inline assembly takes registers one by one, so the struct is taken apart in front of it. Between the wgmmas of
one product that is not needed: they go on with the accumulator as it is, and become one inline PTX.
"""

from __future__ import annotations

import re
from typing import Any

from nvdsl.ir.location import where
from nvdsl.ir.operands import string
from nvdsl.ir.walk import defining
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm

WGMMAS = ("nvvm.wgmma.mma_async", "nvgpu.warpgroup.mma", "llvm.inline_asm")
INLINE_ASM = ("llvm.inline_asm", "nvgpu.warpgroup.mma")

_ARITHMETIC = frozenset(
    f"llvm.{name}"
    for name in ("add", "and", "bitcast", "extractvalue", "insertvalue", "lshr", "mlir.constant", "mlir.undef", "mul",
                 "or", "sext", "shl", "sub", "trunc", "xor", "zext")
)  # fmt: skip
"""What may stand between two wgmmas of a product: they are carried out behind it."""

TOGETHER = 2
"""Of a product, at most: each one's descriptors are there before the first one, and take registers. With three or
more joined, gradients of attention spilled."""


def join_wgmmas(device: Any, kernels: Kernels, _: Any) -> None:
    """Each wgmma that goes on with the result of the one before it, with nothing but arithmetic between the two,
    becomes part of its inline PTX. Those of different lines stay apart: ptxas names the line of what it says."""
    for block in _blocks(device, kernels):
        run: list[Any] = []
        for op in [op.operation for op in block.operations]:
            if op.name == "llvm.inline_asm" and "wgmma.mma_async" in string(op, "asm_string"):
                if not (run and len(run) < TOGETHER and _goes_on(op, run[-1])):
                    _join(run)
                    run = []
                run.append(op)
            elif run and op.name not in _ARITHMETIC:
                _join(run)
                run = []
        _join(run)


def spread(device: Any, kernels: Kernels, _: Any) -> None:
    """The fields of a struct as operands of their own."""
    for block in _blocks(device, kernels):
        for op in [op.operation for op in block.operations]:
            if op.name == "llvm.inline_asm" and len(op.operands):
                *others, last = op.operands
                if isinstance(last.type, llvm.StructType):
                    with ir.InsertionPoint(op), op.location:
                        made = _asm(op, [*others, *_fields(last)])
                    op.results[0].replace_all_uses_with(made)
                    op.erase()


def _blocks(device: Any, kernels: Kernels) -> list[Any]:
    return [block for function, _ in functions(device, kernels) for block in function.regions[0].blocks]


def _fields(struct: Any) -> list[Any]:
    types = list(llvm.StructType(struct.type).body)
    return [
        new("llvm.extractvalue", type, struct, position=at) for type, at in zip(types, _places(len(types)), strict=True)
    ]


def _places(count: int) -> list[Any]:
    """Of the fields of a struct, as attributes of `llvm.extractvalue`."""
    return [ir.DenseI64ArrayAttr.get([i]) for i in range(count)]


def _asm(like: Any, operands: list[Any], **changed: str) -> Any:
    attributes = {name: like.attributes[name] for name in like.attributes}
    attributes |= {name: ir.StringAttr.get(text) for name, text in changed.items()}
    return new("llvm.inline_asm", like.results[0].type, *operands, **attributes)


def _goes_on(op: Any, before: Any) -> bool:
    """Whether a wgmma adds to the result of ``before``, which nothing else reads."""
    accumulator = _accumulator(op)
    if accumulator is None or accumulator != before.results[0] or where(op) != where(before):
        return False
    users = {use.owner.operation for use in before.results[0].uses}
    if users == {op}:
        return True
    fields = [user for user in users if user.name == "llvm.extractvalue"]
    return len(fields) == len(users) and all(
        use.owner.operation == op for field in fields for use in field.results[0].uses
    )


def _accumulator(op: Any) -> Any:
    """The struct whose fields, in order, are the registers that a wgmma's results are tied to; None for no such."""
    operands = list(op.operands)
    if operands and isinstance(operands[-1].type, llvm.StructType):
        return operands[-1]
    found = None
    tied = [operand for operand, kind in _given(op) if kind.isdigit()]
    for value, place in zip(tied, _places(len(tied)), strict=True):
        made = defining(value)
        if made is None or made.name != "llvm.extractvalue" or made.attributes["position"] != place:
            return None
        if found is not None and made.operands[0] != found:
            return None
        found = made.operands[0]
    return found


def _inputs(op: Any) -> list[str]:
    return [kind for kind in string(op, "constraints").split(",") if kind[0] != "="]


def _given(op: Any) -> list[tuple[Any, str]]:
    """Each operand with its constraint, a struct with that of its first field."""
    return list(zip(op.operands, _inputs(op), strict=False))


def _renumbered(text: str, numbers: dict[str, str]) -> str:
    return re.sub(r"\$(\d+)", lambda match: f"${numbers[match[1]]}", text)


def _join(run: list[Any]) -> None:
    """One inline PTX, where the last of them is: results, each one's own operands, the first one's accumulator."""
    if len(run) < 2:
        return
    results = string(run[0], "constraints").split(",")[: len(list(llvm.StructType(run[0].results[0].type).body))]
    own: list[Any] = []
    kinds: list[str] = []
    texts = []
    for op in run:
        numbers = {str(i): str(i) for i in range(len(results))}
        for i, (operand, kind) in enumerate(_given(op), len(results)):
            if not kind.isdigit():
                numbers[str(i)] = str(len(results) + len(own))
                own.append(operand)
                kinds.append(kind)
        texts.append(_renumbered(string(op, "asm_string"), numbers))
    accumulator = [operand for operand, kind in _given(run[0]) if kind.isdigit()]
    kinds += [kind for kind in _inputs(run[0]) if kind.isdigit()]
    last = run[-1]
    with ir.InsertionPoint(last), last.location:
        made = _asm(last, [*own, *accumulator], asm_string="\n".join(texts), constraints=",".join([*results, *kinds]))
    last.results[0].replace_all_uses_with(made)
    for op in reversed(run):
        for use in list(op.results[0].uses):
            use.owner.operation.erase()
        op.erase()
