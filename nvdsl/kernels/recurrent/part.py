"""Parts of arrays by shape, strides and first element, for the kernels of a call."""

from __future__ import annotations

from typing import Any, NamedTuple

from nvdsl.driver.view import strided
from nvdsl.errors.records import dataclass
from nvdsl.kernels.arguments import Argument


@dataclass(frozen=True)
class Part:
    """Elements of ``array``: ``strides`` and ``start`` in elements."""

    array: Argument
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int = 0

    @staticmethod
    def of(array: Argument) -> Part:
        """All of it."""
        return Part(array, array.spec.shape, array.spec.strides)

    def take(self, axis: int, first: int, count: int) -> Part:
        """``count`` of an axis, from ``first`` on."""
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        return Part(self.array, shape, self.strides, self.start + first * self.strides[axis])

    def at(self, axis: int, index: int) -> Part:
        """One of an axis, which is gone."""
        found = self.take(axis, index, 1)
        shape, strides = (x[:axis] + x[axis + 1 :] for x in (found.shape, found.strides))
        return Part(self.array, shape, strides, found.start)

    def split(self, axis: int, count: int) -> Part:
        """An axis as two, of ``count`` parts of the same size."""
        extent, step = self.shape[axis] // count, self.strides[axis]
        shape = (*self.shape[:axis], count, extent, *self.shape[axis + 1 :])
        return Part(self.array, shape, (*self.strides[:axis], extent * step, *self.strides[axis:]), self.start)

    def swap(self, a: int, b: int) -> Part:
        """Two axes exchanged."""
        order = list(range(len(self.shape)))
        order[a], order[b] = order[b], order[a]
        shape, strides = (tuple(x[i] for i in order) for x in (self.shape, self.strides))
        return Part(self.array, shape, strides, self.start)

    def insert(self, axis: int) -> Part:
        """With an axis of one more."""
        shape, strides = ((*x[:axis], value, *x[axis:]) for x, value in ((self.shape, 1), (self.strides, 0)))
        return Part(self.array, shape, strides, self.start)

    def joined(self, axis: int) -> Part | None:
        """An axis and the next one as one; None where their elements are not at even distances."""
        (n, m), (outer, inner) = (x[axis : axis + 2] for x in (self.shape, self.strides))
        if n != 1 and m != 1 and outer != m * inner:
            return None
        shape, step = (*self.shape[:axis], n * m, *self.shape[axis + 2 :]), outer if m == 1 else inner
        return Part(self.array, shape, (*self.strides[:axis], step, *self.strides[axis + 2 :]), self.start)

    def view(self) -> Any:
        """What a jit function takes."""
        if self.start == 0:
            return self.array.view(self.shape, self.strides)
        return strided(self.array.view(), self.shape, self.strides, self.start)


class Saved(NamedTuple):
    """What the backward pass needs of all steps of a layer in one direction. ``gates``: [steps, kinds, batch, hidden],
    see `Cell.forward`; ``c``: after each step, ``h``: before it, [steps, batch, hidden]."""

    gates: Part | None = None
    c: Part | None = None
    h: Part | None = None

    def rows(self, first: int, count: int) -> Saved:
        """Of some rows of the batch."""
        axes = zip(self, (2, 1, 1), strict=True)
        return Saved(*(None if part is None else part.take(axis, first, count) for part, axis in axes))


def flat(x: Part) -> tuple[Part, bool]:
    """[steps, batch, elements] as one matrix, and whether the steps of a row of the batch follow each other in it.
    Where memory allows no one matrix, as it is: a matrix for each step."""
    together = x.joined(0)
    if together is None and (by_row := x.swap(0, 1).joined(0)) is not None:
        return by_row, True
    return together or x, False
