"""mbarrier waits that acquire at cluster scope: neither nvgpu nor nvvm has them, so that they become inline PTX.

In debug mode `watchdog.bound_waits` has done so already.
"""

from __future__ import annotations

from typing import Any

from nvdsl.ir.operands import has, named
from nvdsl.ir.walk import walk
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.lower.watchdog import to_i32
from nvdsl.mlir import ir
from nvdsl.ops.mbarrier import ACQUIRE_CLUSTER

WAIT = """\
{
.reg .pred complete;
WAIT:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [$0], $1, $2;
@complete bra DONE;
bra WAIT;
DONE:
}"""
"""For the phase of parity $1 of the mbarrier at $0, a shared address; $2: nanoseconds of one suspension."""


def cluster_waits(device: Any, kernels: Kernels, _: Any) -> None:
    """Replace each wait that acquires at cluster scope by `WAIT`."""
    i64 = ir.IntegerType.get_signless(64)
    for function, _kernel in functions(device, kernels):
        for op in walk(function):
            if op.name != "nvgpu.mbarrier.try_wait.parity" or not has(op, ACQUIRE_CLUSTER):
                continue
            view = named(op)
            with ir.InsertionPoint(op), op.location:
                address = new("nvgpu.mbarrier.get", i64, view.barriers, view.mbarId)
                ir.Operation.create(
                    "llvm.inline_asm",
                    [],
                    [to_i32(address), to_i32(view.phaseParity), to_i32(view.ticks)],
                    {
                        "asm_string": ir.StringAttr.get(WAIT),
                        "constraints": ir.StringAttr.get("r,r,r,~{memory}"),
                        "has_side_effects": ir.UnitAttr.get(),
                        "asm_dialect": ir.IntegerAttr.get(i64, 0),
                        "nvdsl.ptx": ir.StringAttr.get("try_wait"),
                    },
                )
            op.erase()
