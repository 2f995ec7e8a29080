"""Threads as a tensor: a layout from coordinates to thread numbers, tiled and reshaped as data is.

(Graphene, section 4: "logical thread groups".)
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.layout import Layout, coalesce, column_major, composition, make_layout, zipped_divide
from nvdsl.layout.core import Tiler
from nvdsl.layout.nested import is_nested
from nvdsl.ops.warp import WARP_SIZE, lane_id, linear_thread_id, warp_id
from nvdsl.values import scope
from nvdsl.values.traced import Value
from nvdsl.values.typing import Int


@dataclass(frozen=True)
class Threads:
    """``members`` takes the coordinates of a thread in its group to its number in the block; ``groups`` takes those of
    the group to what that adds. Both together reach threads 0 .. n - 1, each once; `threads` makes the whole block.
    """

    members: Layout
    groups: Layout = Layout(1, 0)

    @property
    def size(self) -> int:
        """Threads of a group."""
        return int(self.members.size)

    @property
    def count(self) -> int:
        """How many groups there are."""
        return int(self.groups.size)

    @property
    def shape(self) -> Any:
        """The extents of a group's coordinates: an int, or a tuple."""
        return self.members.shape

    def tile(self, tiler: Tiler) -> Threads:
        """Groups of threads: a number of neighbours, an extent for each axis, or a layout that selects the members.

        ``nv.spec.threads().tile(32)`` are the warps; ``warps.tile(4)`` their quads, ``warp.tile(Layout((4, 2), (1,
        16)))`` eight lanes of both halves. Raises LayoutError for what does not divide the threads.
        """
        whole = self.members if is_nested(tiler) else coalesce(self.members)
        inner, outer = zipped_divide(whole, tiler)
        groups = outer if self.count == 1 else make_layout(outer, self.groups)
        _check(inner, groups, self.size * self.count, f"threads of shape {self.shape} in groups of {tiler}")
        return Threads(inner, groups)

    def reshape(self, *shape: int) -> Threads:
        """The same threads of each group under other coordinates, of which the first runs fastest: a warp as 2x2x8."""
        size = 1
        for extent in shape:
            size *= extent
        if not shape or size != self.size:
            raise trace_error(
                f"{self.size} threads as {'x'.join(map(str, shape))}",
                rule="another shape has as many threads",
                fix="tile the threads first, which gives groups of fewer",
            )
        return Threads(composition(self.members, column_major(*shape)), self.groups)

    @property
    def index(self) -> Any:
        """This thread's coordinates in its group: a traced integer, or one for each axis."""
        return _coordinates(self.members)

    @property
    def group(self) -> Any:
        """The coordinates of this thread's group, the same register in all lanes where groups are of whole warps."""
        return _coordinates(self.groups)

    @property
    def number(self) -> Value:
        """This thread's number in its group, counted with the first axis fastest; i32."""
        return _number(self.members)

    @property
    def group_number(self) -> Int:
        """The number of this thread's group, counted so."""
        return _number(self.groups)

    @property
    def are_warps(self) -> bool:
        """Whether each group is a number of whole warps whose lanes are numbered in their order."""
        inner, outer = coalesce(self.members), coalesce(self.groups)
        return inner.leaves()[0] == (self.size, 1) and self.size % WARP_SIZE == 0 and all(
            stride % WARP_SIZE == 0 for size, stride in outer.leaves() if size > 1
        )

    def __str__(self) -> str:
        of = f" of {self.count} groups" if self.count > 1 else ""
        return f"{self.size} thread{'s' * (self.size > 1)}{of}"


def threads(count: int | None = None) -> Threads:
    """The threads of the block, or the first ``count`` of them, as one group along one axis."""
    whole = scope.current("nv.spec.threads").threads
    if count is not None and not 1 <= count <= whole:
        raise trace_error(
            f"nv.spec.threads({count}) in a block of {whole} threads",
            rule="a group has threads of the block",
            fix=f"nv.spec.threads() are all {whole} of them",
        )
    return Threads(Layout(whole if count is None else count))


def _check(inner: Layout, outer: Layout, count: int, what: str) -> None:
    if sorted(a + b for a in map(inner, range(inner.size)) for b in map(outer, range(outer.size))) != [*range(count)]:
        raise trace_error(
            what,
            rule="each thread is in one group, as one member",
            fix="choose a tile that divides the threads",
        )


def _coordinates(layout: Layout) -> Any:
    if not is_nested(layout.shape):
        return _number(layout)
    return tuple(_number(mode) for mode in layout)


def _number(layout: Layout) -> Any:
    """This thread's coordinate in a layout of threads, as one integer: digit by digit of the thread's number."""
    total: Any = 0
    weight = 1
    for size, stride in layout.leaves():
        if size > 1:
            total = total + _digit(size, stride) * weight
        weight *= size
    return total


def _digit(size: int, stride: int) -> Value:
    of_block = scope.current("nv.spec.threads").threads
    if stride % WARP_SIZE == 0:
        number, stride, count = warp_id(), stride // WARP_SIZE, -(-of_block // WARP_SIZE)
    elif stride * size <= WARP_SIZE:
        number, count = lane_id(), WARP_SIZE
    else:
        number, count = linear_thread_id(), of_block
    if stride > 1:
        number = number // stride
    return number % size if stride * size < count else number
