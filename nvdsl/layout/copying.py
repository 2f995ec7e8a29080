"""How a group of threads shares a copy: which elements are each thread's, and how many it moves by one access."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from nvdsl.errors import LayoutError
from nvdsl.errors.records import dataclass
from nvdsl.layout.core import Layout
from nvdsl.layout.memory import max_common_vector
from nvdsl.layout.strides import E

if TYPE_CHECKING:
    from nvdsl.values.typing import Int


@dataclass(frozen=True)
class CopyPlan:
    """``threads`` threads copy ``shape`` elements, ``vector`` at a time.

    ``axis``: along which a vector lies, and neighbouring threads. ``instruction``: by which it goes. ``why``: what
    decided, a line each. ``str(plan)`` is a text of it all.
    """

    shape: tuple[int, ...]
    itemsize: int
    threads: int
    axis: int
    vector: int
    instruction: str
    why: tuple[str, ...] = ()

    @property
    def units(self) -> Layout:
        """The number of a vector -> the coordinates of its first element: along ``axis`` first, then from the last axis
        to the first one."""
        order = [self.axis, *(i for i in reversed(range(len(self.shape))) if i != self.axis)]
        sizes = [self.shape[i] // (self.vector if i == self.axis else 1) for i in order]
        unit = [tuple((self.vector if i == self.axis else 1) * (j == i) for j in range(len(self.shape))) for i in order]
        return Layout(tuple(sizes), tuple(E(*step) for step in unit))

    @property
    def count(self) -> int:
        """Vectors of the whole copy."""
        return prod(self.shape) // self.vector

    @property
    def rounds(self) -> int:
        """Accesses of the threads that make the most of them."""
        return -(-self.count // self.threads)

    def place(self, thread: Int, round: Int) -> tuple[Int, ...]:
        """The coordinates of the first element that a thread, an int or a traced integer, moves in a round.

        Where the threads take whole rows at a time, a round adds a constant to the first one's coordinates, else they
        are computed anew.
        """
        units = self.units
        if not self._carries():
            base, step = (coordinates(units(x), len(self.shape)) for x in (thread, round * self.threads))
            return tuple(x + y for x, y in zip(base, step, strict=True))
        return coordinates(units(thread + round * self.threads), len(self.shape))

    def _carries(self) -> bool:
        """Whether the rounds of one thread are not a step apart in one axis."""
        inside = 1
        for size in self.units.shape:
            if self.threads <= inside * size:
                return bool(self.threads % inside or inside * size % self.threads)
            inside *= size
        return False

    def __str__(self) -> str:
        size = self.vector * self.itemsize
        lines = [
            f"copy of {'x'.join(map(str, self.shape))} elements of {self.itemsize} bytes by {self.threads} threads",
            f"  {self.instruction}: {self.vector} elements ({size} bytes) along axis {self.axis}, "
            f"{self.rounds} a thread",
            *(f"  {reason}" for reason in self.why),
        ]
        return "\n".join(lines)


def coordinates(x: E | int, rank: int) -> tuple[Int, ...]:
    return tuple(x[i] for i in range(rank)) if isinstance(x, E) else (x,)


def common_vector(a: Layout, b: Layout, most: int) -> int:
    """The widest access of both layouts in elements, a power of two of at most ``most``; 1 where none is known."""
    try:
        found = max_common_vector(a, b)
    except LayoutError:
        return 1
    count = 1
    while count * 2 <= most and found % (count * 2) == 0:
        count *= 2
    return count


def contiguous_axis(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The axis along which elements lie one behind the other; where none does, the one of the least stride."""
    wide = [i for i, n in enumerate(shape) if n != 1] or [len(shape) - 1]
    return min(wide, key=lambda i: (abs(strides[i]), -i))
