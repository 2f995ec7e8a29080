"""Asynchronous bulk copies (TMA): into shared memory, completing on an mbarrier, or out of it, in a bulk group.

A copy is an actor of its own: what it writes is there for those who waited for the phase in which it completed; what
it reads is read until its group is waited for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.elements import ELEMENTS
from nvdsl.errors import Where
from nvdsl.sim import access, memory, shadow, tma
from nvdsl.sim.barriers import Mbarrier
from nvdsl.sim.machine import Waiting
from nvdsl.sim.report import Access, error
from nvdsl.tensormap import TensorMap


class MapArgument:
    """A tensor map as a kernel gets it: what it says, and the tensor's address."""

    __slots__ = ("address", "tensor_map")

    def __init__(self, tensor_map: TensorMap, address: int) -> None:
        self.tensor_map, self.address = tensor_map, address


@functools.lru_cache(maxsize=1 << 12)
def _span(tensor_map: TensorMap, address: int, shift: int) -> Any:
    return shadow.intervals(tma.footprint(tensor_map, (0,) * len(tensor_map.box), address), shift)


class Box:
    """The box of a tensor at ``coords`` (innermost first)."""

    def __init__(self, tensor: MapArgument, coords: tuple[int, ...]) -> None:
        self.tensor, self.coords = tensor, coords
        element = ELEMENTS[tensor.tensor_map.element]
        self.bytes = math.prod(tensor.tensor_map.box) * element.bytes

    def span(self, address: int, shift: int) -> Any:
        return _span(self.tensor.tensor_map, address, shift)

    def read_span(self, address: int, shift: int) -> Any:
        """What a store reads: not what is out of the tensor's bounds."""
        ranges = tma.footprint(self.tensor.tensor_map, self.coords, address, clipped=True)
        return shadow.intervals(ranges, shift) if ranges else (0, 0, 0)

    def _global(self, machine: Any) -> tuple[Any, int]:
        found = machine.gmem.find(self.tensor.address)
        return found, self.tensor.address - found.base

    def load(self, machine: Any, smem: Any, address: int) -> None:
        found, base = self._global(machine)
        tma.load(found.data, base, smem.data, address, self.tensor.tensor_map, self.coords)

    def store(self, machine: Any, smem: Any, address: int, kind: str | None) -> None:
        found, base = self._global(machine)
        found.version += 1
        if kind is None:
            tma.store(found.data, base, smem.data, address, self.tensor.tensor_map, self.coords)
        else:
            tma.reduce(found.data, base, smem.data, address, self.tensor.tensor_map, self.coords, kind)

    def check(self, address: int, who: Access, kind: str = "load") -> None:
        """``kind``: "load", "store", or the reduction."""
        reduction = kind if kind not in ("load", "store") else ""
        problems = tma.problems(
            self.tensor.tensor_map, self.coords, address, store=kind == "store", reduction=reduction
        )
        if problems:
            raise error(
                "illegal-copy",
                f"{who}: " + "; ".join(problems),
                who.where,
                "PTX ISA, cp.async.bulk.tensor; CUDA driver API, cuTensorMapEncodeTiled",
                "align the slot's offset and the coordinates",
            )


class Line:
    """Contiguous bytes (cp.async.bulk without a tensor map)."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.bytes = address, size

    def span(self, address: int, shift: int) -> Any:
        return shadow.interval(address, address + self.bytes, shift)

    def load(self, machine: Any, smem: Any, address: int) -> None:
        smem.data[address : address + self.bytes] = machine.gmem.span(self.address, self.bytes)

    def store(self, machine: Any, smem: Any, address: int, kind: str | None) -> None:
        machine.gmem.span(self.address, self.bytes)[:] = smem.data[address : address + self.bytes]

    read_span = span

    def check(self, address: int, who: Access, kind: str = "load") -> None:
        for name, value in (("shared address", address), ("global address", self.address), ("size", self.bytes)):
            if value % 16:
                raise error(
                    "misaligned",
                    f"{who}: the {name} {value} is no multiple of 16",
                    who.where,
                    "a bulk copy moves multiples of 16 bytes, 16-byte aligned (PTX ISA, cp.async.bulk)",
                )


class Load:
    """A copy into shared memory. ``targets``: (block, address, mbarrier, record) of each block that gets it."""

    __slots__ = ("cluster", "machine", "source", "targets", "who")

    def __init__(self, w: Any, source: Any, targets: list[Any], who: Access) -> None:
        self.machine, self.cluster = w.machine, w.block.cluster
        self.source, self.targets, self.who = source, targets, who

    def deliver(self) -> None:
        for block, address, barrier, record in self.targets:
            self.source.load(self.machine, block.smem, address)
            block.smem.version += 1
            block.in_flight -= 1
            if record is not None:
                record.actor, record.epoch = barrier.channel, barrier.phase + 1
            barrier.complete_tx(self.source.bytes)


def load(w: Any, source: Any, address: int, barrier_address: int, mask: int | None, at: Where | None) -> None:
    """Issue a copy to ``address`` (shared::cta or shared::cluster); it completes on ``barrier_address``'s mbarrier."""
    who = Access(w.name, "TMA load", "copy", at)
    memory_, block, base = access.resolve(w, access.SHARED_CLUSTER, address, at, "TMA load")
    barrier_address &= (1 << memory.CLUSTER_SHIFT) - 1
    local = address - base
    source.check(local, who)
    if local < memory_.reserved or local + source.bytes > memory_.size:
        raise error(
            "out-of-bounds",
            f"{who} of {source.bytes} bytes to bytes {local - memory_.reserved}.. of shared memory, of which there are "
            f"{memory_.size - memory_.reserved}",
            at,
            "a box lies inside of the block's shared memory",
            "check the slot's offset",
        )
    blocks = [block] if mask is None else [b for b in w.block.cluster.blocks if mask >> b.rank & 1]
    targets = []
    for target in blocks:
        barrier = mbarrier(w, barrier_address, at, target)
        record = None
        if w.machine.checks:
            span = source.span(local, target.shadow.shift)
            record = target.shadow.write(span, w.clock, who, 0, shadow.IN_FLIGHT)
        target.in_flight += 1
        targets.append((target, local, barrier, record))
    w.machine.issue(Load(w, source, targets, who))


