"""mbarrier operations of a warp: each active lane's, by address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.hopper.arch import MBARRIER_BYTES
from nvdsl.sim import memory
from nvdsl.sim.barriers import Mbarrier
from nvdsl.sim.copies import mbarrier, uniform
from nvdsl.sim.machine import Waiting
from nvdsl.sim.operands import check_count
from nvdsl.sim.records import Touch
from nvdsl.sim.report import Access, error
from nvdsl.sim.shadow import interval
from nvdsl.sim.values import LANES

Names = dict[int, str]
"""Names of the kernel's mbarriers by address."""


def _each(w: Any, address: Any, f: Callable[[int, int, int], None]) -> None:
    """``f(address, lane, count)`` once for each address; ``count``: how many active lanes give it."""
    w.machine.changes += 1
    if address.__class__ is int:
        lanes = w.active_lanes()
        f(address, lanes[0], len(lanes))
        return
    seen: dict[int, list[int]] = {}
    for lane in w.active_lanes():
        seen.setdefault(int(address[lane]), []).append(lane)
    for one, lanes in seen.items():
        f(one, lanes[0], len(lanes))


def init(w: Any, address: Any, count: Any, names: Names, at: Where | None) -> None:
    def one(a: int, lane: int, lanes: int) -> None:
        name = names.get(a, f"at byte {a - memory.SHARED_BASE}")
        block = w.block
        if lanes > 1 and w.machine.checks:
            raise error("init-sync", f"{lanes} lanes of {w.name} initialize mbarrier {name}", at,
                        "one thread initializes an mbarrier: a second init of one that is valid is undefined (PTX ISA, "
                        "mbarrier.init)", "init under `if nv.thread_id.x == 0`")  # fmt: skip
        old = block.mbarriers.get(a)
        if old is not None and w.machine.checks:
            _check_again(w, old, at)
        expected = uniform(count, w, lane)
        check_count(w, expected, "mbarrier.init", at)
        if w.machine.checks:
            _note(w, a, "mbarrier.init", at)
        made = block.mbarriers[a] = Mbarrier(name, expected, block.cluster.clocks, w, at)
        block.shadow.occupy(a, made)
        if w.record is not None:
            w.record.init(made, at)

    _each(w, address, one)


def _check_again(w: Any, old: Mbarrier, at: Where | None) -> None:
    """There is an mbarrier already."""
    if not old.known_to(w):
        raise error("init-sync", f"{w.name} initializes mbarrier {old.name} again, and so does {old.init_name}", at,
                    "one thread initializes an mbarrier", "init under `if nv.thread_id.x == 0`")  # fmt: skip
    raise error(
        "mbarrier-live",
        f"{w.name} initializes mbarrier {old.name} again, which {old.init_name} has initialized at {old.where}",
        at,
        "mbarrier.init of an mbarrier that is in use is undefined (PTX ISA, mbarrier.init)",
        "bar.invalidate() in one thread before, when all are done with it; or another mbarrier",
    )


def _note(w: Any, a: int, what: str, at: Where | None) -> None:
    """The operation writes the mbarrier's bytes, as an ordinary store."""
    tracker = w.block.shadow
    if 1 << tracker.shift <= MBARRIER_BYTES:
        span, touch = interval(a, a + MBARRIER_BYTES, tracker.shift), Touch(a, MBARRIER_BYTES, w.bits)
        tracker.write(span, w.clock, Access(w.name, what, "generic", at), w.actor, w.epoch, touch)


def inval(w: Any, address: Any, at: Where | None) -> None:
    def one(a: int, lane: int, _: int) -> None:
        barrier = mbarrier(w, a, at)
        block = w.block
        if w.machine.checks:
            barrier.check_unused(w, at)
        del block.mbarriers[a]
        block.shadow.occupy(a, None)
        if w.machine.checks:
            _note(w, a, "mbarrier.inval", at)

    _each(w, address, one)


