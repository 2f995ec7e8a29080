"""Asynchronous bulk copies (TMA): into shared memory, completing on an mbarrier, or out of it, in a bulk group.

A copy is an actor of its own: what it writes is there for those who waited for the phase in which it completed; what
it reads is read until its group is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import access, memory, shadow
from nvdsl.sim.barriers import Mbarrier
from nvdsl.sim.machine import Waiting
from nvdsl.sim.operands import check_multicast
from nvdsl.sim.records import Touch
from nvdsl.sim.report import Access, error
from nvdsl.sim.values import LANES


class Load:
    """A copy into shared memory. ``targets``: (block, address, mbarrier, record) of each block that gets it.
    ``undefined``: for each byte of the source's allocation whether nobody wrote it; None where all were. ``before``:
    what had happened before it (`Clock.before`)."""

    __slots__ = ("before", "cluster", "flight", "machine", "source", "targets", "touch", "undefined", "who")

    def __init__(self, w: Any, lane: int, source: Any, targets: list[Any], who: Access, touch: Any) -> None:
        self.before = w.of_lane(lane).before(w.epoch)
        self.machine, self.cluster = w.machine, w.block.cluster
        self.source, self.targets, self.who, self.touch = source, targets, who, touch
        self.undefined: Any = None
        self.flight = None if w.record is None else w.record.load(source, who.where, targets)

    def deliver(self) -> None:
        if self.flight is not None:
            self.flight.delivered()
        for block, address, barrier, record in self.targets:
            self.source.load(self.machine, block.smem, address)
            if self.undefined is not None:
                self._leave_undefined(block, address)
            if self.machine.checks:
                self.source.lay(block.layouts, address, self.who)
            block.smem.version += 1
            block.in_flight -= 1
            if record is not None:
                record.actor, record.epoch = barrier.channel, barrier.phase + 1
            if self.touch is not None and block is self.targets[0][0]:
                self.touch.actor, self.touch.epoch = barrier.channel, barrier.phase + 1
            barrier.copied = barrier.phase + 1, self.who
            barrier.complete_tx(self.source.bytes, self.before)


    def _leave_undefined(self, block: Any, address: int) -> None:
        """What nobody wrote in global memory is not written here, either."""
        marks = np.zeros(len(block.smem.data), np.uint8)
        self.source.spread(self.machine, self.undefined, marks, address)
        tracker = block.shadow
        for unit in np.unique(np.flatnonzero(marks) >> tracker.shift).tolist():
            tracker.written &= ~(1 << unit)


def load(
    w: Any, lane: int, source: Any, address: int, barrier_address: int, mask: int | None, at: Where | None
) -> None:
    """A lane issues a copy to ``address`` (shared::cta or shared::cluster); it completes on ``barrier_address``'s
    mbarrier."""
    who = Access(w.name, "TMA load", "copy", at)
    memory_, block, base = access.resolve(w, access.SHARED_CLUSTER, address, at, "TMA load")
    barrier_address &= (1 << memory.CLUSTER_SHIFT) - 1
    local = address - base
    source.check(w.machine, local, who)
    _check_extent(source, local, memory_, who)
    if mask is not None:
        check_multicast(w, mask, at)
    blocks = [block] if mask is None else [b for b in w.block.cluster.blocks if mask >> b.rank & 1]
    targets = []
    for target in blocks:
        barrier = mbarrier(w, barrier_address, at, target)
        record = None
        if w.machine.checks:
            span = source.span(local, target.shadow.shift)
            lost = target.shadow.lost(span)
            record = target.shadow.write(span, w.of_lane(lane), who, 0, shadow.IN_FLIGHT, Touch(0, 0, 1 << lane))
            if lost is not None:
                raise _lost(who, lost, target.shadow.describe(span[0]))
        target.in_flight += 1
        barrier.sent("bytes copied", w, lane, source.bytes, at)
        targets.append((target, local, barrier, record))
    touch = undefined = None
    if w.machine.checks:
        found, region = source.region(w.machine, store=False)
        if found.shadow is not None and region is not None:
            touch = found.shadow.read(w, lane, region, who)
            undefined = found.shadow.undefined(region, who)
    made = Load(w, lane, source, targets, who, touch)
    made.undefined = undefined
    w.machine.issue(made)


def _lost(who: Access, earlier: Access, span: str) -> Any:
    found = error(
        "overwritten-copy",
        f"{who} to {span} overwrites a part of what another copy brought, of which nobody has read anything",
        who.where,
        "a box takes all of its bytes in shared memory: slots are as large as the boxes that go there",
        "compare the box with the slot's size, and the slots' distance",
    )
    found.details = (f"first:  {earlier}", f"second: {who}")
    return found


def _check_extent(source: Any, address: int, smem: Any, who: Access) -> None:
    """A swizzled row takes as many bytes as the swizzle is wide, a narrower box's too."""
    first, last = source.extent(address)
    if first < smem.reserved or last > smem.size:
        raise error(
            "out-of-bounds",
            f"{who} takes bytes {first - smem.reserved}..{last - smem.reserved - 1} of shared memory, of which there "
            f"are {smem.size - smem.reserved}",
            who.where,
            "a box lies inside of the block's shared memory",
            "check the slot's offset",
        )


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
    """A copy out of shared memory, of one thread's bulk group: it reads its source, and writes some time after."""

    __slots__ = (
        "address", "block", "cluster", "done", "flight", "kind", "machine", "number", "source", "taken", "who",
    )  # fmt: skip

    def __init__(self, w: Any, source: Any, address: int, kind: str | None, number: int, who: Access) -> None:
        self.machine, self.cluster, self.block = w.machine, w.block.cluster, w.block
        self.source, self.address, self.kind, self.number, self.who = source, address, kind, number, who
        self.taken: Any = None
        self.done = False
        self.flight = None if w.record is None else w.record.store(source, who.where, address, kind)

    def deliver(self) -> None:
        if self.taken is None:
            self.taken = self.source.take(self.block.smem, self.address)
            if self.flight is not None:
                self.flight.took()
            if not self.machine.eager:
                self.machine.issue(self)
                return
        if not self.done:
            self.done = True
            if self.flight is not None:
                self.flight.delivered()
            self.source.put(self.machine, self.taken, self.kind)


