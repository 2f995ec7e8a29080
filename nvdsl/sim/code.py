"""A kernel, decoded: what the warps of a launch execute, and what the machine must know of it beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.errors import Where
from nvdsl.ir.location import where
from nvdsl.ir.operands import flag, integer, string
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from nvdsl.ops import inline_ptx
from nvdsl.sim import exits, undefined, values
from nvdsl.sim.decode import Decoder, Frame, is_shared
from nvdsl.sim.dialects import fragments
from nvdsl.sim.graph import Graph
from nvdsl.sim.tiles import Tiles


class Code:
    """A decoded kernel. ``smem_bytes``: dynamic shared memory of a block; ``mbarriers``: how many it creates;
    ``unit_shift``: log2 of the bytes that its smallest ordinary access of shared memory touches (at most 16)."""

    def __init__(self, function: Any, smem_bytes: int, mbarrier_at: int, mbarriers: int, tiles: Any = ()) -> None:
        self.smem_bytes, self.mbarriers = smem_bytes, mbarriers
        self.tiles = Tiles(smem_bytes, tiles)
        self.where: Where | None = where(function)
        entry = function.regions[0].blocks[0]
        decoder = Decoder(mbarrier_at, fragments.guarded)
        decoder.undefined = undefined.Values(decoder)
        self._arguments = [decoder.define(argument) for argument in entry.arguments]
        self.argument_types = [argument.type for argument in entry.arguments]
        self._body: Any = decoder.block(entry)[0] if len(function.regions[0].blocks) == 1 else None
        if self._body is None:
            self._body = Graph(decoder, function.regions[0], [])
        self._template, self.names = decoder.template, decoder.names
        names = {one.name for one in walk(function)}
        self.sets_registers = "nvvm.setmaxregister" in names
        self.invalidates = "nvvm.mbarrier.inval" in names
        self.relaxes = any(_is_relaxed_arrival(one) for one in walk(function))
        self.unit_shift = _unit_shift(function, shared=True)
        self.global_shift = _unit_shift(function, shared=False)

    def frame(self, warp: Any) -> Frame:
        frame = self._template.copy()
        frame[0] = warp
        for slot, value in zip(self._arguments, warp.machine.arguments, strict=True):
            frame[slot] = value
        return frame

    def run(self, frame: Frame) -> Iterator[Any]:
        return self._body.run(frame)

    def check_exit(self, block: Any) -> None:
        exits.check(block)


def _is_relaxed_arrival(op: Any) -> bool:
    return "mbarrier" in op.name and flag(op, "relaxed")


_ACCESSES = {
    "memref.load", "memref.store", "vector.load", "vector.store", "memref.atomic_rmw", "vector.transfer_read",
    "vector.transfer_write", "llvm.load", "llvm.store", "llvm.atomicrmw", "llvm.cmpxchg", "nvgpu.warpgroup.mma.store",
    "nvgpu.device_async_copy", "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix",
}  # fmt: skip


def _unit_shift(function: Any, shared: bool) -> int:
    smallest = 16 if shared else 4
    for one in walk(function):
        if one.name == "nvvm.cp.async.shared.global":
            smallest = min(smallest, integer(one, "size"))
        text = string(one, "nvdsl.ptx") if one.name == "llvm.inline_asm" else ""
        if text == inline_ptx.NAME and any("!llvm.ptr" in str(value.type) for value in one.operands):
            return 0  # its meaning may access memory byte by byte
        if one.name in _ACCESSES or text == "atom":
            for value in (*one.operands, *one.results):
                smallest = min(smallest, _bytes(one, value, shared))
    return smallest.bit_length() - 1


def _bytes(op: Any, value: Any, shared: bool) -> int:
    if isinstance(value.type, ir.MemRefType):
        return values.element(value.type).bytes if is_shared(value.type) == shared else 16
    if op.name.startswith("llvm."):
        try:
            return values.element(value.type).bytes
        except ValueError:
            return 1
    return 16
