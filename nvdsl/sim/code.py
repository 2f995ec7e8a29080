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
    ``unit_shift``: log2 of the bytes that its smallest ordinary access of shared memory touches (at most 16);
    ``global_shift``: that of global memory (at most 4)."""

    def __init__(self, function: Any, smem_bytes: int, mbarrier_at: int, mbarriers: int, tiles: Any = ()) -> None:
        self.smem_bytes, self.mbarriers = smem_bytes, mbarriers
        self.tiles = Tiles(smem_bytes, tiles)
        self.right_operands: set[Any] = set()  # of `layouts`
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
        ops = [(one.name, one) for one in walk(function)]
        names = {name for name, _ in ops}
        self.sets_registers = "nvvm.setmaxregister" in names
        self.invalidates = "nvvm.mbarrier.inval" in names
        self.copies_arrive = "nvvm.cp.async.mbarrier.arrive" in names
        self.relaxes = any("mbarrier" in name and flag(one, "relaxed") for name, one in ops)
        self.unit_shift, self.global_shift = (n.bit_length() - 1 for n in _smallest_accesses(ops))

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


_ACCESSES = {
    "memref.load", "memref.store", "vector.load", "vector.store", "memref.atomic_rmw", "vector.transfer_read",
    "vector.transfer_write", "llvm.load", "llvm.store", "llvm.atomicrmw", "llvm.cmpxchg", "nvgpu.warpgroup.mma.store",
    "nvgpu.device_async_copy", "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix",
}  # fmt: skip


def _smallest_accesses(ops: list[tuple[str, Any]]) -> tuple[int, int]:
    """Bytes that the smallest ordinary access touches: of shared memory (at most 16), of global memory (at most 4)."""
    shared, everywhere, smallest_global = 16, 16, 4
    for name, one in ops:
        if name == "nvvm.cp.async.shared.global":
            everywhere = min(everywhere, integer(one, "size"))
        text = string(one, "nvdsl.ptx") if name == "llvm.inline_asm" else ""
        if text == inline_ptx.NAME and any("!llvm.ptr" in str(value.type) for value in one.operands):
            return 1, 1  # its meaning may access memory byte by byte
        if name in _ACCESSES or text == "atom":
            for kind in (value.type for value in (*one.operands, *one.results)):
                if isinstance(kind, ir.MemRefType):
                    size = values.element(kind).bytes
                    if is_shared(kind):
                        shared = min(shared, size)
                    else:
                        smallest_global = min(smallest_global, size)
                elif name.startswith("llvm."):
                    everywhere = min(everywhere, _bytes(kind))
    return min(shared, everywhere), min(smallest_global, everywhere)


def _bytes(kind: Any) -> int:
    try:
        return values.element(kind).bytes
    except ValueError:
        return 1
