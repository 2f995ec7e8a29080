"""What happened to an element of global memory: its last ordinary write, and every read and atomic access since.

An ordinary write comes after all that was there before (else it is a race), so that whoever comes after it comes after
those, too. Reads have no order among each other, nor have atomics: all of them are kept, but of one thread only the
last of a kind. Histories are shared and numbered: elements that were accessed together have the same number.
"""

from __future__ import annotations

from typing import Any

from nvdsl.sim.records import Touches
from nvdsl.sim.report import Access

NOTHING, UNDEFINED = 0, 1
"""Numbers of histories, and of the writes that they begin with: what the caller gave, and what nobody ever wrote."""


class Touch:
    """One access: by ``actor`` of ``cluster``, in its ``epoch``.

    ``modifies``: a read-modify-write. ``place``: (cluster, rank of the block); ``domain``: as much of it as those have
    in common who are in an atomic's scope. ``parts``: which lanes accessed what, as long as that matters; then None, as
    for what is asynchronous.
    """

    __slots__ = (
        "access", "actor", "cluster", "domain", "epoch", "is_async", "is_atomic", "modifies", "parts", "place",
        "writes",
    )  # fmt: skip

    def __init__(
        self, block: Any, actor: int, epoch: int, access: Access, writes: bool, modifies: bool = False,
        domain: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.cluster, self.actor, self.epoch, self.access = block.cluster.number, actor, epoch, access
        self.place: tuple[int, ...] = (self.cluster, block.rank)
        self.writes, self.modifies, self.domain = writes, modifies, domain
        self.is_atomic = access.kind in ("atomic", "reduction")
        self.is_async = access.kind in ("copy", "store", "reduction")
        self.parts: Touches | None = None if self.is_async else Touches()

    def conflicts(self, later: Touch, in_turn: bool = False) -> bool:
        """Whether the two need an order: two reads don't, nor two atomics whose scopes hold both, but for two writes of
        memory to which is added ``in_turn``."""
        if not (self.writes or later.writes):
            return False
        if in_turn and self.writes and later.writes:
            return True
        return not (self.is_atomic and later.is_atomic and self._holds(later) and later._holds(self))

    def _holds(self, other: Touch) -> bool:
        return other.place[: len(self.domain)] == self.domain

    def says_less(self, later: Touch) -> bool:
        """Whether who comes after the later one, of the same thread, need not be compared with this one."""
        return (
            self.actor == later.actor
            and self.cluster == later.cluster
            and self.writes == later.writes
            and self.modifies == later.modifies
            and self.access.kind == later.access.kind
            and self.domain == later.domain
        )


class Histories:
    """Of one allocation. ``touches``: all accesses by number. ``writes``: of each history the write it begins with."""

    def __init__(self) -> None:
        self.touches: list[Any] = [None, None]
        self.writes: list[int] = [NOTHING, UNDEFINED]
        self._since: list[tuple[int, ...]] = [(), ()]
        self._conflicting: list[bool] = [False, False]
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}

    def __len__(self) -> int:
        return len(self.writes)

    def keep(self, live: list[int]) -> dict[int, int]:
        """Forget all histories but these: their new numbers by the old ones."""
        old = [(self.writes[number], self._since[number]) for number in live]
        del self.writes[2:], self._since[2:], self._conflicting[2:]
        self._numbers.clear()
        return {
            number: number if number <= UNDEFINED else self._number(*history)
            for number, history in zip(live, old, strict=True)
        }

    def add(self, touch: Touch) -> int:
        self.touches.append(touch)
        return len(self.touches) - 1

    def since(self, history: int) -> tuple[int, ...]:
        """The reads and atomics after the history's write."""
        return self._since[history]

    def has_writes_since(self, history: int) -> bool:
        return self._conflicting[history]

    def after(self, history: int, number: int) -> int:
        """The history with one more access."""
        touch = self.touches[number]
        if touch.writes and not touch.is_atomic:
            return self._number(number, ())
        since = self._since[history]
        if number in since:
            return history
        kept = tuple(n for n in since if not self.touches[n].says_less(touch))
        return self._number(self.writes[history], (*kept, number))

    def _number(self, write: int, since: tuple[int, ...]) -> int:
        if write <= UNDEFINED and not since:
            return write
        found = self._numbers.get((write, since))
        if found is None:
            found = self._numbers[write, since] = len(self.writes)
            self.writes.append(write)
            self._since.append(since)
            self._conflicting.append(any(self.touches[n].writes for n in since))
        return found
