"""The cluster's barrier: an arrival and a wait take turns, in every thread.

Two arrivals, or two waits, of one block of ops are surely executed one after the other: refused where nothing of the
other kind is between them.
"""

from __future__ import annotations

from nvdsl.errors import VerifyError
from nvdsl.ir.location import where
from nvdsl.verify.context import beside
from nvdsl.verify.program import Node, Program, between

_ARRIVES = ("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
_WAITS = ("nvvm.cluster.wait",)
_BOTH = ("gpu.cluster_barrier",)


def check(program: Program) -> None:
    for kernel in program.kernels:
        arrives, waits = kernel.find(*_ARRIVES), kernel.find(*_WAITS)
        both = kernel.find(*_BOTH)
        _check_turns(arrives, waits + both, "arrives at the cluster's barrier again", "nv.cluster_wait()")
        _check_turns(waits, arrives + both, "waits at the cluster's barrier again", "nv.cluster_arrive()")


def _check_turns(found: list[Node], turns: list[Node], does: str, missing: str) -> None:
    for number, second in enumerate(found):
        before = [n for n in found[:number] if n.parent is second.parent and n.region == second.region]
        first = before[-1] if before else None
        if first is not None and not between(turns, first, second):
            raise VerifyError(
                f"a thread {does}, after {beside(first, second)}, with no {missing} in between",
                where=where(second.op),
                rule="a thread arrives once until the barrier completes, and waits once for it: arrivals and waits "
                "take turns (PTX ISA, barrier.cluster)",
                fix=f"{missing} between the two",
            )
