"""What warps wait for: mbarriers, the block's registers. (Where they meet: `meetings`.)"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import Where
from nvdsl.hopper import arch
from nvdsl.sim.clocks import Clocks, Edge
from nvdsl.sim.operands import check_tx
from nvdsl.sim.report import error
from nvdsl.sim.rounds import Rounds, Use


class Mbarrier:
    """An initialized mbarrier (PTX ISA, "mbarrier"): ``pending`` arrivals and ``tx`` bytes of phase ``phase``."""

    def __init__(self, name: str, count: int, clocks: Clocks, warp: Any, where: Where | None) -> None:
        self.name, self.count, self.pending, self.tx, self.phase = name, count, count, 0, 0
        self.channel = clocks.channel()
        self.where = where
        self._uses: dict[tuple[str, Where | None], int] = {}
        self.init_actor, self.init_epoch, self.init_name = warp.actor, warp.epoch, warp.name
        self._init_lanes = warp.bits
        warp.touched |= warp.bits
        self._arrived, self.done = Edge(clocks), Edge(clocks)
        self._seen: set[int] = set()
        self._users: dict[Any, Use] = {}  # where something is invalidated
        self._may_end = warp.machine.code.invalidates
        self.rounds = Rounds() if warp.machine.checks else None  # None: who uses it need not be known to keep step
        self.copied: tuple[int, Any] | None = None  # the last copy that completed on it: by the end of which phase, who
        self.record: Any = None  # a `flights.MbarrierRecorder`

    def used_by(self, warp: Any, where: Where | None, checks: bool) -> None:
        """Raise unless the init comes before what the active lanes of ``warp`` do now."""
        self.used(warp, where)
        if not checks or warp.actor in self._seen:
            return
        if not self.known_to(warp):
            raise error(
                "init-sync",
                f"{warp.name} uses mbarrier {self.name}, and nothing says that {self.init_name} has "
                "initialized it",
                where,
                f"mbarrier.init (at {self.where}) is an ordinary store: other threads see it after a barrier",
                "fence_mbarrier_init() after the init, then nv.sync_threads() (in a cluster nv.cluster_sync())",
            )
        if warp.converged():
            self._seen.add(warp.actor)

    def used(self, warp: Any, where: Where | None) -> None:
        if self._may_end:
            self._users[warp] = Use(warp, warp.epoch, warp.bits, where)

    def check_unused(self, warp: Any, where: Where | None) -> None:
        """Raise unless all uses come before what the active lanes of ``warp`` do now: they end its life."""
        for use in self._users.values():
            if use.warp is not warp and warp.clock.generic.unknown(use.warp.actor, use.epoch) & use.lanes:
                raise error(
                    "mbarrier-in-use",
                    f"{warp.name} invalidates mbarrier {self.name}, and nothing says that {use.warp.name} is done "
                    f"with it (at {use.at})",
                    where,
                    "an mbarrier that somebody waits on or arrives at is in use (PTX ISA, mbarrier.inval)",
                    "a barrier of all its users before bar.invalidate()",
                )
        if self.tx:
            raise error("mbarrier-in-use", f"{warp.name} invalidates mbarrier {self.name}, which expects {self.tx} "
                        "bytes", where, "a copy completes on a valid mbarrier (PTX ISA, mbarrier.inval)",
                        "wait for the copy before")  # fmt: skip

    def known_to(self, warp: Any) -> bool:
        """Whether the init comes before what the active lanes do now."""
        if warp.inits.get(self.init_actor, 0) >= self.init_epoch:
            return True
        own = warp.bits if warp.actor == self.init_actor else 0
        return not any(
            clock.generic.unknown(self.init_actor, self.init_epoch) & self._init_lanes & ~own
            or (own & clock.lanes & ~self._init_lanes and clock.generic.unknown(self.init_actor, self.init_epoch))
            for clock in warp.clocks
            if clock.lanes & warp.bits
        )

    def arrive(self, warp: Any, arrivals: int, where: Where | None, relaxed: bool = False) -> None:
        if arrivals > self.pending:
            raise error(
                "over-arrival",
                f"{warp.name} arrives at mbarrier {self.name} ({arrivals} time{'s' if arrivals > 1 else ''}) where "
                "only "
                f"{self.pending} of {self.count} arrivals are pending in phase {self.phase}"
                + (f" (and {self.tx} bytes)" if self.tx else ""),
                where,
                f"init (at {self.where}) said {self.count} arrivals a phase (PTX ISA, mbarrier.arrive)",
                "let one thread arrive (predicate), or initialize the barrier to the number of arrivals",
            )
        self.note("arrivals", where, arrivals)
        self.pending -= arrivals
        if self.rounds is not None:
            for _ in warp.apart():
                self.rounds.arrived(self, warp, where)
        if relaxed:
            for _ in warp.apart():
                self._arrived.add_async(warp.clock)
                self._arrived.happened(warp.clock.before(warp.epoch))
            warp.epoch += 1
        else:
            warp.release(self._arrived, "mbarrier.arrive", where)
        self.complete()

    def arrive_async(self, who: str, arrivals: int, where: Where | None, before: Any) -> None:
        """Arrivals that copies bring when they are over: they order nothing else of the threads that started them, and
        may come in any round. ``before``: what had happened when they were issued (`Clock.before`)."""
        self.rounds = None
        if arrivals > self.pending:
            raise error(
                "over-arrival",
                f"the cp.async copies of {who} arrive at mbarrier {self.name} {arrivals} times where only "
                f"{self.pending} of {self.count} arrivals are pending in phase {self.phase}",
                where,
                f"init (at {self.where}) said {self.count} arrivals a phase (PTX ISA, cp.async.mbarrier.arrive.noinc)",
                "initialize the barrier to the number of threads that copy",
            )
        self.note("arrivals of copies", where, arrivals)
        self.pending -= arrivals
        self._arrived.happened(before)
        self.complete()

    def expect(self, size: int, where: Where | None = None) -> None:
        self.note("bytes expected", where, size)
        self.tx += size
        check_tx(self.name, self.tx, where)
        if self.rounds is not None:
            self.rounds.expected()

    def note(self, what: str, where: Where | None, count: int) -> None:
        """Remember for a report which lines brought how much of what, all phases together."""
        self._uses[what, where] = self._uses.get((what, where), 0) + count

    def sent(self, what: str, warp: Any, lane: int, size: int, where: Where | None) -> None:
        """A lane sends for bytes that complete here."""
        self.note(what, where, size)
        if self.rounds is not None:
            self.rounds.sent(warp, lane, size)

    @property
    def partial(self) -> bool:
        """Whether a part came of what the phase under way needs."""
        return 0 < self.pending < self.count or self.tx < 0 or (self.tx > 0 and self.pending == 0)

    def history(self) -> str:
        """Which lines initialized it, arrived at it, announced bytes and brought them."""
        parts = [f"{count} {what} at {where}" for (what, where), count in self._uses.items()]
        return f"{self.name}: initialized at {self.where}; " + ("; ".join(parts) or "nothing came since")

    def complete_tx(self, size: int, before: Any) -> None:
        """Bytes came; ``before``: what had happened when they were sent for (`Clock.before`)."""
        self.tx -= size
        self._arrived.happened(before)
        self.complete()

    def complete(self) -> None:
        if self.pending or self.tx:
            return
        if self.rounds is not None:
            self.rounds.completed(self, self._arrived)
        self.phase += 1
        self.pending = self.count
        self.done.merge(self._arrived)
        self.done.generic.upto[self.channel] = self.phase
        if self.done.after is not None:
            self.done.after[self.channel] = self.phase
        if self.record is not None:
            self.record.completed()

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity has completed: the one under way has the other."""
        return (self.phase & 1) != parity

    def state(self) -> str:
        bytes_ = f" and {self.tx} bytes" if self.tx else ""
        needed = f"{self.pending} of {self.count} arrivals{bytes_}"
        return f"phase {self.phase} (parity {self.phase & 1}) still needs {needed}"

    def hint(self) -> str:
        """The likely cause of a wait that does not end."""
        if self.tx < 0:
            return f"{-self.tx} more bytes were copied to {self.name} than it was told to expect"
        if self.pending and self.tx == 0 and self.pending == self.count and self.phase == 0:
            return f"nobody ever arrives at {self.name}"
        if self.pending:
            return (
                f"{self.count - self.pending} of {self.count} arrivals came to {self.name} in phase {self.phase}: "
                "a missing arrive, or an init count that is too high, or a wait for a phase that is not the next one"
            )
        return f"{self.tx} bytes that {self.name} expects are in no copy: expect_tx says more than the boxes hold"


