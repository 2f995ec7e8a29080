"""What several checks ask about one kernel, found once: its threads, who reaches what, its mbarriers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from nvdsl.ir.location import where
from nvdsl.verify import mbarriers, rounds
from nvdsl.verify.expressions import Expressions
from nvdsl.verify.mbarriers import Event, Group, Part
from nvdsl.verify.program import Kernel, Node, Program
from nvdsl.verify.reach import Reaches
from nvdsl.verify.threads import Threads


class Context:
    """One kernel whose block's size is known."""

    def __init__(self, kernel: Kernel, threads: Threads) -> None:
        self.kernel, self.threads = kernel, threads
        self.expressions = Expressions(threads)
        self.reaches = Reaches(kernel, threads, self.expressions)
        self._slots: dict[tuple[int, bool], set[int] | None] = {}
        self._parts: dict[tuple[int, str], list[Part] | None] = {}

    @cached_property
    def groups(self) -> list[Group]:
        return mbarriers.groups(self.kernel)

    def parts(self, group: Group, kind: str) -> list[Part] | None:
        """All events of ``kind`` at the group's barriers, None where one isn't understood."""
        key = (id(group.node), kind)
        if key not in self._parts:
            self._parts[key] = self._find_parts(group, kind)
        return self._parts[key]

    def slots(self, group: Group, event: Event) -> set[int] | None:
        """Barriers of ``group`` that ``event`` is at in the rounds of the loop around it, None where they aren't known.

        Of an init all of them; of others those of the first rounds, as many as the ring has slots.
        """
        key = hash(event.index), event.kind == "init"
        if key not in self._slots:
            self._slots[key] = self._find_slots(group, event)
        return self._slots[key]

    def _find_slots(self, group: Group, event: Event) -> set[int] | None:
        loops = [p.op for p, _ in event.node.ancestors() if p.name in ("scf.for", "scf.while")]
        found, complete = rounds.values(self.threads, event.index, loops[0] if loops else None, group.size + 1)
        complete = complete and len(loops) < 2 or isinstance(self.threads.of(event.index), int)
        known = all(isinstance(x, int) for x in found) and (complete or event.kind != "init")
        return set(found) if known else None

    def first_parity(self, event: Event) -> int | None:
        """The parity of the first phase that a wait waits for."""
        parity = self.threads.of(event.parity, first=True)
        return parity & 1 if isinstance(parity, int) else None

    def _find_parts(self, group: Group, kind: str) -> list[Part] | None:
        found: list[Part] = []
        if group.events is None:
            return None
        for event in group.of(kind):
            more = mbarriers.parts(event, self.threads, self.expressions, self.reaches)
            if more is None:
                return None
            found += more
        return found


def contexts(program: Program) -> Iterator[Context]:
    """Of every kernel whose block's size is known; made once for a program."""
    for kernel in program.kernels:
        if kernel.threads is not None:
            if kernel not in program.contexts:
                program.contexts[kernel] = Context(kernel, kernel.threads)
            yield program.contexts[kernel]


def beside(node: Node, other: Node) -> str:
    """The line of ``node`` for a message at the line of ``other``: ``line 12``, or ``file.py:12`` in another file."""
    place, main = where(node.op), where(other.op)
    if place is None:
        return "an unknown line"
    return f"line {place.line}" if main and place.file == main.file else str(place)
