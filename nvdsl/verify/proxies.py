"""Ordinary stores to shared memory that TMA or wgmma reads, with no proxy fence in between."""

from __future__ import annotations

from nvdsl.errors import VerifyError
from nvdsl.ir.location import where
from nvdsl.ir.operands import word
from nvdsl.verify import places
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.places import Place
from nvdsl.verify.program import Node, Program, between, exclusive

_FENCES = ("nvvm.fence.proxy",)


def check(program: Program) -> None:
    for context in contexts(program):
        kernel = context.kernel
        if not kernel.find(*places.TMA_STORES) and not kernel.find(*places.WGMMAS):
            continue
        writes = [(n, p) for n in kernel.find(*places.GENERIC_WRITES) if (p := places.generic_write(context, n))]
        if writes:
            _check_kernel(context, writes)


def _check_kernel(context: Context, writes: list[tuple[Node, Place]]) -> None:
    fences = [f for f in context.kernel.find(*_FENCES) if "async" in word(f.op, "kind")]
    for read, place, what in _reads(context):
        for write, written in writes:
            if write.order > read.order or exclusive(write, read) or between(fences, write, read):
                continue
            if written.meets(place):
                raise _error(write, read, what)


def _reads(context: Context) -> list[tuple[Node, Place, str]]:
    found = []
    for node in context.kernel.find(*places.TMA_STORES):
        place = places.tma(context, node)
        if place is not None:
            found.append((node, place, "this TMA store"))
    for node in context.kernel.find(*places.WGMMAS):
        for operand in places.operands(context, node):  # 16 bytes at the start are read whatever the layout
            found.append((node, Place(operand.start, 16), f"wgmma's operand {operand.name}"))
    return found


def _error(write: Node, read: Node, what: str) -> VerifyError:
    return VerifyError(
        f"{what} reads shared memory that ordinary stores wrote at {beside(write, read)}, with no proxy fence in "
        "between",
        where=where(read.op),
        rule="stores go through the generic proxy, TMA and wgmma read through the async proxy: each thread that stored "
        "orders the two with fence.proxy.async (PTX ISA, Async proxy, membar/fence)",
        fix="nv.fence_proxy_async() behind the stores, then nv.sync_threads()",
    )