class Bulk:
    """One warp's bulk stores. ``open`` and ``groups`` by lane; ``unread``, ``unwritten``: those whose source, whose end
    nobody waited for."""

    def __init__(self, w: Any) -> None:
        self.open: dict[int, list[Store]] = {}
        self.groups: dict[int, list[list[Store]]] = {}
        self.unread: list[Store] = []
        self.unwritten: list[Store] = []
        self.count = 0
        clocks = w.block.cluster.clocks
        self.channel, self.write_channel = clocks.bulk_read(w.actor), clocks.bulk_write(w.actor)


def bulk(w: Any) -> Bulk:
    if w.bulk is None:
        w.bulk = Bulk(w)
    return w.bulk


def store(w: Any, lane: int, source: Any, address: int, kind: str | None, at: Where | None) -> None:
    who = Access(w.name, "bulk store", "store", at)
    source.check(w.machine, address, who, kind or "store")
    _check_extent(source, address, w.block.smem, who)
    mine = bulk(w)
    mine.count += 1
    made = Store(w, source, address, kind, mine.count, who)
    if w.machine.checks:
        tracker = w.block.shadow
        span = source.read_span(address, tracker.shift)
        tracker.read(span, w.of_lane(lane), who, mine.channel, mine.count, Touch(0, 0, 1 << lane))
        source.check_swizzle(w.block.layouts, address, who)
        found, region = source.region(w.machine, store=True)
        if found.shadow is not None and region is not None:
            writer = who if kind is None else Access(w.name, "bulk reduction", "reduction", at)
            found.shadow.write(w, lane, region, writer, mine.write_channel, mine.count)
    mine.open.setdefault(lane, []).append(made)
    mine.unread.append(made)
    mine.unwritten.append(made)
    w.machine.issue(made)


def commit(w: Any) -> None:
    mine = bulk(w)
    if w.record is not None:
        w.record.did("commit bulk group", None)
    for lane in w.active_lanes():
        mine.groups.setdefault(lane, []).append(mine.open.pop(lane, []))


def wait(w: Any, pending: int, read: bool, at: Where | None) -> Iterator[Any]:
    """Until at most ``pending`` groups of each active lane are in flight; ``read``: until they have read their
    sources. A lane waits for its own groups: one that has none learns nothing."""
    mine = bulk(w)
    waited: list[Store] = []
    waiters = np.zeros(LANES, np.bool_)
    for lane in w.active_lanes():
        groups = mine.groups.get(lane, [])
        for group in groups[: max(len(groups) - pending, 0)]:
            waited += group
            waiters[lane] = True

    def ready() -> bool:
        return all(one.taken is not None if read else one.done for one in waited)

    if not ready():
        yield Waiting(ready, "its bulk stores", at)
    if w.record is not None:
        w.record.wait_bulk([one.flight for one in waited], pending, read, at)
    finished = {id(one) for one in waited}
    mine.unread = [one for one in mine.unread if id(one) not in finished]
    told = [(mine.channel, _over(mine.unread, mine.count))]
    if not read:
        mine.unwritten = [one for one in mine.unwritten if id(one) not in finished]
        told.append((mine.write_channel, _over(mine.unwritten, mine.count)))
        for lane in w.active_lanes():
            groups = mine.groups.get(lane, [])
            del groups[: max(len(groups) - pending, 0)]
    if waited:
        outer = w.mask
        w.set_mask(waiters)
        w.learn(told)
        w.set_mask(outer)


def _over(left: list[Store], count: int) -> int:
    """The number of the last store that is over with all before it."""
    return min((one.number for one in left), default=count + 1) - 1


def uniform(x: Any, w: Any, lane: int) -> Any:
    """The value of a scalar in one lane."""
    return int(x[lane]) if isinstance(x, np.ndarray) else x