def expect(w: Any, address: Any, size: Any, at: Where | None) -> None:
    def one(a: int, lane: int, count: int) -> None:
        barrier, more = mbarrier(w, a, at), count * uniform(size, w, lane)
        if w.record is not None:
            w.record.expect(barrier, more, at)
        if barrier.rounds is not None:
            barrier.rounds.announced(w, more, at)
        barrier.expect(more, at)

    _each(w, address, one)


def arrive(w: Any, address: Any, size: Any, count: Any, at: Where | None, relaxed: bool = False) -> None:
    """mbarrier.arrive; with ``size``, arrive.expect_tx of so many bytes."""

    def one(a: int, lane: int, lanes: int) -> None:
        barrier = mbarrier(w, a, at)
        rank = a >> memory.CLUSTER_SHIFT
        if rank and rank - 1 != w.block.rank:
            w.block.cluster.blocks[rank - 1].visited(w, at, barrier=barrier)
        more = 0 if size is None else lanes * uniform(size, w, lane)
        if count is not None:
            check_count(w, uniform(count, w, lane), "mbarrier.arrive", at)
        arrivals = lanes * (1 if count is None else uniform(count, w, lane))
        if w.record is not None:
            w.record.arrive(barrier, arrivals, more, at)
        if size is not None:
            barrier.expect(more, at)
        barrier.arrive(w, arrivals, at, relaxed)

    _each(w, address, one)


def wait(w: Any, address: Any, parity: Any, at: Where | None) -> Iterator[Any]:
    """Until the phase of the parity has completed; then the lanes know what those who arrived knew."""
    found: dict[tuple[Mbarrier, int], Any] = {}
    if address.__class__ is int and parity.__class__ is not np.ndarray:
        found[mbarrier(w, address, at), int(parity) & 1] = w.mask
    else:
        for lane in w.active_lanes():
            waited = mbarrier(w, int(uniform(address, w, lane)), at), int(uniform(parity, w, lane)) & 1
            found.setdefault(waited, np.zeros(LANES, np.bool_))[lane] = True
    for (barrier, wanted), waiters in found.items():
        if not barrier.passed(wanted):
            yield Waiting(
                lambda b=barrier, p=wanted: b.passed(p),  # type: ignore[misc]
                lambda b=barrier, p=wanted: f"mbarrier {b.name}, parity {p}: {b.state()}",  # type: ignore[misc]
                at,
                barrier.hint,
                barrier=barrier,
            )
        if w.record is not None:
            w.record.passed(barrier, wanted, at)
        _learn(w, barrier, waiters, at)


def _learn(w: Any, barrier: Mbarrier, lanes: Any, at: Where | None) -> None:
    """Those lanes, of the active ones, know that a phase has completed."""
    outer = w.mask
    if lanes is not outer:
        w.set_mask(lanes)
    if barrier.rounds is not None:
        barrier.rounds.waits(barrier, w, at)
    w.acquire(barrier.done)
    barrier.used(w, at)
    if barrier.rounds is not None:
        barrier.rounds.waited(barrier, w, at)
    if lanes is not outer:
        w.set_mask(outer)


def test(w: Any, address: Any, parity: Any, at: Where | None) -> Any:
    """Whether the phase of the parity has completed, without waiting."""
    results = np.zeros(LANES, np.bool_)
    knowing: dict[Mbarrier, Any] = {}
    for lane in w.active_lanes():
        barrier = mbarrier(w, int(uniform(address, w, lane)), at)
        results[lane] = barrier.passed(int(uniform(parity, w, lane)) & 1)
        if results[lane]:
            if w.record is not None:
                w.record.passed(barrier, 1 - (barrier.phase & 1), at)
            knowing.setdefault(barrier, np.zeros(LANES, np.bool_))[lane] = True
    for barrier, lanes in knowing.items():
        _learn(w, barrier, lanes, at)
    if address.__class__ is int and parity.__class__ is not np.ndarray:
        return bool(results[w.active_lanes()[0]])
    return results
