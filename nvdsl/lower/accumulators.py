"""Accumulators of nvgpu's warpgroup MMA: held together in front of the fence.

LLVM sees a wgmma as arithmetic, and writes the registers that one starts from (zeros, mostly) just before it:
behind the fence, among the wgmmas that are in flight. ptxas then adds a wait. An empty inline PTX in front of the
fence, which reads and writes all of them, makes that the place.
"""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import walk
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm

_REGISTER = {"f32": "f", "i32": "r"}


def hold_accumulators(device: Any, kernels: Kernels, _: Any) -> None:
    """For each fence, tie the accumulators of the wgmmas behind it that come from before it."""
    for function, _kernel in functions(device, kernels):
        for fence in [op for op in walk(function) if op.name == "nvvm.wgmma.fence.aligned"]:
            for wgmma in _first_of_each_accumulator(fence):
                _hold(wgmma, fence)


def _first_of_each_accumulator(fence: Any) -> list[Any]:
    """The wgmmas of the fence's stage whose accumulator is no other wgmma's result."""
    found, behind = [], False
    for op in fence.block.operations:
        name = op.operation.name
        behind = behind or op.operation == fence
        if behind and name == "nvvm.wgmma.commit.group.sync.aligned":
            break
        if behind and name == "nvvm.wgmma.mma_async":
            source = op.operands[0].owner
            if isinstance(source, ir.Block) or source.operation.name == "llvm.extractvalue":
                found.append(op.operation)
    return found


def _hold(wgmma: Any, fence: Any) -> None:
    source = wgmma.operands[0].owner
    with ir.InsertionPoint(fence), fence.location:
        accumulator = wgmma.operands[0]
        if not isinstance(source, ir.Block):  # the fence precedes it: take it from the whole once more
            whole, position = source.operands[0], source.operation.attributes["position"]
            accumulator = new("llvm.extractvalue", accumulator.type, whole, position=position)
        wgmma.operands[0] = _tie(accumulator)


def _tie(struct: Any) -> Any:
    types = list(llvm.StructType(struct.type).body)
    outputs = [f"={_REGISTER[str(type)]}" for type in types]
    constraints = ",".join([*outputs, *(str(i) for i in range(len(types)))])
    return new(
        "llvm.inline_asm",
        struct.type,
        struct,
        asm_string=ir.StringAttr.get(""),
        constraints=ir.StringAttr.get(constraints),
        has_side_effects=ir.UnitAttr.get(),
        asm_dialect=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
    )
