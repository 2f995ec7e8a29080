"""Collectives of a warp's lanes: butterflies of shuffles, ``redux.sync`` and votes.

PTX ISA, ``shfl.sync``, ``redux.sync``, ``vote.sync``. With ``width`` lanes a reduction takes log2(width) steps, in each
of which a lane and its partner exchange what their halves have. So all lanes get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from nvdsl.errors.records import dataclass
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.lang.collectives import words
from nvdsl.lang.collectives.operations import MIN, Leaves, Operation, index_of
from nvdsl.mlir.dialects import nvvm
from nvdsl.ops.pointer import i32
from nvdsl.ops.warp import (
    ALL_LANES,
    ballot,
    lane_id,
    membermask,
    shuffle,
    shuffle_up,
    shuffle_xor,
    vote_all,
    vote_any,
)
from nvdsl.values import dtypes
from nvdsl.values.bits import popc
from nvdsl.values.select import select
from nvdsl.values.traced import Value, wrap
from nvdsl.values.typing import Int


@dataclass(frozen=True)
class Lanes:
    """Groups of ``width`` lanes, a power of two, of a warp. The lanes in ``mask``, whole groups, are there."""

    width: int = WARP_SIZE
    mask: int = ALL_LANES

    @property
    def size(self) -> int:
        return self.width

    @property
    def alone(self) -> bool:
        """Whether the lanes that are there are one group, so that an instruction of the mask is the group's."""
        return self.mask.bit_count() == self.width

    def position(self) -> Value:
        """The lane's number in its group."""
        return lane_id() % self.width

    def reduce(self, op: Operation, x: Leaves) -> Leaves:
        """The leaves of all lanes of the group, combined in the order of the lanes."""
        if self.width == 1:
            return x
        if op.vote:
            return [self._vote(op.vote, x[0])]
        if op.extreme is not None:
            return self._extreme_and_index(op.extreme, *x)
        if op.redux is not None and self.alone and all(map(_fits_redux, x)):
            return [self._redux(op.redux, leaf) for leaf in x]
        distance = 1
        while distance < self.width:
            other = self._partners(x, distance)
            x = op.combine(x, other) if op.symmetric else self._in_order(op, x, other, distance)
            distance *= 2
        return x

    def _partners(self, x: Leaves, distance: int) -> Leaves:
        return move(x, lambda word: shuffle_xor(word, distance, self.mask))

    def _in_order(self, op: Operation, mine: Leaves, other: Leaves, distance: int) -> Leaves:
        """The lower lane's leaves come first, on both sides."""
        lower = (lane_id() & distance) == 0
        first = [select(lower, a, b) for a, b in zip(mine, other, strict=True)]
        return op.combine(first, [select(lower, b, a) for a, b in zip(mine, other, strict=True)])

    def _extreme_and_index(self, op: Operation, value: Value, index: Value) -> Leaves:
        """First the extreme, then the least index of the lanes that have it."""
        (extreme,) = self.reduce(op, [value])
        return [extreme, *self.reduce(MIN, [index_of(extreme, value, index)])]

    def _vote(self, kind: str, condition: Value) -> Value:
        if self.alone:
            return (vote_any if kind == "any" else vote_all)(condition, self.mask)
        group = (1 << self.width) - 1
        mine = ballot(condition, self.mask) >> (lane_id() - self.position()) & group
        return mine != 0 if kind == "any" else mine == group

    def _redux(self, kinds: tuple[str, str], x: Value) -> Value:
        kind = getattr(nvvm.ReductionKind, kinds[not x.dtype.signed])
        wide = dtypes.i32 if x.dtype.signed else dtypes.u32
        return x.dtype(wrap(nvvm.redux_sync(wide(x), kind, membermask(self.mask)), wide))

    def scan(self, op: Operation, x: Leaves) -> Leaves:
        """The leaves of this lane and of those before it in the group, combined in their order."""
        if op.after is not None:
            return [self._count(leaf) for leaf in x]
        distance = 1
        while distance < self.width:
            before = self.shifted(x, distance)
            inside = self.position() >= distance
            x = [select(inside, a, b) for a, b in zip(op.combine(before, x), x, strict=True)]
            distance *= 2
        return x

    def _count(self, x: Value) -> Value:
        """Of how many lanes of the group, up to this one, ``x`` is not 0."""
        place = self.position()
        mine = ((i32(2) << place) - 1) << (lane_id() - place)
        return popc(ballot(x != 0, self.mask) & mine)

    def shifted(self, x: Leaves, distance: int = 1) -> Leaves:
        """The leaves of the lane ``distance`` before this one; anything in the group's first lanes."""
        return move(x, lambda word: shuffle_up(word, distance, self.mask))

    def exclusive(self, op: Operation, x: Leaves) -> tuple[Leaves, Value]:
        """What the lanes before this one have together, and whether there is none."""
        return self.shifted(self.scan(op, x)), self.position() == 0

    def broadcast(self, x: Leaves, source: Int) -> Leaves:
        """The leaves of the group's lane ``source``."""
        lane = i32(source) if self.width == WARP_SIZE else lane_id() - self.position() + i32(source)
        return move(x, lambda word: shuffle(word, lane, self.mask))


def _fits_redux(x: Value) -> bool:
    return x.dtype.kind == "int" and x.dtype.bits <= 32 and not x.shape


def move(x: Leaves, one: Callable[[Value], Value]) -> Leaves:
    """Each leaf after ``one`` took each of its words elsewhere."""
    return [words.join([one(word) for word in words.split(leaf)], leaf) for leaf in x]
