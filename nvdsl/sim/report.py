"""The words of the simulator's errors."""

from __future__ import annotations

from typing import Any

from nvdsl.errors import SimError, Where


class Access:
    """One side of a race: who (``actor``, e.g. "warp 2 of block (0, 1)"), what it does, where in the source.

    ``place`` and ``domain``, of an atomic in shared memory: see `histories.Touch`."""

    __slots__ = ("actor", "domain", "kind", "place", "what", "where")

    def __init__(
        self, actor: str, what: str, kind: str, where: Where | None, place: tuple[int, ...] = (),
        domain: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.actor, self.what, self.kind, self.where = actor, what, kind, where
        self.place, self.domain = place, domain

    def holds(self, other: Access) -> bool:
        """Whether the other is by one who is in this atomic's scope."""
        return other.place[: len(self.domain)] == self.domain

    def __str__(self) -> str:
        return f"{self.what} by {self.actor}" + (f" at {self.where}" if self.where else "")


_UNDELIVERED = (
    "undelivered", "the bytes of a cp.async are there for the thread that waited for its group (PTX ISA, cp.async)",
    "nv.cp_async_commit() and nv.cp_async_wait(0) in the threads that copied, then a barrier, before the access",
)  # fmt: skip

_UNSTORED = (
    "undelivered", "the bytes of a st.async are there for who waited on its mbarrier for the phase (PTX ISA, st.async)",
    "wait on the mbarrier in the block that they go to, before the access; check the byte count of its expect_tx",
)  # fmt: skip

_NEXT_ROUND = (
    "; where it has waited, this is the next round's copy: a barrier, or an arrive on the slot's empty mbarrier, "
    "between the access and that copy"
)

_CAUSES: dict[tuple[str, str, str], tuple[str, str, str]] = {
    # (earlier, later, hazard): kind, rule, fix. generic: ordinary loads and stores; copy: into shared memory;
    # store: a bulk copy out of it; wgmma: an operand; cp.async: into shared memory, not waited for.
    **{("cp.async", later, hazard): _UNDELIVERED for later in ("generic", "wgmma", "store", "copy", "atomic")
       for hazard in ("raw", "waw")},
    **{("st.async", later, hazard): _UNSTORED for later in ("generic", "wgmma", "store", "copy", "atomic")
       for hazard in ("raw", "waw")},
    ("copy", "generic", "raw"): (
        "undelivered", "a copy's bytes are there for those who waited on its mbarrier for that phase",
        "wait on the mbarrier of this slot, for this round's phase, before the read; check the byte count"
        + _NEXT_ROUND),
    ("copy", "wgmma", "raw"): (
        "undelivered", "a copy's bytes are there for those who waited on its mbarrier for that phase",
        "wait on the mbarrier of this slot, for this round's phase, before the wgmma; check the byte count"
        + _NEXT_ROUND),
    ("copy", "store", "raw"): (
        "undelivered", "a copy's bytes are there for those who waited on its mbarrier for that phase",
        "wait on the mbarrier of this slot before the bulk store" + _NEXT_ROUND),
    ("copy", "copy", "waw"): (
        "waw", "two copies into the same bytes have no order",
        "wait for the first one's mbarrier before issuing the second; check the slot's offset"),
    ("copy", "generic", "waw"): (
        "waw", "a copy that nobody waited for may land on top of this store",
        "wait on the copy's mbarrier before the store"),
    ("wgmma", "copy", "war"): (
        "war-wgmma", "a wgmma reads its operands until wgmma.wait_group says that its group is done",
        "before the slot is refilled: wgmma_wait, then a barrier of (or an arrive by) all the warps that read it"),
    ("wgmma", "generic", "war"): (
        "war-wgmma", "a wgmma reads its operands until wgmma.wait_group says that its group is done",
        "wgmma_wait, then a barrier of all the warps that read the bytes, before the store"),
    ("store", "copy", "war"): (
        "war-store", "a bulk store reads its source until cp.async.bulk.wait_group says so",
        "bulk_wait_group(0, read=True) in the thread that stored, then a barrier, before the slot is refilled"),
    ("store", "generic", "war"): (
        "war-store", "a bulk store reads its source until cp.async.bulk.wait_group says so",
        "bulk_wait_group(0, read=True) in the thread that stored, then a barrier, before the next store"),
    ("generic", "copy", "war"): (
        "war", "a slot is refilled only after all its readers are done",
        "a barrier, or an arrive on the slot's empty mbarrier, between the read and the copy"),
    ("generic", "generic", "raw"): (
        "raw", "a barrier must order another warp's store before this load",
        "nv.sync_threads(), a named barrier or an mbarrier between the two"),
    ("generic", "generic", "war"): (
        "war", "a barrier must order another warp's load before this store",
        "nv.sync_threads(), a named barrier or an mbarrier between the two"),
    ("generic", "generic", "waw"): (
        "waw", "two warps store to the same bytes, and nothing says which comes last",
        "let one warp store it, or put a barrier between the two"),
}  # fmt: skip


_REMOTE = {
    # The same between blocks of a cluster, by (earlier, later).
    ("generic", "generic"): "nv.cluster_sync() between the two, or an mbarrier of the block that goes on: "
    "arrive_cluster there after the first, a wait before the second (nv.sync_threads() orders one block alone)",
    ("generic", "copy"): "who reads the slot arrives at the empty mbarrier of the block that loads into it: "
    "ring.release(state, rank=), Mbarrier.arrive_cluster",
    ("wgmma", "copy"): "nv.wgmma_wait, then an arrive at the empty mbarrier of the block that loads into the slot: "
    "ring.release(state, rank=), Mbarrier.arrive_cluster",
    ("store", "copy"): "nv.bulk_wait_group(0, read=True) in the thread that stored, then an arrive_cluster at an "
    "mbarrier of the block that loads",
    ("copy", "copy"): "one block loads the slot, or each its own part of it; wait for the first before the second",
}


def _block(access: Access) -> str:
    """The block of who accesses, in a launch of several."""
    return access.actor.partition(" of ")[2]


_WARP_SYNC = (
    "the lanes of a warp are threads of their own: what one of them releases, fences or waits for is its own; "
    "bar.warp.sync orders their accesses (PTX ISA, bar.warp.sync)"
)


def lane_race(hazard: str, earlier: Access, later: Access, span: str) -> SimError:
    """A race between lanes of one warp."""
    says = {
        "raw": f"{later} reads what another lane of the same warp stored: {earlier}, {span}",
        "war": f"{later} overwrites what another lane of the same warp reads: {earlier}, {span}",
        "waw": f"{later} overwrites what another lane of the same warp stored: {earlier}, {span}",
    }[hazard]
    return SimError(
        f"{says}; the lanes have not met since",
        kind="warp-sync",
        where=later.where,
        rule=_WARP_SYNC,
        fix="nv.sync_warp() between the two",
        details=(f"first:  {earlier}", f"second: {later}"),
    )


def told_alone(earlier: Access, later: Access, span: str, part: Any) -> SimError:
    """A race because single lanes of the warp released, or fenced, where all of them had accessed: ``part``, a
    `clocks.Part`."""
    fences = part.what == "fence.proxy.async"
    return SimError(
        f"{part.what} by single lanes of the warp speaks for the accesses of those lanes alone: {later} touches {span} "
        f"of {earlier}, which others of its lanes did",
        kind="proxy-fence" if fences else "warp-sync",
        where=part.where or later.where,
        rule=_WARP_SYNC,
        fix="all lanes that stored execute the fence"
        if fences
        else f"nv.sync_warp() before the {part.what} (a barrier, where it speaks for other warps, too)",
        details=(f"first:  {earlier}", f"{'fence' if fences else 'told'}:  {part.what} at {part.where}",
                 f"second: {later}"),
    )  # fmt: skip


def race(
    hazard: str, earlier: Access, later: Access, span: str, fence_only: bool, part: Any = None
) -> SimError:
    """``fence_only``: barriers order the two, only the proxy fence is missing. ``part``: what single lanes of the
    earlier one's warp told (`clocks.Part`)."""
    if part is not None:
        return told_alone(earlier, later, span, part)
    if fence_only:
        kind, rule, fix = (
            "proxy-fence",
            "ordinary stores become visible to TMA and wgmma by fence.proxy.async (PTX ISA, Async proxy)",
            "nv.fence_proxy_async() in the threads that stored, before the barrier; if they stored to another block's "
            'memory, nv.fence_proxy_async("shared::cluster")',
        )
        missing = "no fence.proxy.async is between the two"
    else:
        kind, rule, fix = _CAUSES.get(
            (earlier.kind, later.kind, hazard),
            (hazard, "two accesses to the same bytes of which one writes need an order", "synchronize the two"),
        )
        if _block(earlier) != _block(later):
            fix = _REMOTE.get((earlier.kind, later.kind), fix)
        if earlier.kind == later.kind == "generic" and earlier.where == later.where and earlier.what != later.what:
            rule = "of a load, a computation and a store of two threads at one place one may be lost"
            fix = "an atomic where they add (nv.atomic_add), or a barrier between one thread's turn and the other's"
        missing = "nothing orders the two"
    return SimError(
        f"{later} touches {span} of {earlier}: {missing}",
        kind=kind,
        where=later.where,
        rule=rule,
        fix=fix,
        details=(f"first:  {earlier}", f"second: {later}"),
    )


def global_race(
    hazard: str, earlier: Access, later: Access, fence_only: bool, cluster: int, part: Any = None
) -> SimError:
    """A race in global memory. ``cluster``: the earlier access's; -1 is the launch before, which may still run, -2 one
    before that, for which it may not have waited either. ``part``: what single lanes of the earlier one's warp told
    (`clocks.Part`)."""
    if part is not None:
        return told_alone(earlier, later, "elements of global memory", part)
    kind, missing = hazard, "nothing orders the two"
    rule = "two accesses to the same element of which one writes need an order; blocks have none but by atomics"
    fix = (
        "let one thread write it, or add to it by nv.atomic_add; or release it (nv.ops.memory.store_release, or "
        "nv.threadfence() and an atomic) and acquire it (load_acquire, or an atomic and nv.threadfence()), with "
        "barriers of the blocks around these"
    )
    if cluster == -2:
        kind = "grid-dependency"
        missing = "the launch between the two did not wait for the first"
        rule = (
            "griddepcontrol.wait waits for the grids that this one depends on; those may be complete while an earlier "
            "one is not, unless they waited for it (PTX ISA, griddepcontrol)"
        )
        fix = "nv.griddep_wait() in the launch between, too"
    elif cluster == -1:
        kind = "grid-dependency"
        missing = "the launch before may still run"
        rule = "a programmatic launch sees what the one before it wrote after griddepcontrol.wait (PTX ISA)"
        fix = "nv.griddep_wait() before the access, in every thread that makes it"
    elif fence_only:
        kind = "proxy-fence"
        missing = "no fence.proxy.async is between the two"
        rule = "ordinary stores become visible to bulk copies by fence.proxy.async (PTX ISA, Async proxy)"
        fix = 'nv.fence_proxy_async("global") in the threads that stored, before the barrier or the atomic'
    elif earlier.kind == "copy" and hazard == "war":
        rule = "a copy into shared memory reads its source until its mbarrier's phase is waited for"
        fix = "wait on the copy's mbarrier before the source is written"
    elif earlier.kind in ("store", "reduction"):
        kind = "undelivered" if hazard == "raw" else hazard
        rule = "a bulk store has written when cp.async.bulk.wait_group (not .read) says so, to the thread that waited"
        fix = "bulk_wait_group(0) in the thread that stored, then a barrier or an atomic's release"
    return SimError(
        f"{later} touches elements of global memory of {earlier}: {missing}",
        kind=kind,
        where=later.where,
        rule=rule,
        fix=fix,
        details=(f"first:  {earlier}", f"second: {later}"),
    )


def scopes(earlier: Access, later: Access, span: str = "elements of global memory") -> SimError:
    """Two atomics on one element, of which one has a scope that does not hold both."""
    return SimError(
        f"{later} touches {span} of {earlier}: the scope of one of them leaves out the other",
        kind="scope",
        where=later.where,
        rule="atomics are atomic among the threads of their scope: .cta is the block, .cluster the cluster (PTX ISA, "
        "Scope, Morally strong operations)",
        fix='leave scope= out, or name one that holds both: "gpu"; in shared memory of a cluster "cluster"',
        details=(f"first:  {earlier}", f"second: {later}"),
    )


def out_of_turn(earlier: Access, later: Access) -> SimError:
    """Two atomics on one element of memory that says that they come in one order."""
    return SimError(
        f"{later} touches elements of global memory of {earlier}: nothing orders the two",
        kind="out-of-turn",
        where=later.where,
        rule="additions to an array of nv.empty(..., in_turn=True) have an order, on which sums of floats depend",
        fix="release that the first one is done (nv.ops.memory.store_release; of a bulk reduction behind "
        "bulk_wait_group(0)), and acquire it before the second one; or leave out in_turn",
        details=(f"first:  {earlier}", f"second: {later}"),
    )


def stale_flag(reader: str, at: Where | None, decided: Where | None, name: str, earlier: Access) -> SimError:
    """``reader`` went on at ``decided`` with what the load at ``at`` found in ``name``: it was there before the release
    that comes after ``earlier``."""
    return SimError(
        f"{reader} goes on with a value of {name} that was there before the store that it should wait for",
        kind="stale-flag",
        where=decided or at,
        rule="a load may read an older value until something orders it after the newer write (PTX ISA, Memory "
        "Consistency Model): what raises a flag must differ from all that it held before, that of the last launch too",
        fix="reset the flag in a launch between, or wait for another value in each launch (a round's number)",
        details=(
            f"read:   load by {reader}" + (f" at {at}" if at else ""),
            f"first:  {earlier}, which nothing orders before what {reader} does next without the newer value",
        ),
    )


def never_written(access: Access, name: str) -> SimError:
    """``name``: of the allocation."""
    return SimError(
        f"{access} reads elements of {name}, and nothing says that they were written before",
        kind="uninitialized",
        where=access.where,
        rule="memory that nv.empty (gpu.alloc) takes holds arbitrary bytes; who adds to it or polls it reads them",
        fix="nv.zeros, or a launch before that writes it; nv.empty(..., arbitrary=True) says that the kernel is right "
        "whatever it holds",
    )


def opaque(access: Access, barrier: Any) -> SimError:
    """An access of the bytes of a `barriers.Mbarrier`."""
    return SimError(
        f"{access} touches the 8 bytes of mbarrier {barrier.name}",
        kind="mbarrier-bytes",
        where=access.where,
        rule="an initialized mbarrier is opaque: nothing but mbarrier operations may touch it until mbarrier.inval "
        "(PTX ISA, Size and alignment of mbarrier object)",
        fix="check the index or the offset: mbarriers lie behind the tiles; or bar.invalidate() before the bytes are "
        "used for something else",
        details=(f"{barrier.name} was initialized at {barrier.where}",),
    )


def error(kind: str, message: str, where: Where | None, rule: str = "", fix: str = "") -> SimError:
    return SimError(message, kind=kind, where=where, rule=rule, fix=fix)


_NAMED = 4
"""Warps that a report names where more of them do the same."""


def _several(names: list[str]) -> str:
    """"warp 3 waits", or "warp 0, warp 1 ... (64 warps) wait"."""
    if len(names) == 1:
        return f"{names[0]} waits"
    if len(names) <= _NAMED:
        return f"{', '.join(names[:-1])} and {names[-1]} wait"
    return f"{', '.join(names[:_NAMED])} ... ({len(names)} warps) wait"


def deadlock(blocked: list[tuple[str, Any]], hints: list[str]) -> SimError:
    """``blocked``: each warp's name and what it waits for (`machine.Waiting`). The place is that of a wait
    whose mbarrier has a part of what its phase needs, else of the first."""
    alike: dict[str, list[str]] = {}  # by what is waited for: the warps, in order
    for name, waiting in blocked:
        at = f" at {waiting.where}" if waiting.where else ""
        alike.setdefault(f"for {waiting.describe()}{at}", []).append(name)
    lines = [f"{_several(names)} {what}" for what, names in alike.items()]
    waits = [waiting for _, waiting in blocked]
    histories = dict.fromkeys(w.barrier.history() for w in waits if w.barrier is not None)
    return SimError(
        f"deadlock: {len(blocked)} warp{'s' if len(blocked) != 1 else ''} wait, and nothing is under way "
        "that could wake one",
        kind="deadlock",
        where=next((w for w in waits if getattr(w.barrier, "partial", False)), waits[0]).where,
        details=(*lines, *histories, *(f"likely: {hint}" for hint in dict.fromkeys(hints))),
        rule="a phase completes when its arrivals and its bytes have all come; a barrier when all its threads have",
        fix="compare the arrival count, the bytes and the phase of the barriers above with who arrives on them",
    )
