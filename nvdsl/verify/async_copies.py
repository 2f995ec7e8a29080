"""cp.async copies that no thread waits for, or that are in no group when it does."""

from __future__ import annotations

from nvdsl.errors import VerifyError
from nvdsl.ir.location import where
from nvdsl.verify.context import Context, contexts
from nvdsl.verify.program import Program

COPIES = ("nvgpu.device_async_copy", "nvvm.cp.async.shared.global")
_COMMITS = ("nvvm.cp.async.commit.group", "nvgpu.device_async_create_group")
_WAITS = ("nvvm.cp.async.wait.group", "nvgpu.device_async_wait")
_ARRIVALS = ("nvvm.cp.async.mbarrier.arrive",)


def check(program: Program) -> None:
    for context in contexts(program):
        if context.kernel.find(*COPIES) and not context.kernel.find(*_ARRIVALS):
            _check_kernel(context)


def _check_kernel(context: Context) -> None:
    copy = context.kernel.find(*COPIES)[0]
    if not context.kernel.find(*_WAITS):
        raise VerifyError(
            "nothing waits for this cp.async",
            where=where(copy.op),
            rule="its bytes are there for the thread that waited for its group (PTX ISA, cp.async.wait_group), or for "
            "those who waited on an mbarrier at which the copies arrive",
            fix="nv.cp_async_commit() after the copies, nv.cp_async_wait(0) and a barrier before the bytes are read",
        )
    last = context.kernel.find(*_WAITS)[-1]
    if not context.kernel.find(*_COMMITS):
        raise VerifyError(
            f"this wait is for groups of cp.async, and the copy at {where(copy.op)} is in none",
            where=where(last.op),
            rule="cp.async.wait_group waits for groups that were committed (PTX ISA, cp.async.commit_group)",
            fix="nv.cp_async_commit() between the copies and the wait",
        )
