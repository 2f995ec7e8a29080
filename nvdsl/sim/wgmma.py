"""wgmma: asynchronous. A warpgroup's instruction is four warps' parts of 16 rows, issued by each warp in its time.

A group is the warpgroup's (PTX ISA, "wgmma.commit_group"): a wait lasts until all four warps have issued the group's
wgmmas, and then they are all done. Operands are read at that moment (late), unless the policy is eager. Fragments:
PTX ISA, "Register Fragments and Shared Memory Matrix Layouts".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import matrix, shadow, undefined
from nvdsl.sim.clocks import ALL_LANES
from nvdsl.sim.machine import Waiting
from nvdsl.sim.memory import SHARED_BASE
from nvdsl.sim.records import Touch
from nvdsl.sim.registers import Given, Struct, fragment
from nvdsl.sim.report import Access, error
from nvdsl.sim.undefined import Undefined
from nvdsl.sim.wgmma_registers import Accumulator, Kind

_ALL = Touch(0, 0, ALL_LANES)


class Warpgroup:
    """Four warps. ``sequence``: the wgmmas that its first warp to come there issued, in order, with the operands that
    are the warpgroup's: descriptors, and whether it adds."""

    def __init__(self, w: Any) -> None:
        self.sequence: list[tuple[Kind, Any]] = []
        self.members: dict[int, State] = {}
        self.channel = w.block.cluster.clocks.wgmma(w.actor - w.index % 4)

    def history(self) -> str:
        """How far each warp came."""
        return "wgmma groups committed: " + ", ".join(f"{s.committed} by {s.warp.name}" for s in self.members.values())

    def committed(self) -> int:
        """Groups that all four warps have committed."""
        return min(s.committed for s in self.members.values()) if len(self.members) == 4 else 0


