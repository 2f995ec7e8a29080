"""What must not be left when a block returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.sim.report import error

_WAIT = "wait on the copy's mbarrier before the kernel ends, or don't load what nobody reads"


def _check_async_copies(warp: Any) -> None:
    left = [] if warp.copying is None else warp.copying.left()
    if left:
        raise error(
            "exit-in-flight",
            f"{warp.name} returns without waiting for the {left[0].who}",
            left[0].who.where,
            "a block's shared memory must outlive the copies into it",
            "nv.cp_async_commit() after the copies, and nv.cp_async_wait(0) before the kernel ends",
        )


def check(block: Any) -> None:
    """Raise for copies, bytes, stores or wgmmas that nobody waited for."""
    _check_barriers(block)
    if block.in_flight:
        event = next(e for e in block.machine.events if any(t[0] is block for t in getattr(e, "targets", ())))
        raise error(
            "exit-in-flight",
            f"{block.name} returns while the {event.who} is still under way",
            event.who.where,
            "a block's shared memory must outlive the copies into it",
            _WAIT,
        )
    _check_copies(block)
    if block.shadow.uninitialized is not None:
        fresh, access = block.shadow.uninitialized
        raise error(
            "uninitialized",
            f"{access} reads {block.shadow.describe(fresh)}, which nothing had written",
            access.where,
            "shared memory holds arbitrary bytes when a block starts",
            "check the offset, the descriptor's strides, or the copy that should bring the bytes",
        )
    block.pool.check_exit(block)
    _check_visits(block)
    for wrong in (block.mixed, block.early):
        if wrong is not None:
            raise wrong
    if block.shadow.between_lanes is not None:
        raise block.shadow.between_lanes
    for warp in block.warps:
        _check_stores(warp)
        _check_async_copies(warp)
        _check_wgmmas(warp)


def _check_barriers(block: Any) -> None:
    for barrier in block.mbarriers.values():
        if barrier.tx and not block.in_flight:
            more = f"{barrier.tx} bytes that never come" if barrier.tx > 0 else f"{-barrier.tx} bytes too many"
            raise error(
                "residue",
                f"{block.name} returns with mbarrier {barrier.name} in {barrier.state()}: {more}",
                barrier.where,
                "the bytes of the boxes that complete on an mbarrier are those that expect_tx announced",
                "expect what the loads bring: tile.bytes of each box",
            )
        if 0 < barrier.pending < barrier.count:
            raise error(
                "residue",
                f"{block.name} returns with mbarrier {barrier.name} in {barrier.state()}",
                barrier.where,
                "what arrives at an mbarrier arrives once a phase: one that is left half complete was told of more or "
                "fewer arrivals than come",
                f"compare the count of its init with what came. {barrier.history()}",
            )
    for barrier in block.named.values():
        if barrier.arrived:
            raise error(
                "residue",
                f"{block.name} returns with {barrier.arrived} of {barrier.threads} threads at {barrier.name}",
                barrier.last,
                "a barrier's arrivals are waited for: what is left would count to its next use (PTX ISA, barrier)",
                f"compare the thread counts of the barrier's users. {barrier.history()}",
            )


def _clocks(block: Any) -> Iterator[Any]:
    return (clock for warp in block.warps for clock in warp.clocks)


def _check_copies(block: Any) -> None:
    """A copy that happens to be over, but that nobody has waited for: another time it is not over."""
    for barrier in block.mbarriers.values():
        if barrier.copied is None:
            continue
        phase, who = barrier.copied
        if all(clock.generic.upto[barrier.channel] < phase for clock in _clocks(block)):
            raise error(
                "exit-in-flight",
                f"{block.name} returns, and nobody has waited for the {who}",
                who.where,
                "a block's shared memory must outlive the copies into it",
                _WAIT,
            )


def _check_visits(block: Any) -> None:
    """Who comes from another block must find this one there. An arrival has come when somebody here has waited for the
    phase that it counts to."""
    for (actor, _), (epoch, lanes, name, at, place) in block.visits.items():
        if place is not None and any(clock.generic.upto[place[0]] > place[1] for clock in _clocks(block)):
            continue
        if all(clock.generic.unknown(actor, epoch) & lanes for clock in _clocks(block)):
            raise error(
                "exited-block",
                f"{name} comes to the shared memory of {block.name}, and nothing says that this one has not returned",
                at,
                "a block's shared memory is there until it returns; the others of its cluster may still come (CUDA "
                "programming guide, Distributed shared memory)",
                "nv.cluster_sync() at the kernel's end, or a wait here for the phase of what arrives",
            )


def _check_stores(warp: Any) -> None:
    if warp.bulk is None:
        return
    for stores in warp.bulk.open.values():
        if stores:
            raise error(
                "uncommitted-store",
                f"{warp.name} returns with a bulk store in no group",
                stores[0].who.where,
                "cp.async.bulk.commit_group closes a group, cp.async.bulk.wait_group waits for it (PTX ISA)",
                "nv.bulk_commit_group() and nv.bulk_wait_group(0) in the thread that stored",
            )
    if warp.bulk.unread:
        raise error(
            "exit-unread",
            f"{warp.name} returns while a bulk store may still read its shared memory",
            warp.bulk.unread[0].who.where,
            "shared memory must outlive the stores that read it",
            "nv.bulk_wait_group(0, read=True) in the thread that stored",
        )


def _check_wgmmas(warp: Any) -> None:
    if warp.mma is not None and warp.mma.in_flight:
        first = next(iter(warp.mma.in_flight))
        raise error(
            "exit-in-flight",
            f"{warp.name} returns with a wgmma in flight",
            first.kind.at,
            "wgmma.wait_group comes before the kernel's end (PTX ISA, wgmma.mma_async)",
            "nv.wgmma_wait(0)",
        )
