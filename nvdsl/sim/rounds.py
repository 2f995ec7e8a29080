"""Whether those who use an mbarrier keep step with it: a barrier tells a phase from the next one, and no further.

A wait names a phase by its parity. Once the phase after it has completed, too, that parity means one that is still to
come. So the phase after the one that a thread waits for must not complete before the thread has seen it: somebody who
comes after the wait arrives in it. And an arrival counts to whatever phase is under way: who arrives in a phase must
know that the one before is over, else its arrival might have counted to that. Who waits must know that, too: while
that phase is under way, the parity is that of the one before it, and the wait returns at once. All three are asked of
what is known, not of what happened, so that one order of events tells of all.

Who announces bytes without an arrival does so before one of that phase's arrivals, or the phase may complete before it.

Bytes and relaxed arrivals order no access, but tell of what happened before, too: who waits for a multicast knows what
its issuer had waited for (`Clock.after`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nvdsl.errors import Where
from nvdsl.sim.report import error


class Use(NamedTuple):
    """A wait or an arrival by lanes (bit by bit) of a warp. ``lags``: whether it may well be late for a wait: it has
    accessed memory since the wait before, or that was for the phase before. ``issued``: how many wgmmas before it."""

    warp: Any
    epoch: int
    lanes: int
    at: Where | None
    lags: bool = False
    issued: int = 0


class Announced:
    """Bytes expected by ``use``, which is no arrival: ``size``; ``later``: those of copies that were sent after it."""

    __slots__ = ("later", "size", "use")

    def __init__(self, use: Use, size: int) -> None:
        self.use, self.size, self.later = use, size, 0

    def before(self, warp: Any, clock: Any, lanes: int) -> bool:
        """Whether it comes before what lanes of a warp, which have this clock, do now."""
        if self.use.warp is warp and not self.use.lanes & ~lanes:
            return True
        return not clock.generic.unknown(self.use.warp.actor, self.use.epoch) & self.use.lanes


class Rounds:
    """The waits for the last phase that completed, and the arrivals in the one under way and in the one before.
    ``tx``: whether bytes were expected in the phase under way, and in the one before. ``announced``: those of which no
    arrival of the phase under way is known to come after. ``mixed``: the first arrival that may count to another phase;
    it means something once anybody has waited (``seen``)."""

    __slots__ = ("_announced", "_before", "_mixed", "_now", "_seen", "_tx", "_waits")

    def __init__(self) -> None:
        self._waits: dict[Any, Use] = {}
        self._now: dict[Any, Use] = {}
        self._before: dict[Any, Use] = {}
        self._tx = [False, False]
        self._announced: list[Announced] = []
        self._mixed: Exception | None = None
        self._seen = False

    def waits(self, barrier: Any, warp: Any, at: Where | None) -> None:
        """The active lanes are about to see the last phase complete. Who can't know that the one before it is over may
        come while that one is under way, and then the wait names the one before that. Who arrived in the last phase
        knows it. Said at the block's end: a race that comes of it says more."""
        if barrier.phase > 1 and warp.block.early is None and warp not in self._before:
            for _ in warp.apart():
                if not _over(barrier, warp.clock, barrier.phase - 1):
                    warp.block.early = _early(barrier, warp, at)

    def waited(self, barrier: Any, warp: Any, at: Where | None) -> None:
        """The active lanes of a warp have seen the last phase complete."""
        last, accesses = warp.last_wait or (None, warp.accesses)
        lags = last is barrier or accesses < warp.accesses
        self._waits[warp] = Use(warp, warp.epoch, warp.bits, at, lags, _issued(warp))
        warp.last_wait = barrier, warp.accesses
        if not self._seen:
            self._seen = True
            warp.block.mixed = warp.block.mixed or self._mixed

    def expected(self) -> None:
        self._tx[1] = True

    def announced(self, warp: Any, size: int, at: Where | None) -> None:
        """The active lanes expect bytes, and do not arrive."""
        self._announced.append(Announced(Use(warp, warp.epoch, warp.bits, at), size))
        warp.touched |= warp.bits

    def sent(self, warp: Any, lane: int, size: int) -> None:
        """A lane sends for bytes that complete here."""
        for one in self._announced:
            if one.before(warp, warp.of_lane(lane), 1 << lane):
                one.later += size

    def arrived(self, barrier: Any, warp: Any, at: Where | None) -> None:
        """The active lanes of a warp arrive. That they may do so in the phase before is said at the block's end: a race
        that comes of it says more."""
        clock, block = warp.clock, warp.block
        if barrier.phase and self._mixed is None and not _over(barrier, clock, barrier.phase):
            for use in self._before.values():
                if use.warp is not warp and _unknown(clock, use):
                    self._mixed = _mixed(barrier, warp, at, f"{use.warp.name} at {use.at} may be still to come in")
            if self._tx[0]:
                self._mixed = _mixed(barrier, warp, at, "bytes may be still to come in")
            if self._seen:
                block.mixed = block.mixed or self._mixed
        self._now[warp] = Use(warp, warp.epoch, warp.bits, at)
        self._announced = [one for one in self._announced if not one.before(warp, clock, warp.bits)]

    def completed(self, barrier: Any, told: Any) -> None:
        """A phase completes; ``told``: what those know who arrived. Raises where one who waits for the phase before may
        not have seen that yet."""
        for use in self._waits.values():
            if _unknown(told, use) == use.lanes and not self._by_mates(use, told):
                raise use.warp.block.mixed or self._mixed or _lapped(barrier, use)
        for one in self._announced:
            if one.later <= one.size:  # else bytes are pending that come after it
                block = one.use.warp.block
                block.mixed = block.mixed or _announced_late(barrier, one)
        self._announced.clear()
        self._waits.clear()
        self._before, self._now = self._now, {}
        self._tx = [self._tx[1], False]

    def _by_mates(self, use: Use, told: Any) -> bool:
        """Whether another warp of the warpgroup, at the same line, is known to have seen it and to have gone on to a
        wgmma, which is done when all four have come to it. A warp that does nothing but wait for one slot after the
        other need not: it is taken to keep up with those that go on (LLVM's example of roles is written so)."""
        group = [u for u in self._waits.values() if u.at == use.at and u.warp.index // 4 == use.warp.index // 4]
        return any(
            (_issued(u.warp) > u.issued or not use.lags) and _unknown(told, u) != u.lanes for u in group
        )


def _issued(warp: Any) -> int:
    return 0 if warp.mma is None else warp.mma.issued


def _unknown(knowledge: Any, use: Use) -> int:
    """The lanes of a use that a clock or an edge does not know of."""
    after, actor = knowledge.after, use.warp.actor
    if after is not None and after[actor] >= use.epoch:
        return 0
    return knowledge.generic.unknown(actor, use.epoch) & use.lanes


def _over(barrier: Any, clock: Any, phases: int) -> bool:
    """Whether a clock knows that so many phases are over."""
    at = barrier.channel
    return clock.generic.upto[at] >= phases or clock.after is not None and clock.after[at] >= phases


def _lapped(barrier: Any, use: Use) -> Exception:
    return error(
        "lapped-wait",
        f"{use.warp.name} waits for "
        + (f"phase {barrier.phase - 1}" if barrier.phase else "the phase before the first one")
        + f" of mbarrier {barrier.name}, and phase {barrier.phase} can complete before it has seen that",
        use.at,
        "a wait names the phase under way or the one before by its parity (PTX ISA, mbarrier.test_wait): who falls two "
        "phases behind waits for one that is to come",
        "let the waiter arrive, too, at what the next phase's arrivals wait for: count it at the ring's empty "
        "barriers",
    )


def _mixed(barrier: Any, warp: Any, at: Where | None, why: str) -> Exception:
    return error(
        "mixed-rounds",
        f"{warp.name} arrives at mbarrier {barrier.name} in phase {barrier.phase}, and does not know that phase "
        f"{barrier.phase - 1} is over: {why} that one, and this arrival may count to it",
        at,
        "an arrival counts to the phase under way (PTX ISA, mbarrier.arrive)",
        "wait for the phase before, or for who waited for it, before arriving again; or a barrier for each round",
    )


def _announced_late(barrier: Any, late: Announced) -> Exception:
    return error(
        "late-expect",
        f"{late.use.warp.name} expects {late.size} bytes at mbarrier {barrier.name}, and all arrivals of phase "
        f"{barrier.phase} may have come before: then that phase completes without these bytes, and they count to the "
        "next one",
        late.use.at,
        "a phase completes when no arrival and no byte is pending (PTX ISA, mbarrier): who announces bytes does so "
        "while an arrival is to come",
        "arrive_expect_tx(bytes), or expect_tx(bytes) before the thread's own arrive()",
    )


def _early(barrier: Any, warp: Any, at: Where | None) -> Exception:
    last = barrier.phase - 1
    return error(
        "early-wait",
        f"{warp.name} waits for phase {last} of mbarrier {barrier.name}, and does not know that phase {last - 1} is "
        f"over: while it is under way, a wait for the parity of phase {last} returns at once, as that of "
        + (f"phase {last - 2}" if last > 1 else "the phase before the first one"),
        at,
        "a wait names the phase under way or the one before by its parity (PTX ISA, mbarrier.test_wait)",
        "wait for every phase of the barrier in turn, also for those whose data is another one's; or let those who "
        "wait for them say so first, at a barrier or an mbarrier",
    )
