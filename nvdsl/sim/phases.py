"""mbarrier operations of a warp: each active lane's, by address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import memory
from nvdsl.sim.barriers import Mbarrier
from nvdsl.sim.copies import mbarrier, uniform
from nvdsl.sim.machine import Waiting
from nvdsl.sim.operands import check_count
from nvdsl.sim.report import error

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
    def one(a: int, lane: int, _: int) -> None:
        name = names.get(a, f"at byte {a - memory.SHARED_BASE}")
        block = w.block
        old = block.mbarriers.get(a)
        if old is not None and w.machine.checks and not old.known_to(w):
            raise error("init-sync", f"{w.name} initializes mbarrier {name} again, and so does {old.init_name}", at,
                        "one thread initializes an mbarrier", "init under `if nv.thread_id.x == 0`")  # fmt: skip
        expected = uniform(count, w, lane)
        check_count(w, expected, "mbarrier.init", at)
        made = block.mbarriers[a] = Mbarrier(name, expected, block.cluster.clocks, w, at)
        if w.record is not None:
            w.record.init(made, at)

    _each(w, address, one)


def inval(w: Any, address: Any, at: Where | None) -> None:
    def one(a: int, lane: int, _: int) -> None:
        mbarrier(w, a, at)
        del w.block.mbarriers[a]

    _each(w, address, one)


def expect(w: Any, address: Any, size: Any, at: Where | None) -> None:
    def one(a: int, lane: int, count: int) -> None:
        barrier, more = mbarrier(w, a, at), count * uniform(size, w, lane)
        if w.record is not None:
            w.record.expect(barrier, more, at)
        barrier.expect(more, at)

    _each(w, address, one)


def arrive(w: Any, address: Any, size: Any, count: Any, at: Where | None, relaxed: bool = False) -> None:
    """mbarrier.arrive; with ``size``, arrive.expect_tx of so many bytes."""

    def one(a: int, lane: int, lanes: int) -> None:
        barrier = mbarrier(w, a, at)
        rank = a >> memory.CLUSTER_SHIFT
        if rank and rank - 1 != w.block.rank:
            w.block.cluster.blocks[rank - 1].visited(w, at)
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
            found.setdefault(waited, np.zeros(32, np.bool_))[lane] = True
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
        _learn(w, barrier, waiters)


def _learn(w: Any, barrier: Mbarrier, lanes: Any) -> None:
    """Those lanes, of the active ones, know that a phase has completed."""
    outer = w.mask
    if lanes is outer:
        w.acquire(barrier.done)
        return
    w.set_mask(lanes)
    w.acquire(barrier.done)
    w.set_mask(outer)


def test(w: Any, address: Any, parity: Any, at: Where | None) -> Any:
    """Whether the phase of the parity has completed, without waiting."""
    results = np.zeros(32, np.bool_)
    knowing: dict[Mbarrier, Any] = {}
    for lane in w.active_lanes():
        barrier = mbarrier(w, int(uniform(address, w, lane)), at)
        results[lane] = barrier.passed(int(uniform(parity, w, lane)) & 1)
        if results[lane]:
            if w.record is not None:
                w.record.passed(barrier, 1 - (barrier.phase & 1), at)
            knowing.setdefault(barrier, np.zeros(32, np.bool_))[lane] = True
    for barrier, lanes in knowing.items():
        _learn(w, barrier, lanes)
    if address.__class__ is int and parity.__class__ is not np.ndarray:
        return bool(results[w.active_lanes()[0]])
    return results
