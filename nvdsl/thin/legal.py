"""Modules that are written as MLIR: what nvdsl's steps take of upstream's dialects, and what ends LLVM's process."""

from __future__ import annotations

from typing import Any

from nvdsl.errors import TraceError, Where
from nvdsl.ir.location import where
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir, passmanager

_TO_INTEGERS = ("arith.fptosi", "arith.fptoui", "llvm.fptosi", "llvm.fptoui")


def legalize(module: Any, name: str) -> bool:
    """Lower the affine dialect to arith, memref and scf, which everything behind knows; whether there was any.

    Raises TraceError for types that end the process in LLVM's backend, at a line of the text called ``name``.
    """
    ops = walk(module)
    for op in ops:
        _check_types(op, name)
    if not any(op.name.startswith("affine.") for op in ops):
        return False
    passmanager.PassManager.parse("builtin.module(lower-affine)").run(module.operation)
    return True


def _check_types(op: Any, name: str) -> None:
    def refuse(rule: str, fix: str) -> TraceError:
        place = where(op)
        at = place if place is None or place.file != "-" else Where(name, place.line)
        return TraceError(f"{op.name} makes a {op.results[0].type}", where=at, rule=rule, fix=fix)

    for value in op.results:
        type = value.type
        if isinstance(type, ir.VectorType) and type.scalable:
            raise refuse("vectors have a fixed number of elements", "write the number without []")
        if op.name in _TO_INTEGERS:
            element = type.element_type if isinstance(type, ir.VectorType) else type
            if isinstance(element, ir.IntegerType) and element.width > 64:
                raise refuse("a float becomes an integer of up to 64 bits (PTX ISA, cvt)",
                             "convert to i64, and extend that")  # fmt: skip
