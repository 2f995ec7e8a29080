"""Modules that are written as MLIR: what nvdsl's steps take of upstream's dialects, and what ends LLVM's process."""

from __future__ import annotations

from typing import Any

from nvdsl.errors import TraceError, Where
from nvdsl.ir.location import where
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir, passmanager
from nvdsl.thin import reductions

_TO_INTEGERS = ("arith.fptosi", "arith.fptoui", "llvm.fptosi", "llvm.fptoui")


def legalize(module: Any, name: str) -> bool:
    """Lower the affine dialect, and reductions over a block or a warp, to arith, memref, scf and shuffles, which
    everything behind knows; whether there was any.

    Raises TraceError for types that end the process in LLVM's backend, at a line of the text called ``name``.
    """
    ops = walk(module)
    for op in ops:
        _check_types(op, name)
    found = [op for op in ops if op.name in reductions.NAMES]
    is_affine = any(op.name.startswith("affine.") for op in ops)
    for number, op in enumerate(found):
        reductions.expand(op, number, _place(op, name))
    if is_affine:
        passmanager.PassManager.parse("builtin.module(lower-affine)").run(module.operation)
        return True
    return bool(found)


def _check_types(op: Any, name: str) -> None:
    def refuse(rule: str, fix: str) -> TraceError:
        return TraceError(f"{op.name} makes a {op.results[0].type}", where=_place(op, name), rule=rule, fix=fix)

    for value in op.results:
        type = value.type
        if isinstance(type, ir.VectorType) and type.scalable:
            raise refuse("vectors have a fixed number of elements", "write the number without []")
        if op.name in _TO_INTEGERS:
            element = type.element_type if isinstance(type, ir.VectorType) else type
            if isinstance(element, ir.IntegerType) and element.width > 64:
                raise refuse("a float becomes an integer of up to 64 bits (PTX ISA, cvt)",
                             "convert to i64, and extend that")  # fmt: skip


def _place(op: Any, name: str) -> Where | None:
    place = where(op)
    return place if place is None or place.file != "-" else Where(name, place.line)
