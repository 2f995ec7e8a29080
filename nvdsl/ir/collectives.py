"""Instructions that threads execute together (PTX ISA, ``.sync`` and ``.aligned``): which ops, and who must come.

The simulator and the verifier read these tables.
"""

from __future__ import annotations

from typing import Any

from nvdsl.hopper.arch import WARP_SIZE, WARPGROUP_SIZE
from nvdsl.ir.operands import string

OF_COLLECTIVE = "nvdsl.collective"
"""The attribute of the barriers of nvdsl's collectives: the group, with " before" or " shared" where it stands before
the stores. All threads of the group execute the same one."""

ALIGNED = {
    "gpu.barrier": ("barrier.sync.aligned", WARP_SIZE),
    "gpu.subgroup_mma_load_matrix": ("wmma.load.sync.aligned", WARP_SIZE),
    "gpu.subgroup_mma_store_matrix": ("wmma.store.sync.aligned", WARP_SIZE),
    "gpu.subgroup_mma_compute": ("wmma.mma.sync.aligned", WARP_SIZE),
    "nvvm.barrier0": ("barrier.sync.aligned", WARP_SIZE),
    "nvvm.barrier": ("barrier.sync.aligned", WARP_SIZE),
    "nvvm.barrier.arrive": ("barrier.arrive.aligned", WARP_SIZE),
    "nvvm.cluster.arrive": ("barrier.cluster.arrive.aligned", WARP_SIZE),
    "nvvm.cluster.arrive.relaxed": ("barrier.cluster.arrive.relaxed.aligned", WARP_SIZE),
    "nvvm.cluster.wait": ("barrier.cluster.wait.aligned", WARP_SIZE),
    "nvvm.ldmatrix": ("ldmatrix.sync.aligned", WARP_SIZE),
    "nvvm.stmatrix": ("stmatrix.sync.aligned", WARP_SIZE),
    "nvgpu.ldmatrix": ("ldmatrix.sync.aligned", WARP_SIZE),
    "nvgpu.mma.sync": ("mma.sync.aligned", WARP_SIZE),
    "nvvm.mma.sync": ("mma.sync.aligned", WARP_SIZE),
    "nvvm.setmaxregister": ("setmaxnreg.sync.aligned", WARPGROUP_SIZE),
    "nvvm.wgmma.fence.aligned": ("wgmma.fence.sync.aligned", WARPGROUP_SIZE),
    "nvvm.wgmma.mma_async": ("wgmma.mma_async.sync.aligned", WARPGROUP_SIZE),
    "nvvm.wgmma.commit.group.sync.aligned": ("wgmma.commit_group.sync.aligned", WARPGROUP_SIZE),
    "nvvm.wgmma.wait.group.sync.aligned": ("wgmma.wait_group.sync.aligned", WARPGROUP_SIZE),
}
"""By op: the PTX instruction, and how many threads execute it at one place: those of a warp, or of a warpgroup."""

_INLINE = {"mma": ALIGNED["nvvm.mma.sync"], "barrier_any": ("barrier.red.aligned", WARP_SIZE)}
"""The same of nvdsl's inline PTX, by its name (`nvdsl.ops.ptx`)."""


MAYBE_ALIGNED = frozenset((*ALIGNED, "llvm.inline_asm"))
"""Ops of which `aligned` says something."""


def aligned(op: Any) -> tuple[str, int] | None:
    """What `ALIGNED` says of an op, and of inline PTX; None for what threads execute alone. (Inline wgmma is looked at
    with the other wgmmas.)"""
    return ALIGNED.get(op.name) or (_INLINE.get(string(op, "nvdsl.ptx")) if op.name == "llvm.inline_asm" else None)


MASKED: dict[str, tuple[str, str | None]] = {
    "nvvm.shfl.sync": ("shfl.sync", "thread_mask"),
    "nvvm.vote.sync": ("vote.sync", "mask"),
    "nvvm.redux.sync": ("redux.sync", "mask_and_clamp"),
    "nvvm.bar.warp.sync": ("bar.warp.sync", "mask"),
    "nvvm.elect.sync": ("elect.sync", None),
    "gpu.shuffle": ("shfl.sync", None),
}
"""By op: the PTX instruction, and the operand that is its mask (None: it names all 32 lanes). The lanes that a mask
names execute it, wherever they are: lanes that parted may do so at different places (from sm_70 on)."""

MASKED_RULE = "the lanes that the mask names execute it, and no others (PTX ISA, membermask); else it is undefined"