def mbarrier(w: Any, address: int, at: Where | None, block: Any = None) -> Mbarrier:
    """The mbarrier at a shared address (of ``block``, or where a cluster address says)."""
    rank = address >> memory.CLUSTER_SHIFT
    if block is None:
        block = w.block.cluster.blocks[rank - 1] if rank else w.block
    found = block.mbarriers.get(address & ((1 << memory.CLUSTER_SHIFT) - 1))
    if found is None:
        raise error(
            "init-sync",
            f"{w.name} uses the mbarrier at byte {(address & 0xFFFFFF) - memory.SHARED_BASE} of {block.name}'s shared "
            "memory, which nobody has initialized",
            at,
            "an mbarrier is initialized before any thread uses it (PTX ISA, mbarrier.init)",
            "bars[i].init(arrivals) in one thread, fence_mbarrier_init(), then nv.sync_threads()",
        )
    found.used_by(w, at, w.machine.checks)
    return found


# --- out of shared memory


class Store:
    """A copy out of shared memory, of one thread's bulk group."""

    __slots__ = ("address", "block", "cluster", "done", "kind", "machine", "number", "source", "who")

    def __init__(self, w: Any, source: Any, address: int, kind: str | None, number: int, who: Access) -> None:
        self.machine, self.cluster, self.block = w.machine, w.block.cluster, w.block
        self.source, self.address, self.kind, self.number, self.who = source, address, kind, number, who
        self.done = False

    def deliver(self) -> None:
        if not self.done:
            self.done = True
            self.source.store(self.machine, self.block.smem, self.address, self.kind)


class Bulk:
    """One warp's bulk stores. ``open`` and ``groups`` by lane; ``read``: those whose source was waited for."""

    def __init__(self, w: Any) -> None:
        self.open: dict[int, list[Store]] = {}
        self.groups: dict[int, list[list[Store]]] = {}
        self.unread: list[Store] = []
        self.count = 0
        self.channel = w.block.cluster.clocks.bulk_read(w.clock.actor)


def bulk(w: Any) -> Bulk:
    if w.bulk is None:
        w.bulk = Bulk(w)
    return w.bulk


def store(w: Any, lane: int, source: Any, address: int, kind: str | None, at: Where | None) -> None:
    who = Access(w.name, "bulk store", "store", at)
    source.check(address, who, kind or "store")
    smem = w.block.smem
    if address < smem.reserved or address + source.bytes > smem.size:
        raise error("out-of-bounds", f"{who} reads past shared memory", at,
                    "a box lies inside of the block's shared memory", "check the slot's offset")  # fmt: skip
    mine = bulk(w)
    mine.count += 1
    made = Store(w, source, address, kind, mine.count, who)
    if w.machine.checks:
        tracker = w.block.shadow
        tracker.read(source.read_span(address, tracker.shift), w.clock, who, mine.channel, mine.count)
    mine.open.setdefault(lane, []).append(made)
    mine.unread.append(made)
    w.machine.issue(made)


def commit(w: Any) -> None:
    mine = bulk(w)
    for lane in w.active_lanes():
        mine.groups.setdefault(lane, []).append(mine.open.pop(lane, []))


def wait(w: Any, pending: int, at: Where | None) -> Iterator[Any]:
    """Until at most ``pending`` groups of each active lane are in flight. (.read is no weaker here: the write of a
    store is done when its read is.)"""
    mine = bulk(w)
    waited: list[Store] = []
    for lane in w.active_lanes():
        groups = mine.groups.get(lane, [])
        for group in groups[: max(len(groups) - pending, 0)]:
            waited += group
    if any(not one.done for one in waited):
        yield Waiting(lambda: all(one.done for one in waited), "its bulk stores", at)
    finished = {id(one) for one in waited}
    mine.unread = [one for one in mine.unread if id(one) not in finished]
    clock = w.clock.generic
    low = min((one.number for one in mine.unread), default=mine.count + 1)
    clock[mine.channel] = max(clock[mine.channel], low - 1)


def uniform(x: Any, w: Any, lane: int) -> Any:
    """The value of a scalar in one lane."""
    return int(x[lane]) if isinstance(x, np.ndarray) else x
