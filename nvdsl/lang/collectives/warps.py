"""Collectives of several warps: those of a block, of a part of it, or of the blocks of a cluster.

First the lanes of each warp combine what they have. Each warp then leaves the result in shared memory, in that of all
blocks if there are several. Behind a barrier each thread takes and combines the results of all warps, in their order.
"""

from __future__ import annotations

from nvdsl.errors.records import dataclass
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.lang.array import Array
from nvdsl.lang.collectives import words
from nvdsl.lang.collectives.lanes import Lanes
from nvdsl.lang.collectives.operations import Leaves, Operation
from nvdsl.lang.collectives.scratch import Barrier, Scratch
from nvdsl.ops.cluster import cluster_rank
from nvdsl.ops.pointer import i32, under
from nvdsl.ops.warp import lane_id, linear_thread_id, warp_id
from nvdsl.values import select
from nvdsl.values.traced import Value
from nvdsl.values.typing import Int

_DIRECT = 8
"""So many warps' results are taken by each thread; more are spread over the lanes of each warp."""


@dataclass(frozen=True)
class Warps:
    """``warps`` warps, in each of ``blocks`` blocks. A block has ``groups`` such groups, this one being ``group``."""

    what: str
    warps: int
    barrier: Barrier
    scratch: Array | None = None
    groups: int = 1
    group: Int = 0
    blocks: int = 1

    @property
    def size(self) -> int:
        return self.blocks * self.warps * WARP_SIZE

    @property
    def _parts(self) -> int:
        return self.blocks * self.warps

    def _warp(self) -> Value:
        """This warp's number in the group."""
        warp = warp_id() if self.groups == 1 else warp_id() % self.warps
        return warp if self.blocks == 1 else cluster_rank() * self.warps + warp

    def position(self) -> Value:
        thread = linear_thread_id() if self.groups == 1 else linear_thread_id() % (self.warps * WARP_SIZE)
        return thread if self.blocks == 1 else cluster_rank() * (self.warps * WARP_SIZE) + thread

    def reduce(self, op: Operation, x: Leaves) -> Leaves:
        """The leaves of all threads of the group, combined in their order."""
        found = Lanes().reduce(op, x)
        if self._parts == 1:
            return found
        scratch = self._exchanged(found, 0)
        if self._parts <= _DIRECT:
            return _folded(op, _all_parts(scratch, found, self._parts))
        return self._over_lanes(op, scratch, found)

    def _exchanged(self, x: Leaves, lane: int) -> Scratch:
        """Scratch in which each warp has left what its ``lane`` has. With several blocks, all lanes have it."""
        rows = sum(map(words.count, x))
        scratch = Scratch.of(self.scratch, rows, self._parts, self.groups, self.group, self.what)
        self.barrier.before(self.scratch is not None)
        self._leave(scratch, x, self._warp(), lane)
        self.barrier.between()
        return scratch

    def _leave(self, scratch: Scratch, x: Leaves, place: Int, lane: int) -> None:
        if self.blocks > 1:  # a lane for each block: all of them have the same
            with under(lane_id() < self.blocks):
                for row, word in enumerate(_words(x)):
                    scratch.leave_at(lane_id(), row, place, word)
        else:
            with under(lane_id() == lane):
                for row, word in enumerate(_words(x)):
                    scratch.leave(row, place, word)

    def _over_lanes(self, op: Operation, scratch: Scratch, like: Leaves) -> Leaves:
        """Each lane combines a few parts that follow each other, and the lanes what they have then."""
        parts = self._parts
        each = -(-parts // WARP_SIZE)
        lanes = -(-parts // each)
        first = lane_id() % lanes * each if lanes & (lanes - 1) == 0 else lane_id() * each
        x = self._run(op, scratch, like, first, each)
        if lanes & (lanes - 1) == 0:
            return Lanes(lanes).reduce(op, x)
        return Lanes().broadcast(Lanes().scan(op, x), lanes - 1)  # what the lanes behind the last one have isn't used

    def _run(self, op: Operation, scratch: Scratch, like: Leaves, first: Value, each: int) -> Leaves:
        """``each`` parts from ``first`` on, as far as there are so many, combined."""
        parts = self._parts
        x = _part(scratch, like, _at_most(first, parts))
        for k in range(1, each):
            more = op.combine(x, _part(scratch, like, _at_most(first + k, parts)))
            x = more if parts % each == 0 else _where(first + k < parts, more, x)
        return x

    def scan(self, op: Operation, x: Leaves) -> Leaves:
        """The leaves of this thread and of those before it in the group, combined in their order."""
        mine = Lanes().scan(op, x)
        if self._parts == 1:
            return mine
        op = op.after or op
        return _where(self._warp() == 0, mine, op.combine(self._before(op, mine), mine))

    def exclusive(self, op: Operation, x: Leaves) -> tuple[Leaves, Value]:
        """What the threads before this one have together, and whether there is none."""
        mine = Lanes().scan(op, x)
        before, first = Lanes().shifted(mine), lane_id() == 0
        if self._parts == 1:
            return before, first
        op = op.after or op
        others = self._before(op, mine)
        found = _where(first, others, op.combine(others, before))
        return _where(self._warp() == 0, before, found), (self._warp() == 0) & first

    def _before(self, op: Operation, scanned: Leaves) -> Leaves:
        """What the warps before this one have together; anything in the first one."""
        last = WARP_SIZE - 1
        total = scanned if self.blocks == 1 else Lanes().broadcast(scanned, last)
        scratch, warp = self._exchanged(total, last), self._warp()
        if self._parts <= _DIRECT:
            parts = _all_parts(scratch, total, self._parts)
            found = so_far = parts[0]
            for k in range(1, self._parts - 1):
                so_far = op.combine(so_far, parts[k])
                found = _where(warp > k, so_far, found)
            return found
        each = -(-self._parts // WARP_SIZE)
        x = self._run(op, scratch, total, lane_id() * each, each)
        previous = select.max(warp - 1, 0)
        run = previous // each
        if each == 1:
            return Lanes().broadcast(Lanes().scan(op, x), run)
        found = _part(scratch, total, run * each)
        runs = Lanes().broadcast(Lanes().scan(op, x), select.max(run - 1, 0))
        found = _where(run > 0, op.combine(runs, found), found)
        for k in range(1, each):
            at = run * each + k
            more = op.combine(found, _part(scratch, total, _at_most(at, self._parts)))
            found = _where(at < warp, more, found)
        return found

    def broadcast(self, x: Leaves, source: Int) -> Leaves:
        """The leaves of the group's thread ``source``."""
        if self._parts == 1:
            return Lanes().broadcast(x, source)
        rows = sum(map(words.count, x))
        scratch = Scratch.of(self.scratch, rows, 1, self.groups, self.group, self.what)
        self.barrier.before(self.scratch is not None)
        with under(self.position() == i32(source)):
            for row, word in enumerate(_words(x)):
                if self.blocks == 1:
                    scratch.leave(row, 0, word)
                else:
                    for rank in range(self.blocks):
                        scratch.leave_at(rank, row, 0, word)
        self.barrier.between()
        return _part(scratch, x, 0)


def _words(x: Leaves) -> list[Value]:
    return [word for leaf in x for word in words.split(leaf)]


def _part(scratch: Scratch, like: Leaves, place: Int) -> Leaves:
    """What was left at a place."""
    return _joined([scratch.take(row, place) for row in range(sum(map(words.count, like)))], like)


def _all_parts(scratch: Scratch, like: Leaves, count: int) -> list[Leaves]:
    rows = [scratch.take_all(row, count) for row in range(sum(map(words.count, like)))]
    return [_joined([row[place] for row in rows], like) for place in range(count)]


def _joined(taken: list[Value], like: Leaves) -> Leaves:
    rest = iter(taken)
    return [words.join([next(rest) for _ in range(words.count(leaf))], leaf) for leaf in like]


def _folded(op: Operation, parts: list[Leaves]) -> Leaves:
    """Neighbours two by two, then these: fewer operations wait for each other than from first to last."""
    while len(parts) > 1:
        pairs = [op.combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def _where(condition: Value, a: Leaves, b: Leaves) -> Leaves:
    return [select.select(condition, x, y) for x, y in zip(a, b, strict=True)]


def _at_most(place: Value, count: int) -> Value:
    return select.min(place, count - 1)
