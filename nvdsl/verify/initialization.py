"""Use of an mbarrier by other threads than the one that initialized it, without a barrier in between.

Without one the other thread may come first. It then works or not, as the schedule wants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import VerifyError
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.ir.location import where
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.mbarriers import Event
from nvdsl.verify.program import Node, Program, between, exclusive
from nvdsl.verify.threads import ranges

_BLOCK = (
    "gpu.barrier", "nvvm.barrier0", "nvvm.barrier", "nvvm.barrier.arrive", "nvvm.cluster.wait", "gpu.cluster_barrier",
    "nvgpu.mbarrier.try_wait.parity",
)  # fmt: skip
_CLUSTER = ("nvvm.cluster.wait", "gpu.cluster_barrier")
_FENCES = ("nvvm.fence.mbarrier.init", "nvvm.fence.sc.cluster", "nvvm.memory.barrier", "nvvm.cluster.arrive")


def check(program: Program) -> None:
    for context in contexts(program):
        for group in context.groups:
            inits = group.of("init")
            if inits and group.of("wait"):
                for use in group.events or ():
                    if use.kind != "init":
                        _check_use(context, inits, use)


def _check_use(context: Context, inits: list[Event], use: Event) -> None:
    remote = use.at != "here" and context.threads.blocks > 1
    for init in inits:
        first, last = init.node, use.node
        if first.order > last.order or exclusive(first, last):
            continue
        if remote:
            _check_cluster(context, first, use)
        elif not _other_barriers(context, init, use) and not between(context.kernel.find(*_BLOCK), first, last):
            makers = context.reaches.of(first, init.predicate).lanes
            others = _warps(context, context.reaches.of(last, use.predicate).lanes) & ~_warps(context, makers)
            if makers.any() and others.any():
                raise _unsynchronized(use, first, makers, others)


def _other_barriers(context: Context, init: Event, use: Event) -> bool:
    """Whether the two are known to be at different barriers of the group."""
    a, b = context.threads.of(init.index), context.threads.of(use.index)
    return isinstance(a, int) and isinstance(b, int) and a != b


def _warps(context: Context, lanes: Any) -> Any:
    """All threads of the warps of ``lanes``: within a warp the init comes first by program order."""
    warps = context.threads.rank * (1 << 16) + context.threads.thread // WARP_SIZE
    return np.isin(warps, list(set(warps[lanes].tolist())))


def _check_cluster(context: Context, init: Node, use: Event) -> None:
    """Another block's mbarrier may be used when that block has initialized it: the cluster meets in between."""
    waits = between(context.kernel.find(*_CLUSTER), init, use.node)
    if not waits:
        raise VerifyError(
            f"the mbarrier of another block of the cluster is used, initialized at {beside(init, use.node)}, and the "
            "cluster hasn't met in between",
            where=where(use.node.op),
            rule="a barrier of the cluster orders one block's mbarrier.init before the use by others "
            "(PTX ISA, barrier.cluster, fence.mbarrier_init)",
            fix="nv.fence_mbarrier_init() behind the init, then nv.cluster_sync()",
        )
    if not between(context.kernel.find(*_FENCES), init, waits[-1]):
        raise VerifyError(
            f"the cluster meets by a relaxed arrive, and no fence makes the init at {beside(init, use.node)} visible "
            "to its other blocks, which use the mbarrier here",
            where=where(use.node.op),
            rule="cluster.arrive.relaxed orders no memory (PTX ISA, barrier.cluster, fence.mbarrier_init)",
            fix="nv.fence_mbarrier_init() behind the init, or nv.cluster_arrive() without relaxed=True",
        )


def _unsynchronized(use: Event, init: Node, makers: Any, others: Any) -> VerifyError:
    who = "thread" if makers.sum() == 1 else "threads"
    return VerifyError(
        f"threads {ranges(others)} may be here before {who} {ranges(makers)} initialized the mbarrier at "
        f"{beside(init, use.node)}",
        where=where(use.node.op),
        rule="a barrier of the block comes between mbarrier.init and the first use by another thread (PTX ISA, "
        "mbarrier.init; Memory Consistency Model)",
        fix="nv.sync_threads() behind the init, or nv.Mbarriers(n, arrivals=...), which has it",
    )
