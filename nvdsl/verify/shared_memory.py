"""Shared memory of a block: the kernel's data and its mbarriers."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.ir import declared
from nvdsl.ir.declared import Declared
from nvdsl.ir.location import where
from nvdsl.ir.operands import has, launch_smem, mbarriers, named
from nvdsl.ir.walk import constant, defining
from nvdsl.mlir import ir
from nvdsl.values import dtypes
from nvdsl.verify.program import Program


def check(program: Program) -> None:
    for kernel in program.kernels:
        launch = kernel.launch.op
        data = launch_smem(launch) or 0
        ops = [node.op for node in kernel.find("nvgpu.mbarrier.create", "memref.view")]
        count = sum(mbarriers(op.results[0]) for op in ops if op.name == "nvgpu.mbarrier.create")
        barriers = arch.MBARRIER_BYTES * count
        total = -(-data // arch.MBARRIER_BYTES) * arch.MBARRIER_BYTES + barriers
        if total > arch.MAX_SMEM_PER_BLOCK:
            raise VerifyError(
                f"the kernel needs {total:,} bytes of shared memory: {data:,} of data and {barriers:,} of mbarriers",
                where=where(launch),
                rule=f"a block has at most {arch.MAX_SMEM_PER_BLOCK:,} bytes (CUDA programming guide, compute "
                "capability 9.0)",
                fix="use fewer stages or smaller tiles",
            )
        tiles = declared.read(launch)
        for op in ops:
            if op.name == "memref.view":
                _check_view(op, data, tiles)


def _check_view(view: Any, data: int, tiles: tuple[Declared, ...]) -> None:
    """Behind the launch's data there are the mbarriers, or nothing; and what is laid out by hand cuts into no tile."""
    source, start = defining(named(view).source), constant(named(view).byte_shift)
    ty = ir.MemRefType(view.results[0].type)
    if source is None or source.name != "gpu.dynamic_shared_memory" or start is None or not ty.has_static_shape:
        return
    end = start + math.prod(ty.shape) * dtypes.from_ir(ty.element_type).bytes
    if end > data:
        raise VerifyError(
            f"bytes {start:,} to {end:,} of shared memory are used, and the kernel has {data:,}",
            where=where(view),
            rule="a kernel's shared memory is what nv.smem allocates, or the smem= of a mlir_gpu_launch; its mbarriers "
            "lie behind that",
            fix="allocate with nv.smem, or launch with a larger smem=",
        )
    tile = None if has(view, declared.VIEW) else declared.overlapped(tiles, start, end)
    if tile is not None:
        raise VerifyError(
            f"bytes {start:,} to {end - 1:,} of shared memory are laid out by hand, and bytes {tile.offset:,} to "
            f"{tile.end - 1:,} are a {tile}",
            where=where(view),
            rule=declared.OVERLAP_RULE,
            fix=declared.OVERLAP_FIX,
        )
