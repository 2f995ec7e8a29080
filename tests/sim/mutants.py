"""Mutants of a traced module: one synchronization removed, or one count, parity or swizzle wrong."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Iterator
from typing import Any

from nvdsl.lower.kernels import walk
from nvdsl.mlir import ir
from nvdsl.trace.location import where

REMOVED = (
    "nvgpu.mbarrier.try_wait.parity", "nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.expect_tx", "nvgpu.mbarrier.init",
    "gpu.barrier", "nvvm.barrier", "nvvm.wgmma.fence.aligned", "nvvm.wgmma.commit.group.sync.aligned",
    "nvvm.wgmma.wait.group.sync.aligned", "nvvm.fence.proxy", "nvvm.cp.async.bulk.wait_group",
    "nvvm.cp.async.bulk.commit.group", "nvgpu.tma.async.load",
)  # fmt: skip
_COUNTS = {"nvgpu.mbarrier.arrive.expect_tx": (1, (16, -16)), "nvgpu.mbarrier.init": (1, (1,))}
_LOOSER = {"nvvm.wgmma.wait.group.sync.aligned": 1}


def mutants(module: Any) -> Iterator[tuple[str, Any]]:
    """(what was changed, the changed module) for every single change."""
    text = module.operation.get_asm(enable_debug_info=True)
    for i, op in enumerate(walk(module.operation)):
        at = where(op)
        line = linecache.getline(at.file, at.line).strip() if at else ""
        what = f"{op.name} of `{line}`"
        if op.name in REMOVED:
            yield f"without {what}", _edited(module, text, i, _erase)
        if op.name in _COUNTS:
            operand, changes = _COUNTS[op.name]
            for change in changes:
                edit = functools.partial(_add, operand=operand, change=change)
                yield f"{change:+} in {what}", _edited(module, text, i, edit)
        if op.name == "nvgpu.mbarrier.try_wait.parity":
            yield f"other parity in {what}", _edited(module, text, i, _flip)
        if op.name in _LOOSER and ir.IntegerAttr(op.attributes["group"]).value == 0:
            yield f"one more in flight in {what}", _edited(module, text, i, _loosen)


def _edited(module: Any, text: str, number: int, edit: Any) -> Any:
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(text)
        edit(list(walk(copy.operation))[number])
        copy.operation.verify()
        return copy


def _erase(op: Any) -> None:
    op.erase()


def _add(op: Any, operand: int, change: int) -> None:
    value = op.operands[operand]
    with ir.InsertionPoint(op), op.location:
        by = _constant(value.type, change)
        op.operands[operand] = ir.Operation.create("arith.addi", [value.type], [value, by]).results[0]


def _flip(op: Any) -> None:
    value = op.operands[1]
    with ir.InsertionPoint(op), op.location:
        one = _constant(value.type, 1)
        op.operands[1] = ir.Operation.create("arith.xori", [value.type], [value, one]).results[0]


def _constant(type: Any, value: int) -> Any:
    return ir.Operation.create(
        "arith.constant", [type], attributes={"value": ir.IntegerAttr.get(type, value)}
    ).results[0]


def _loosen(op: Any) -> None:
    op.attributes["group"] = ir.IntegerAttr.get(op.attributes["group"].type, 1)
