"""mbarriers that are used without ever being initialized; bytes that no thread waits for."""

from __future__ import annotations

from nvdsl.errors import VerifyError
from nvdsl.ir.location import where
from nvdsl.ir.walk import find
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.mbarriers import Event, Group
from nvdsl.verify.program import Program

_READERS = ("nvvm.wgmma.mma_async", "nvgpu.warpgroup.mma", "nvvm.ldmatrix", "memref.load", "vector.load")


def check(program: Program) -> None:
    for context in contexts(program):
        copied = any(group.of("bytes") for group in context.groups)
        for group in context.groups if copied else ():  # else: a part of a kernel
            if group.events and group.of("wait"):
                _check_initialized(context, group)
                _check_first_parity(context, group)
            elif group.events is not None and group.of("init"):
                _check_waited(context, group)


def _check_initialized(context: Context, group: Group) -> None:
    known = [context.slots(group, init) for init in group.of("init")]
    if None in known:
        return
    ready = set().union(*known)  # type: ignore[arg-type]
    if ready == set(range(group.size)):
        return
    for event in group.events or ():
        used = context.slots(group, event) if event.kind != "init" else set()
        missing = (used or set()) - ready
        if used and missing:
            number = f" {min(missing)} of the group of {group.size}" if group.size > 1 else ""
            raise VerifyError(
                f"mbarrier{number} is used and never initialized",
                where=where(event.node.op),
                rule="mbarrier.init comes before any other use (PTX ISA, mbarrier.init)",
                fix="let one thread init every barrier of the group, or nv.Mbarriers(n, arrivals=...)",
            )


def _check_first_parity(context: Context, group: Group) -> None:
    """The first wait for bytes has parity 0. With 1 it is for the phase before, and returns at once."""
    waits = group.of("wait")
    if not group.of("bytes") or not all(context.first_parity(wait) == 1 for wait in waits):
        return
    wait, copy = waits[0], group.of("bytes")[0]
    raise VerifyError(
        f"the first wait for the copies at {beside(copy.node, wait.node)} has parity 1, and returns before they arrive",
        where=where(wait.node.op),
        rule="the first phase of an mbarrier has parity 0; a wait for the other parity is for the phase before "
        "(PTX ISA, mbarrier.test_wait, phaseParity)",
        fix="wait(0) first, then 1, 0, ...: (k // stages) & 1; only who waits for free slots starts with 1",
    )


def _check_waited(context: Context, group: Group) -> None:
    copies: list[Event] = group.of("bytes")
    if not copies or group.of("poll") or not _reads_shared_memory(context):
        return
    raise VerifyError(
        "nothing waits for these bytes",
        where=where(copies[0].node.op),
        rule="a copy is complete when the phase of its mbarrier is; before that its bytes are not there (PTX ISA, "
        "cp.async.bulk.tensor, mbarrier.try_wait)",
        fix="bar.wait(phase) in all threads that read them",
    )


def _reads_shared_memory(context: Context) -> bool:
    return any(
        op.name != "memref.load" or "workgroup" in str(op.operands[0].type)
        for op in find(context.kernel.launch.op, *_READERS)
    )
