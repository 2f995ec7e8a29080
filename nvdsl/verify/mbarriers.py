"""What a kernel does with each group of mbarriers: who initializes, arrives, expects bytes, brings bytes, waits.

A group whose use isn't fully understood (its address goes to an op that isn't known here) has ``events`` None, and no
rule says anything about it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from nvdsl.errors.records import dataclass
from nvdsl.ir import tensor_copies
from nvdsl.ir.operands import integer, mbarriers, named, optional, string, word
from nvdsl.ir.tensor_copies import box_type
from nvdsl.ir.walk import constant, defining
from nvdsl.ops.st_async import BYTES
from nvdsl.values import dtypes
from nvdsl.verify.expressions import Expressions
from nvdsl.verify.program import Kernel, Node
from nvdsl.verify.reach import Reach, Reaches
from nvdsl.verify.threads import Threads


@dataclass(frozen=True)
class Event:
    """``kind``: init, arrive, expect, bytes, wait or poll. ``index``: which barrier of the group. ``amount``: the
    init's count, arrivals, or bytes, in each thread; None where it isn't known. ``at``: "here", ("rank", value) for
    another block's barrier, ("mask", value) for those of several. ``parity``: a wait's."""

    kind: str
    node: Node
    index: Any
    amount: Any = 1
    at: Any = "here"
    parity: Any = None
    predicate: Any = None


@dataclass(frozen=True)
class Group:
    """``node``: the nvgpu.mbarrier.create. ``size``: its barriers."""

    node: Node
    size: int
    events: list[Event] | None

    def of(self, kind: str) -> list[Event]:
        return [e for e in self.events or () if e.kind == kind]


def groups(kernel: Kernel) -> list[Group]:
    found = []
    for node in kernel.find("nvgpu.mbarrier.create"):
        group = node.op.results[0]
        events: list[Event] | None = []
        for use in group.uses:
            more = _events(kernel, use.owner.operation)
            events = None if events is None or more is None else events + more
        if events is not None:
            events.sort(key=lambda e: e.node.order)
        found.append(Group(node, mbarriers(group), events))
    return found


def _events(kernel: Kernel, op: Any) -> list[Event] | None:
    node = kernel.node(op)
    name, view = op.name, named(op)
    if node is None:
        return None
    if name == "nvgpu.mbarrier.init":
        return [Event("init", node, view.mbarId, view.count, predicate=view.predicate)]
    if name == "nvgpu.mbarrier.arrive":
        return [Event("arrive", node, view.mbarId)]
    if name == "nvgpu.mbarrier.arrive.expect_tx":
        expect = Event("expect", node, view.mbarId, view.txcount, predicate=view.predicate)
        return [Event("arrive", node, view.mbarId, predicate=view.predicate), expect]
    if name == "nvgpu.mbarrier.try_wait.parity":
        return [Event("wait", node, view.mbarId, parity=view.phaseParity)]
    if name == "nvgpu.tma.async.load":
        size = box_bytes(view.tensorMapDescriptor)
        return [Event("bytes", node, view.mbarId, size, _told(view), predicate=view.predicate)]
    return _through_pointer(kernel, op) if name == "nvgpu.mbarrier.get" else None


def _told(view: Any) -> Any:
    """Whose mbarriers a load tells of its bytes: `Event.at`."""
    return "here" if view.multicastMask is None else ("mask", view.multicastMask)


def _through_pointer(kernel: Kernel, get: Any) -> list[Event] | None:
    index = named(get).mbarId
    found: list[Event] = []
    pending: list[tuple[Any, Any]] = [(use, "here") for use in get.results[0].uses]
    while pending:
        use, at = pending.pop()
        op = use.owner.operation
        if op.name in ("llvm.inttoptr", "llvm.addrspacecast"):
            pending += [(u, at) for u in op.results[0].uses]
        elif op.name == "nvvm.mapa" and use.operand_number == 0:
            pending += [(u, ("rank", named(op).b)) for u in op.results[0].uses]
        else:
            more = _pointer_events(kernel, op, use.operand_number, index, at)
            if more is None:
                return None
            found += more
    return found


def _pointer_events(kernel: Kernel, op: Any, number: int, index: Any, at: Any) -> list[Event] | None:
    node = kernel.node(op)
    if node is None:
        return None
    name, view = op.name, named(op)
    if name == "nvvm.mbarrier.expect_tx" and number == 0:
        return [Event("expect", node, index, view.txcount, at)]
    if name == "nvvm.mbarrier.arrive" and number == 0:
        return [Event("arrive", node, index, 1 if view.count is None else view.count, at)]
    if name == "nvvm.mbarrier.arrive.expect_tx" and number == 0 and optional(op, "predicate") is None:
        return [Event("arrive", node, index, at=at), Event("expect", node, index, view.txcount, at)]
    if string(op, "nvdsl.ptx") == "st_async" and number == len(op.operands) - 1:
        return [Event("bytes", node, index, integer(op, BYTES), at)]
    if name == "nvvm.mbarrier.test.wait":
        return [Event("poll", node, index, at=at)]  # how often it succeeds isn't known
    if name in ("nvvm.cp.async.bulk.tensor.shared.cluster.global", "nvvm.cp.async.bulk.shared.cluster.global"):
        return _bulk_events(node, op, index, at)
    return None


def _bulk_events(node: Node, op: Any, index: Any, at: Any) -> list[Event] | None:
    if at != "here":
        return None
    view = named(op)
    if "tensor" not in op.name:
        return [Event("bytes", node, index, view.size, _told(view))]
    tensor_map = tensor_copies.tensor_map(op)
    if tensor_map is None or "im2col" in word(op, "mode"):
        return None
    return [Event("bytes", node, index, box_bytes(tensor_map), _told(view), predicate=view.predicate)]


def box_bytes(tensor_map: Any) -> int | None:
    """Bytes of one box of a tensor map: of the sizes that it is made with, which may be less than its type says, and
    known to a run only; else from its type."""
    box = box_type(tensor_map.type)
    if box is None:
        return None
    made = defining(tensor_map)
    sizes: list[int | None] = list(box.shape)
    if made is not None and made.name == "nvgpu.tma.create.descriptor":
        sizes = [constant(size) for size in named(made).boxDimensions]
    known = [size for size in sizes if size is not None]
    return math.prod(known) * dtypes.from_ir(box.element_type).bytes if len(known) == len(sizes) else None


@dataclass(frozen=True)
class Part:
    """An event at one barrier: ``slot`` names it, equal for equal indices (("is", 0) for a constant). ``each[r]``:
    arrivals, or bytes, at block ``r`` of the cluster's barrier each time; None where that isn't known."""

    event: Event
    reach: Reach
    slot: Hashable
    lanes: Any
    each: Any


def parts(event: Event, threads: Threads, expressions: Expressions, reaches: Reaches) -> list[Part] | None:
    """The barriers that ``event`` is at; None where the threads do it at ones that aren't known."""
    reach = reaches.of(event.node, event.predicate)
    index = threads.of(event.index)
    if index is None:
        if not expressions.uniform(event.index):
            return None
        slots = [(expressions.key(event.index), reach.lanes)]
    else:
        indices = threads.array(index)
        used = sorted(set(indices[reach.lanes].tolist()))
        slots = [(expressions.constant(i), reach.lanes & (indices == i)) for i in used]
    return [Part(event, reach, slot, lanes, _each(event, lanes, reach, threads)) for slot, lanes in slots]


def _each(event: Event, lanes: Any, reach: Reach, threads: Threads) -> Any:
    amount = event.amount if isinstance(event.amount, int | type(None)) else threads.of(event.amount)
    if amount is None or not reach.uniform:
        return None
    amounts = np.where(lanes, threads.array(amount), 0).reshape(threads.blocks, -1)
    if event.at == "here":
        return amounts.sum(axis=1)
    kind, value = event.at
    target = threads.of(value)
    if target is None:
        return None
    targets = threads.array(target).reshape(threads.blocks, -1)
    blocks = range(threads.blocks)
    if kind == "mask":
        return np.array([(amounts * (targets >> r & 1)).sum() for r in blocks])
    return np.array([(amounts * (targets == r)).sum() for r in blocks])