class State:
    """One warp's wgmmas. ``committed``: groups so far; ``groups``: those not known to be done, oldest first."""

    def __init__(self, warp: Any) -> None:
        self.warp = warp
        self.fences, self.committed, self.issued = 0, 0, 0
        self.open: list[Accumulator] = []
        self.groups: list[list[Accumulator]] = []
        self.in_flight: set[Accumulator] = set()
        groups = warp.block.warpgroups
        if warp.index // 4 not in groups:
            groups[warp.index // 4] = Warpgroup(warp)
        self.warpgroup: Warpgroup = groups[warp.index // 4]
        self.warpgroup.members[warp.index % 4] = self
        self.undefined: Undefined | None = None  # what the last wgmma made so that read what nothing had written
        self.channel = self.warpgroup.channel

    def issue(self, kind: Kind, a: Any, b: int, before: Any, rows: Any = None) -> Accumulator:
        """``rows``: those of ordinary registers, given as A or as the accumulator, that are undefined; None where none
        are."""
        w = self.warp
        self._check(kind, before, {"A": a if a.__class__ is int else None, "B": b, "scale-d": before is not None})
        if a.__class__ is not int:
            a = fragment(a, kind.a_type)
        if before is not None and before.__class__ is not Accumulator:
            before = Given(before, kind)
        read = self._read(kind, a, b) if w.machine.checks else None
        if w.record is not None:
            self._record(kind, a, b)
        made = Accumulator(w, kind, a, b, before)
        if w.undefined or read is not None:
            self._pass_on(made, read, rows)
        self.open.append(made)
        self.in_flight.add(made)
        if w.machine.eager:
            made.compute()
        return made

    def _check(self, kind: Kind, before: Any, operands: dict[str, Any]) -> None:
        w = self.warp
        if not w.converged() or w.count != 32:
            raise error("wgmma-converged", f"wgmma in {w.name} with only some of its lanes", kind.at,
                        "all threads of a warpgroup execute a wgmma together (PTX ISA, wgmma.mma_async)")  # fmt: skip
        sequence = self.warpgroup.sequence
        if self.issued == len(sequence):
            sequence.append((kind, operands))
        elif sequence[self.issued][0] is not kind:
            raise error(
                "wgmma-converged",
                f"{w.name} executes the wgmma here where other warps of its warpgroup executed the one at "
                f"{sequence[self.issued][0].at}",
                kind.at,
                "the four warps of a warpgroup execute the same wgmma (PTX ISA, wgmma.mma_async)",
                "branch on the warpgroup, not on the warp",
            )
        elif sequence[self.issued][1] != operands:
            others = sequence[self.issued][1]
            name = next(name for name, x in operands.items() if x != others[name])
            raise error(
                "wgmma-operands",
                f"{w.name} executes this wgmma with another {name} than other warps of its warpgroup: "
                f"{_shown(operands[name])}, not {_shown(others[name])}",
                kind.at,
                "a wgmma's descriptors and scale-d are the same in the four warps of a warpgroup (PTX ISA, "
                "wgmma.mma_async, matrix descriptor)",
                "compute tiles and descriptors from the warpgroup (nv.warpgroup_id()), not from the warp or the lane",
            )
        self.issued += 1
        written = before.stamp if before.__class__ is Struct else getattr(before, "read_at", -1)
        if w.machine.checks and (self.fences == 0 or written >= self.fences):
            what = "before the first wgmma" if self.fences == 0 else "after its accumulator's registers were touched"
            raise error(
                "wgmma-fence",
                f"{w.name} issues a wgmma without a wgmma.fence {what}",
                kind.at,
                "wgmma.fence orders register accesses before the wgmmas that use them (PTX ISA, wgmma.fence)",
                "nv.wgmma_fence() before the wgmma",
            )
        if w.machine.checks and before is not None:
            self._check_before(kind, before)

    def _check_before(self, kind: Kind, before: Any) -> None:
        """The accumulator that a wgmma adds to."""
        if before.__class__ is Accumulator:
            if before.kind.shape != kind.shape and before.fences == self.fences and before in self.in_flight:
                raise error(
                    "wgmma-shape",
                    f"{self.warp.name} adds a wgmma of shape {kind.shape} to the accumulator of the one of shape "
                    f"{before.kind.shape} at {before.kind.at}, with no wgmma.fence between the two",
                    kind.at,
                    "only wgmmas of one shape are ordered in their accumulator by themselves (PTX ISA, wgmma.fence)",
                    "nv.wgmma_fence() between the two",
                )
        elif any(x is None for x in before):
            missing = [i for i, x in enumerate(before) if x is None]
            raise error(
                "undefined-accumulator",
                f"{self.warp.name} adds a wgmma to an accumulator of which {len(missing)} of {len(before)} registers "
                f"hold nothing (register {missing[0]} is the first)",
                kind.at,
                "with scale-d 1 a wgmma adds to the registers of D: something must have written them",
                "start the sum with scale_d=False, or with zeros, as nv.accumulator does",
            )

    def _pass_on(self, made: Accumulator, read: Undefined | None, rows: Any) -> None:
        found = read
        if made.before.__class__ is Accumulator and made.before.undefined is not None:
            found = made.before.undefined.joined(found)
        if rows is not None and self.undefined is not None:
            found = self.undefined._replace(rows=rows, columns=np.zeros(made.kind.n, bool)).joined(found)
        made.undefined = found
        if found is not None:
            self.undefined = self.warp.undefined = found

    def _read(self, kind: Kind, a: Any, b: int) -> Undefined | None:
        w = self.warp
        tracker = w.block.shadow
        access = Access(w.name, "wgmma reads B", "wgmma", kind.at)
        operands, complete = [(b, kind.n, kind.b_major, access)], True
        if a.__class__ is int:
            operands.append((a, 64, kind.a_major, Access(w.name, "wgmma reads A", "wgmma", kind.at)))
        for descriptor, rows, major, who in operands:
            span = _span(descriptor, rows, major, tracker.shift)
            _check_bounds(w, span, tracker.shift, who)
            source = kind.sources[who is access]
            tile = None if source.tile is None else w.frame[source.tile]
            w.machine.code.tiles.check_operand(descriptor, rows, major, who, tile)
            for _ in w.apart():
                tracker.compare(span, w.clock, who, _ALL, False)
            tracker.note(span, who, self.channel, self.committed + 1, _ALL, False, needed=0)
            complete = complete and not span[0] & ~tracker.written
        return None if complete else undefined.of_operands(w, kind, a, b, (operands[-1][-1], access))

    def _record(self, kind: Kind, a: Any, b: int) -> None:
        w = self.warp
        reads = []
        if w.index % 4 == 0:  # the four read the same
            reads = [_span(b, kind.n, kind.b_major, 4)[1:3]]
            if a.__class__ is int:
                reads.append(_span(a, 64, kind.a_major, 4)[1:3])
        ranges = [(low << 4, high << 4) for low, high in reads]
        w.record.wgmma(self.committed + 1, f"{kind.shape} {kind.a_type}", ranges, kind.at)

    def fence(self) -> None:
        self.fences += 1

    def commit(self, at: Where | None) -> None:
        self.groups.append(self.open)
        self.open = []
        self.committed += 1
        machine, record = self.warp.machine, self.warp.record
        if record is not None:
            record.committed(self.committed, machine.eager, at)
        if machine.options.delivery == "random" and machine.random.random() < 0.5:
            self.compute(self.committed)
            if record is not None:
                record.computed(self.committed)

    def wait(self, pending: int, at: Where | None) -> Iterator[Any]:
        done = self.committed - pending
        if done <= 0:
            return
        warpgroup = self.warpgroup
        if warpgroup.committed() < done:
            yield Waiting(
                lambda: warpgroup.committed() >= done,
                lambda: f"wgmma group {done}, which {self._behind(done)}",
                at,
                lambda: "a wgmma is executed by all four warps of a warpgroup",
                barrier=warpgroup,
            )
        for member in warpgroup.members.values():
            member.compute(done)
        if self.warp.record is not None:
            self.warp.record.retired(done, [m.warp.record for m in warpgroup.members.values()], at)
        while len(self.groups) > pending:
            for one in self.groups.pop(0):
                self.in_flight.discard(one)
        self.warp.learn([(self.channel, done)])

    def compute(self, done: int) -> None:
        """Carry out the groups up to number ``done``."""
        for group in self.groups[: len(self.groups) - (self.committed - done)]:
            for one in group:
                if one.value is None:
                    one.compute()

    def _behind(self, done: int) -> str:
        missing = [str(i) for i in range(4) if i not in self.warpgroup.members]
        late = [str(i) for i, s in self.warpgroup.members.items() if s.committed < done]
        return f"warps {', '.join(missing + late)} of the warpgroup have not issued"


def _shown(x: Any) -> str:
    return f"the tile at byte {((x & 0x3FFF) << 4) - SHARED_BASE}" if x.__class__ is int and x > 1 else str(x)


def state(w: Any) -> State:
    if w.mma is None:
        w.mma = State(w)
    return w.mma


@functools.lru_cache(maxsize=1 << 14)
def _span(descriptor: int, rows: int, major: str, shift: int) -> Any:
    return shadow.intervals(matrix.operand_footprint(descriptor, rows, major), shift)


def _check_bounds(w: Any, span: Any, shift: int, who: Access) -> None:
    memory = w.block.smem
    if span[1] << shift < memory.reserved or span[2] << shift > memory.size:
        raise error(
            "out-of-bounds",
            f"{who} from bytes {(span[1] << shift) - memory.reserved}..{(span[2] << shift) - memory.reserved - 1} of "
            f"shared memory, of which there are {memory.size - memory.reserved}",
            who.where,
            "an operand lies inside of the block's shared memory",
            "check the descriptor's start address, LBO and SBO",
        )