class RegisterPool:
    """The registers of a block (setmaxnreg): what its ``threads`` start with is all that there is."""

    def __init__(self, threads: int) -> None:
        self.start = arch.launch_registers(threads)
        self.free = 0
        self._executed: dict[int, list[tuple[Any, int, int, Where | None]]] = {}  # by warp: it, epoch, count, line

    def execute(self, warp: Any, registers: int, where: Where | None) -> None:
        """The four warps of a warpgroup execute the same ones, and meet before the next (PTX ISA, setmaxnreg)."""
        first = warp.index - warp.index % 4
        mine = self._executed.setdefault(warp.index, [])
        for other in range(first, first + 4):
            its = self._executed.get(other, [])
            if other == warp.index:
                continue
            if len(its) > len(mine) and its[len(mine)][2] != registers:
                raise error(
                    "setmaxnreg",
                    f"{warp.name} executes setmaxnreg {registers} where {its[len(mine)][0].name} of its warpgroup "
                    f"executed setmaxnreg {its[len(mine)][2]} at {its[len(mine)][3]}",
                    where,
                    "all warps of a warpgroup execute the same setmaxnreg (PTX ISA, setmaxnreg)",
                    "branch on the warpgroup, not on the warp",
                )
            known = len(its) >= len(mine) and (
                not mine or warp.clock.generic.upto[its[len(mine) - 1][0].actor] >= its[len(mine) - 1][1]
            )
            if warp.machine.checks and not known:
                raise error(
                    "setmaxnreg",
                    f"{warp.name} executes setmaxnreg again, and nothing says that warp {other} of its warpgroup has "
                    f"executed the one before (at {mine[-1][3]})",
                    where,
                    "the warps of a warpgroup synchronize before they execute another setmaxnreg (PTX ISA, setmaxnreg)",
                    "nv.named_barrier_sync(1, 128) of the warpgroup between the two",
                )
        mine.append((warp, warp.epoch, registers, where))
        warp.epoch += 1

    def check_exit(self, block: Any) -> None:
        """All four warps of a warpgroup have executed as many."""
        for first in range(0, len(block.warps), 4):
            counts = [len(self._executed.get(i, ())) for i in range(first, first + 4)]
            if len(set(counts)) > 1:
                most, least = first + counts.index(max(counts)), first + counts.index(min(counts))
                raise error(
                    "setmaxnreg",
                    f"{block.warps[most].name} executes setmaxnreg, and warp {least} of its warpgroup does not",
                    self._executed[most][-1][3],
                    "all warps of a warpgroup execute a setmaxnreg (PTX ISA, setmaxnreg)",
                    "branch on the warpgroup, not on the warp",
                )
