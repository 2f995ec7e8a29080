"""Where warps meet: the block's barriers, and the cluster's.

A collective of nvdsl's has barriers of its own: the ops with the attribute `OF_COLLECTIVE`. All warps that meet at one
of these come from the same op. Two calls in two branches would meet by their number, and take each other's words.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import SimError, Where
from nvdsl.ir.collectives import OF_COLLECTIVE
from nvdsl.ir.operands import string
from nvdsl.sim.clocks import Clocks, Edge
from nvdsl.sim.report import error


class Call:
    """The barrier of one collective in the program. ``group``: "block", "64 threads", "cluster"."""

    def __init__(self, group: str) -> None:
        self.group = group


def call(op: Any) -> Call | None:
    """Whose barrier an op is; None: the program's."""
    mark = string(op, OF_COLLECTIVE)
    return Call(mark.removesuffix(" before").removesuffix(" shared")) if mark else None


class Meeting:
    """Who came first to the use of a barrier that is under way."""

    def __init__(self) -> None:
        self.first = ""
        self._call: Call | None = None
        self._where: Where | None = None

    def came(self, warp: Any, mine: Call | None, where: Where | None, others: int) -> None:
        """``others``: how many have come before."""
        if not others:
            self._call, self.first, self._where = mine, warp.name, where
        elif mine is not self._call and warp.machine.checks:
            raise self._apart(warp, mine, where)

    def _apart(self, warp: Any, mine: Call | None, where: Where | None) -> SimError:
        def what(of: Call | None) -> str:
            return "a barrier" if of is None else f"a collective of the {of.group}"

        other = "another one" if mine is not None and self._call is not None else what(self._call)
        return error(
            "divergent-collective",
            f"{warp.name} comes to {what(mine)}, and {self.first} meets it in {other} (at {self._where})",
            where,
            "all threads of a group call its collectives together, and in one order",
            "call it outside of the `if`, with what each branch has computed",
        )


class NamedBarrier:
    """``barrier.sync id, n``: completes when ``n`` threads have arrived."""

    def __init__(self, name: str, clocks: Clocks) -> None:
        self.name, self._clocks = name, clocks
        self.generation, self.arrived, self.threads = 0, 0, 0
        self._meeting = Meeting()
        self._edge, self.done = Edge(clocks), Edge(clocks)
        self.last: Where | None = None  # the line of the last arrival
        self._lines: dict[Where | None, int] = {}
        self._before: list[tuple[int, int, str]] = []  # who came to the generation before: actor, epoch, name
        self._now: list[tuple[int, int, str]] = []
        self.votes: dict[int, bool] = {}  # of the generations that vote: this one, and the one before

    def vote(self, condition: bool) -> int:
        """A warp that is about to arrive votes. Returns the generation, whose result ``votes`` has when it is over."""
        self.votes = {g: v for g, v in self.votes.items() if g >= self.generation - 1}
        self.votes[self.generation] = self.votes.get(self.generation, False) or condition
        return self.generation

    def history(self) -> str:
        """Which lines arrived at it."""
        parts = [f"{count} times at {where}" for where, count in self._lines.items()]
        return f"{self.name}: warps arrived {', '.join(parts)}"

    def _check_order(self, warp: Any, where: Where | None) -> None:
        """The generation before must be known to be over: else another schedule counts this arrival to that one."""
        for actor, epoch, name in self._before:
            if actor != warp.actor and warp.clock.generic.upto[actor] < epoch:
                raise error(
                    "barrier-reuse",
                    f"{warp.name} arrives at {self.name}, and nothing says that it is not still that which {name} and "
                    f"others used before ({self.threads} threads)",
                    where,
                    "a barrier is used again by those who know that its last use is over (PTX ISA, barrier)",
                    "count all threads that come to it, or use another number (1 to 15)",
                )

    def arrive(self, warp: Any, threads: int, where: Where | None, call: Call | None = None) -> int:
        """One warp arrives; returns the generation to wait for."""
        if warp.machine.checks:
            self._check_order(warp, where)
        self._meeting.came(warp, call, where, self.arrived)
        self.last = where
        self._lines[where] = self._lines.get(where, 0) + 1
        if self.arrived and threads != self.threads:
            raise error(
                "barrier-count",
                f"{warp.name} names {threads} threads at {self.name}, {self._meeting.first} named {self.threads}",
                where,
                "all threads of one barrier name the same number (PTX ISA, barrier)",
                "pass the same count everywhere",
            )
        self.threads = threads
        self.arrived += 32 if threads % 32 == 0 else warp.count
        self._now.append((warp.actor, warp.epoch, warp.name))
        warp.release(self._edge, "barrier.arrive", where)
        mine = self.generation
        if self.arrived > threads:
            raise error("over-arrival", f"{self.arrived} threads at {self.name} of {threads}", where,
                        "a barrier completes when exactly its threads have arrived (PTX ISA, barrier)")  # fmt: skip
        if self.arrived == threads:
            self.generation += 1
            self.arrived = 0
            self.done, self._edge = self._edge, Edge(self._clocks)
            self._before, self._now = self._now, []
        return mine


class ClusterBarrier:
    """``barrier.cluster``: all warps of the cluster arrive, then may wait. Even a relaxed arrival tells of mbarriers
    whose init was fenced (``inits``: up to which epoch, by warp)."""

    def __init__(self, warps: int, clocks: Clocks) -> None:
        self.warps, self._clocks = warps, clocks
        self.phase, self.arrived = 0, 0
        self._meeting = Meeting()
        self._edge, self.done = Edge(clocks), Edge(clocks)
        self.inits: dict[int, int] = {}

    def arrive(self, warp: Any, relaxed: bool, where: Where | None, call: Call | None = None) -> None:
        if warp.cluster_phase is not None:
            raise error(
                "cluster-barrier",
                f"{warp.name} arrives at the cluster's barrier again, without having waited",
                where,
                "a thread arrives once until the barrier completes: when those who arrived have waited (PTX ISA, "
                "barrier.cluster)",
                "a wait for each arrival: nv.cluster_wait()",
            )
        self._meeting.came(warp, call, where, self.arrived)
        warp.cluster_phase = self.phase
        self.arrived += 1
        if warp.init_fence:
            self.inits[warp.actor] = warp.init_fence
        if relaxed:
            self._edge.add_beginning(warp.clock)
            self._edge.happened(warp.clock.before(warp.epoch))
        else:
            warp.meet(warp.bits)
            warp.release(self._edge, "barrier.cluster.arrive", where)
        if self.arrived == self.warps:
            self.phase += 1
            self.arrived = 0
            self.done.merge(self._edge)
