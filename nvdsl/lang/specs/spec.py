"""What specifications have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.lang import atoms
from nvdsl.lang.atoms import Atom
from nvdsl.lang.threads import Threads


class Spec:
    """Something that a group of threads is to do. Nothing is emitted before it is called."""

    threads: Threads

    @property
    def atoms(self) -> Sequence[Atom]:
        """The instructions that may carry it out, the best first."""
        raise NotImplementedError

    def __call__(self, using: str | None = None) -> Any:
        """Emit the best instruction that fits, or the one called ``using``, and return what it makes.

        All threads of the group call it together. Raises TraceError with each instruction's reason where none fits.
        """
        return atoms.choose(self, self.atoms, using).emit()

    def explain(self, using: str | None = None) -> str:
        """A line for each instruction that could carry it out: how, or why not. The one that is taken is marked ->."""
        return atoms.explained(self, self.atoms, using)


def shares(shape: tuple[int, int], tile: Sequence[int], groups: Threads, what: str) -> Iterator[tuple[Any, Any]]:
    """The (row, column) at which this thread's group finds its parts of ``shape``, one after the other.

    Parts of ``tile`` elements are counted along rows first, and handed around: part i is group ``i % groups.count``'s.
    Raises TraceError where parts do not divide the shape, or groups the parts.
    """
    rows, cols = tile
    if min(rows, cols) < 1 or shape[0] % rows or shape[1] % cols:
        raise trace_error(
            f"{what} in parts of {rows}x{cols}",
            rule=f"parts divide the whole, {shape[0]}x{shape[1]}",
            fix="choose a divisor of each extent",
        )
    across = shape[1] // cols
    count = shape[0] // rows * across
    if count % groups.count:
        raise trace_error(
            f"{what}: {count} parts of {rows}x{cols} for {groups.count} groups",
            rule="each group has as many parts as any other",
            fix="choose smaller parts, or fewer groups",
        )
    number = groups.group_number
    for turn in range(count // groups.count):
        part = number + turn * groups.count if groups.count > 1 else turn
        yield part // across * rows, part % across * cols
