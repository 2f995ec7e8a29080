"""Which arguments of a host function its kernels write: found on the module, so that only these are copied back."""

from __future__ import annotations

from typing import Any

_READS = {
    "memref.load", "vector.load", "memref.dim", "nvgpu.tma.async.load", "nvgpu.tma.prefetch.descriptor",
    "nvgpu.warpgroup.generate.descriptor", "nvgpu.device_async_copy", "memref.prefetch",
    "nvvm.cp.async.bulk.tensor.shared.cluster.global", "nvvm.cp.async.bulk.tensor.prefetch",
    "nvvm.prefetch", "nvvm.cp.async.bulk.prefetch", "nvvm.cp.async.bulk.shared.cluster.global", "llvm.load",
}  # fmt: skip
_VIEWS = {
    "memref.cast", "memref.subview", "memref.reinterpret_cast", "memref.collapse_shape",
    "memref.expand_shape", "memref.view", "memref.memory_space_cast", "memref.extract_aligned_pointer_as_index",
    "nvgpu.tma.create.descriptor", "builtin.unrealized_conversion_cast", "arith.index_cast",
    "llvm.inttoptr", "llvm.getelementptr", "llvm.addrspacecast",
}  # fmt: skip
# Operand positions that such an op only reads.
_READ_OPERANDS = {"gpu.memcpy": -1, "nvvm.cp.async.bulk.global.shared.cta": 1}


def written_arguments(function: Any) -> frozenset[int]:
    """Positions of the memref arguments of a ``func.func`` that something in it may write."""
    arguments = function.regions[0].blocks[0].arguments
    return frozenset(i for i, a in enumerate(arguments) if "memref" in str(a.type) and _is_written(a))


def _is_written(value: Any) -> bool:
    for use in value.uses:
        op = use.owner.operation if hasattr(use.owner, "operation") else use.owner
        if op.name in _READS:
            continue
        if op.name == "memref.extract_strided_metadata":
            if _is_written(op.results[0]):  # the buffer; the others are numbers
                return True
            continue
        if op.name in _READ_OPERANDS:
            position = _READ_OPERANDS[op.name] % len(op.operands)
            if use.operand_number == position:
                continue
            return True
        if op.name in _VIEWS:
            if any(_is_written(result) for result in op.results):
                return True
            continue
        return True  # a store, or an op that this list doesn't know: assume that it writes
    return False
