"""st.async: stores into the shared memory of a block of the cluster, which complete on an mbarrier there."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import memory, shadow
from nvdsl.sim.access import SHARED_CLUSTER, Accessor
from nvdsl.sim.copies import mbarrier
from nvdsl.sim.records import Touch
from nvdsl.sim.report import Access, error
from nvdsl.sim.values import LANES, Element


class AsyncStore:
    """What some lanes of a warp store to one block, ``data[i]`` at ``offsets[i]``, and complete on one mbarrier.
    ``before``: what had happened before it (`Clock.before`)."""

    __slots__ = ("barrier", "before", "block", "bits", "cluster", "data", "offsets", "targets", "who")

    def __init__(self, w: Any, block: Any, barrier: Any, offsets: Any, data: Any, who: Access) -> None:
        self.block, self.barrier, self.offsets, self.data, self.who = block, barrier, offsets, data, who
        self.bits, self.targets, self.cluster = w.bits, [(block,)], block.cluster
        self.before = w.of_lane(next(iter(w.active_lanes()))).before(w.epoch)

    def deliver(self) -> None:
        block, size = self.block, self.data.shape[1]
        block.smem.data[self.offsets[:, None] + np.arange(size)] = self.data
        block.smem.version += 1
        block.in_flight -= 1
        if block.machine.checks:
            tracker = block.shadow
            span = shadow.scattered(self.offsets, size, tracker.shift)
            access = Access(self.who.actor, self.who.what, "generic", self.who.where)
            touch = Touch(self.offsets, size, self.bits)
            tracker.note(span, access, self.barrier.channel, self.barrier.phase + 1, touch, True)
        self.barrier.copied = self.barrier.phase + 1, self.who
        self.barrier.complete_tx(self.data.size, self.before)


def start(w: Any, address: Any, data: Any, barrier_address: Any, at: Where | None) -> None:
    """The active lanes store ``data[lane]`` at their addresses."""
    addresses, barriers = (np.broadcast_to(x, (LANES,)) for x in (address, barrier_address))
    outer, size = w.mask, data.shape[1]
    who = Access(w.name, "st.async", "st.async", at)
    access = Accessor(SHARED_CLUSTER, Element("i8", 8, np.int8, False), size, size, at)
    places = {(int(addresses[i]) >> memory.CLUSTER_SHIFT, int(barriers[i])) for i in w.active_lanes()}
    for rank, one in sorted(places):
        w.set_mask(outer & (addresses >> memory.CLUSTER_SHIFT == rank) & (barriers == one))
        barrier = mbarrier(w, one, at)
        if one >> memory.CLUSTER_SHIFT != rank:
            raise error(
                "illegal-copy",
                f"{who} goes to the shared memory of one block, and completes on an mbarrier of another",
                at,
                "the address and the mbarrier are in one block's shared memory (PTX ISA, st.async)",
                "map both to one rank: nv.mapa(pointer, rank), nv.mapa(barrier.pointer, rank)",
            )
        _, block, offsets = access.locate(w, addresses, "st.async")
        if w.machine.checks:
            block.visited(w, at, awaited=True)
            _note(w, block.shadow, offsets, size, who)
            block.layouts.stored(offsets, size)
        block.in_flight += 1
        barrier.sent("bytes stored", w, next(iter(w.active_lanes())), size * len(offsets), at)
        w.machine.issue(AsyncStore(w, block, barrier, offsets, data[w.mask], who))
        w.set_mask(outer)


def _note(w: Any, tracker: Any, offsets: Any, size: int, who: Access) -> None:
    """Until it is delivered it may come at any time; like an ordinary store it comes after what is known."""
    span, touch = shadow.scattered(offsets, size, tracker.shift), Touch(offsets, size, w.bits)
    writes = Access(w.name, "st.async", "generic", who.where)
    for _ in w.apart():
        tracker.compare(span, w.clock, writes, touch, True)
    tracker.note(span, who, w.actor, shadow.IN_FLIGHT, touch, True)
