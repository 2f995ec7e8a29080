"""Barriers and collective instructions that only a part of their threads reaches.

A thread that never comes is known where the conditions on the way depend on thread ids alone; conditions that the
module doesn't determine count as true.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from nvdsl.errors import VerifyError
from nvdsl.hopper.arch import WARP_SIZE, WARPGROUP_SIZE
from nvdsl.ir.collectives import ALIGNED, MASKED, MASKED_RULE, OF_COLLECTIVE, aligned
from nvdsl.ir.location import where
from nvdsl.ir.operands import named, optional, string, word
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.program import Node, Program
from nvdsl.verify.reach import Reach
from nvdsl.verify.threads import ranges

_BLOCK = ("gpu.barrier", "nvvm.barrier0", "nvvm.barrier", "nvvm.barrier.arrive")
_CLUSTER = ("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed", "nvvm.cluster.wait", "gpu.cluster_barrier")
_WARPGROUP = (*(name for name, (_, size) in ALIGNED.items() if size == WARPGROUP_SIZE), "nvgpu.warpgroup.mma")
_WARP = (
    "nvvm.ldmatrix", "nvvm.stmatrix", "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix",
    "gpu.subgroup_mma_compute", "nvgpu.ldmatrix", "nvgpu.mma.sync", "nvvm.mma.sync", "llvm.inline_asm",
)  # fmt: skip


def check(program: Program) -> None:
    for context in contexts(program):
        _check_blocks_barriers(context)
        for node in context.kernel.find(*_CLUSTER):
            _check_cluster_barrier(context, node)
        for node in context.kernel.find(*_WARPGROUP):
            _check_warpgroup(context, node)
        for node in filter(lambda n: aligned(n.op), context.kernel.find(*_WARP)):
            _check_whole_warps(context, node, context.reaches.of(node))
        _check_masks(context)


def _check_blocks_barriers(context: Context) -> None:
    """By number: barriers of one number in several places may wait for each other."""
    numbered: dict[int, list[tuple[Node, Reach, int]]] = defaultdict(list)
    for node in context.kernel.find(*_BLOCK, "llvm.inline_asm"):
        if node.name == "llvm.inline_asm" and not _votes(node):
            continue
        reach = context.reaches.of(node)
        _check_whole_warps(context, node, reach)
        described = _described(context, node)
        if described is None:
            return  # a barrier whose number isn't known may be any
        for number, lanes, count in described:
            mine = Reach(reach.lanes & lanes, *(getattr(reach, f) for f in _OTHERS))
            numbered[number].append((node, mine, count))
    for number, places in numbered.items():
        _check_barrier(context, number, places)


_OTHERS = ("loops", "trips", "conditions", "uniform", "branches")


def _described(context: Context, node: Node) -> list[tuple[int, Any, int]] | None:
    """(number, threads that use this number, how many it waits for) of a barrier."""
    threads = context.threads
    everyone = np.ones(threads.count, bool)
    if _votes(node):
        number, count = (threads.of(node.op.operands[i]) for i in (0, 1))
    elif not node.name.startswith("nvvm.barrier") or node.name == "nvvm.barrier0":
        return [(0, everyone, threads.per_block)]
    else:
        view = named(node.op)
        number = 0 if view.barrierId is None else threads.of(view.barrierId)
        count = threads.per_block if view.numberOfThreads is None else threads.of(view.numberOfThreads)
    if number is None or not isinstance(count, int):
        return None
    numbers = threads.array(number)
    return [(n, numbers == n, count) for n in sorted(set(numbers.ravel().tolist()))]


def _votes(node: Node) -> bool:
    """Whether it is `nv.named_barrier_any`: a named barrier, too."""
    return node.name == "llvm.inline_asm" and string(node.op, "nvdsl.ptx") == "barrier_any"


def _check_barrier(context: Context, number: int, places: list[tuple[Node, Reach, int]]) -> None:
    threads = context.threads
    for block in range(threads.blocks):
        part = slice(block * threads.per_block, (block + 1) * threads.per_block)
        come = [(node, reach, count, reach.lanes[part]) for node, reach, count in places if reach.lanes[part].any()]
        for node, reach, count, lanes in come:
            # Whoever isn't here may be at another place with this number, unless those here go there as well. Nobody
            # is elsewhere who should be at a collective.
            all_lanes = lanes.copy()
            for other, _, _, more in come:
                if other is not node and not (more & lanes).any() and not _of_collective(node, other):
                    all_lanes |= more
            if int(all_lanes.sum()) < count:
                raise _too_few(context, node, reach, number, count, all_lanes)


def _of_collective(*nodes: Node) -> bool:
    return any(OF_COLLECTIVE in node.op.attributes for node in nodes)


def _too_few(context: Context, node: Node, reach: Reach, number: int, count: int, lanes: Any) -> VerifyError:
    what = "the block's barrier" if number == 0 else f"named barrier {number}"
    found = int(lanes.sum())
    if _of_collective(node):
        return VerifyError(
            f"a collective of {count} threads, and {found} come: {ranges(lanes)}{_because(reach, node)}",
            where=where(node.op),
            rule="all threads of a group call its collectives together",
            fix="call it outside of the `if`, with what each branch has computed; or of a smaller group: nv.warp, or "
            "width= of nv.block's",
        )
    if number == 0:
        fix = f"call it outside of the `if`, or nv.named_barrier_sync(1, {found}) for these threads alone"
    else:
        fix = f"pass {found}, or let the others sync or arrive at it too"
    return VerifyError(
        f"{what} waits for {count} threads, and {found} come: {ranges(lanes)}{_because(reach, node)}",
        where=where(node.op),
        rule="a barrier opens when all its threads have come (PTX ISA, barrier); here it never does",
        fix=fix,
    )


def _because(reach: Reach, node: Node) -> str:
    return f"; the others are kept out at {beside(reach.branches[-1], node)}" if reach.branches else ""


def _check_whole_warps(context: Context, node: Node, reach: Reach) -> None:
    torn = _torn(context, reach.lanes, WARP_SIZE)
    if torn is not None:
        raise VerifyError(
            f"a part of a warp reaches {_what(node)}: threads {ranges(torn)} of {WARP_SIZE}{_because(reach, node)}",
            where=where(node.op),
            rule=f"all threads of a warp execute it together (PTX ISA, {_instruction(node)})",
            fix="branch on whole warps: nv.warp_id(), or thread numbers that are multiples of 32; nv.sync_warp() is "
            "the barrier of lanes",
        )


def _what(node: Node) -> str:
    return "this barrier" if "barrier" in node.name else _instruction(node)


def _instruction(node: Node) -> str:
    found = aligned(node.op)
    return found[0] if found else node.name


def _check_masks(context: Context) -> None:
    """The lanes that a mask names come, here or (lanes that parted) to the same instruction elsewhere."""
    places: dict[tuple[str, int], list[tuple[Node, Reach]]] = defaultdict(list)
    for node in context.kernel.find(*MASKED):
        what, name = MASKED[node.name]
        operand = None if name is None else optional(node.op, name)
        mask = -1 if operand is None else context.threads.of(operand)
        if isinstance(mask, int):
            kind = word(node.op, "kind")
            places[what + kind, mask & 0xFFFFFFFF].append((node, context.reaches.of(node)))
    for (_, mask), nodes in places.items():
        lane = np.arange(context.threads.count) % context.threads.per_block % WARP_SIZE
        named = (mask >> lane & 1).astype(bool)
        come = np.logical_or.reduce([reach.lanes for _, reach in nodes])
        for node, reach in nodes:
            _check_mask(context, node, reach, named & ~come, mask)


def _check_mask(context: Context, node: Node, reach: Reach, missing: Any, mask: int) -> None:
    threads = context.threads
    warp = threads.rank * threads.per_block + threads.thread // WARP_SIZE
    torn = np.isin(warp, warp[reach.lanes]) & missing
    if torn.any():
        first = warp == warp[torn][0]
        of_warp = (first & reach.lanes)[threads.rank == threads.rank[first][0]]
        raise VerifyError(
            f"{MASKED[node.name][0]} with the mask {mask:#x} is executed by threads {ranges(of_warp)} of a warp alone"
            + _because(reach, node),
            where=where(node.op),
            rule=MASKED_RULE,
            fix="move it out of the `if`, or name the lanes that are there",
        )


def _check_cluster_barrier(context: Context, node: Node) -> None:
    reach = context.reaches.of(node)
    missing = ~reach.lanes
    alike = context.kernel.find(*(_CLUSTER[:2] if "arrive" in node.name else (node.name,)))
    for other in alike:  # whoever isn't here may be there, unless those here go there as well
        lanes = context.reaches.of(other).lanes
        if not (lanes & reach.lanes).any():
            missing = missing & ~lanes
    if missing.any() and reach.lanes.any():
        found, count = int((~missing).sum()), context.threads.count
        raise VerifyError(
            f"the cluster's barrier waits for all {count} threads of the cluster, and {found} come"
            + _because(reach, node),
            where=where(node.op),
            rule="all threads of all blocks of the cluster arrive and wait (PTX ISA, barrier.cluster)",
            fix="call it outside of the `if`",
        )


def _check_warpgroup(context: Context, node: Node) -> None:
    reach = context.reaches.of(node)
    torn = _torn(context, reach.lanes, WARPGROUP_SIZE)
    if torn is not None:
        raise VerifyError(
            f"a part of a warpgroup reaches {node.name}: threads {ranges(torn)}{_because(reach, node)}",
            where=where(node.op),
            rule="the 128 threads of a warpgroup execute it together (PTX ISA, wgmma, setmaxnreg, .sync.aligned)",
            fix="branch on nv.warpgroup_id(), and launch whole warpgroups",
        )


def _torn(context: Context, lanes: Any, size: int) -> Any | None:
    """The threads of the first group of ``size`` of which only a part is in ``lanes``; numbered in their block."""
    per_block = context.threads.per_block
    for block in lanes.reshape(context.threads.blocks, -1):
        padded = np.concatenate([block, np.zeros(-per_block % size, bool)]).reshape(-1, size)
        existing = np.minimum(size, per_block - size * np.arange(len(padded))) if size == WARP_SIZE else size
        come = padded.sum(axis=1)
        for group in np.flatnonzero((come > 0) & (come < existing)):
            mask = np.zeros(per_block, bool)
            mask[group * size : (group + 1) * size] = block[group * size : (group + 1) * size]
            return mask
    return None
