"""Shared memory of a block: the kernel's data and its mbarriers."""

from __future__ import annotations

import re
from typing import Any

from nvdsl import arch
from nvdsl.errors import VerifyError
from nvdsl.trace.location import where
from nvdsl.verify.walk import constant, find


def check(module: Any) -> None:
    for launch in find(module, "gpu.launch"):
        data = constant(launch.operands[len(launch.operands) - 1]) or 0
        groups = find(launch, "nvgpu.mbarrier.create")
        barriers = sum(8 * _count(op.results[0].type) for op in groups)
        total = -(-data // 8) * 8 + barriers
        if total > arch.MAX_SMEM_PER_BLOCK:
            raise VerifyError(
                f"the kernel needs {total:,} bytes of shared memory: {data:,} of data and {barriers:,} of mbarriers",
                where=where(launch),
                rule=f"a block has at most {arch.MAX_SMEM_PER_BLOCK:,} bytes (CUDA programming guide, compute "
                "capability 9.0)",
                fix="use fewer stages or smaller tiles",
            )


def _count(group_type: Any) -> int:
    match = re.search(r"num_barriers = (\d+)", str(group_type))
    return int(match.group(1)) if match else 1
