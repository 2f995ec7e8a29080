"""What lies where: of which box, row and column the bytes are that tensor copies brought into shared memory.

A wgmma's descriptor says where its operand's rows and columns lie. When TMA wrote the bytes with another swizzle or
other strides than the descriptor means, all bytes are there, delivered and waited for, and the product is wrong:
nothing but the numbers would tell. So each 16-byte unit of shared memory remembers its place in the box that a copy
brought, and an operand's neighbours must be neighbours in it: one step along the operand is one step along the box,
or into the next box.

Elements that ordinary stores wrote through a `Tile` have their place in it; what they wrote in other ways has none, and
is not checked.

Each unit also remembers the swizzle by which it was written. What a copy takes out of shared memory, or a load reads
through a `Tile`, is found only by that swizzle, or by another one that leaves the unit where it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.hopper.tensor_maps import SWIZZLE_BYTES, TensorMap
from nvdsl.sim import geometry, matrix
from nvdsl.sim.report import Access, error
from nvdsl.sim.tiles import Tiles

UNIT = geometry.UNIT

_RULE = "a descriptor's swizzle and strides are those with which the tile was written (PTX ISA, Matrix Descriptor)"
_NOBODY = -1
"""The swizzle of what was written in a way that says nothing of one."""


@functools.lru_cache(maxsize=1 << 12)
def _places(tensor_map: TensorMap, address: int) -> tuple[Any, tuple[int, ...]]:
    """The units of shared memory that a box at ``address`` takes, in its order; its extents, the last in units."""
    phase = address % geometry.PATTERN
    units = geometry.units(tensor_map, phase) + (address - phase) // UNIT
    rows = tensor_map.box[:-1]
    return units, (*rows, len(units) // int(np.prod(rows)))


class Layouts:
    """The places of one block's shared memory of ``size`` bytes. ``version`` changes with them. ``right``: what was
    found of operands in other blocks of the kernel, which lay them alike."""

    def __init__(self, size: int, tiles: Tiles | None = None, right: set[Any] | None = None) -> None:
        self._tiles = tiles
        self._right = set() if right is None else right
        self._box = np.zeros(-(-size // UNIT), np.int32)  # number of the box, 0: no box
        self._place = np.zeros_like(self._box)
        self._numbers: dict[tuple[TensorMap, int], int] = {}
        self._boxes: list[Any] = [None]
        self._version = 0
        self._checked: dict[Any, int] = {}
        self._swizzle = np.full_like(self._box, _NOBODY)
        self._writers: dict[int, Access] = {}  # by swizzle: who wrote by it last

    def copied(self, tensor_map: TensorMap, address: int, who: Access) -> None:
        """A box was copied to ``address``."""
        key = tensor_map, address
        number = self._numbers.setdefault(key, len(self._boxes))
        units, extents = _places(tensor_map, address)
        if number == len(self._boxes):
            self._boxes.append((tensor_map, extents, who))
        else:
            self._boxes[number] = tensor_map, extents, who
            if (self._box[units] == number).all():
                return
        self._box[units] = number
        self._place[units] = np.arange(len(units))
        self._wrote(units, SWIZZLE_BYTES.get(tensor_map.swizzle, 0), who)
        self._version += 1

    def stored(self, offsets: Any, size: int, view: Any = None, who: Access | None = None) -> None:
        """Ordinary stores of ``size`` bytes at each of ``offsets``. ``view``: the swizzle and panel stride of the
        `Tile` through which they went, None for another way."""
        if view is not None and view[1] < 0:  # `memref.PLAIN`
            units = np.asarray(offsets) // UNIT
            self._box[units] = 0
            self._wrote(units, 0, who)
            self._version += 1
        elif view is not None and self._tiles is not None:
            self._stored_in_tile(offsets, view)
            self._wrote(np.asarray(offsets) // UNIT, view[0], who)
        elif self._version or self._writers:
            first = np.asarray(offsets) // UNIT
            for step in range(-(-size // UNIT)):
                self._box[first + step] = 0
                self._swizzle[first + step] = _NOBODY
            self._version += 1

    def _wrote(self, units: Any, swizzle: int, who: Access | None) -> None:
        self._swizzle[units] = swizzle
        if who is not None:
            self._writers[swizzle] = who

    def check_swizzle(self, units: Any, swizzle: int, who: Access, size: int = 0) -> None:
        """Raise where one of the units was written by a swizzle that puts it elsewhere than the one by which it is
        read. ``units``: of shared memory, in 16 bytes. ``size``: of the elements that are read by addresses: other
        than the tile's, they are a look at its memory."""
        if not self._writers.keys() - {swizzle}:
            return
        laid = self._swizzle[units]
        others = (laid != swizzle) & (laid != _NOBODY)
        for other in np.unique(laid[others]).tolist() if np.count_nonzero(others) else ():
            mine = units[laid == other] * UNIT
            moved = mine[geometry.swizzled(mine, other) != geometry.swizzled(mine, swizzle)]
            if moved.size and not (size and self._is_other(int(moved[0]), size)):
                raise self._wrong_swizzle(swizzle, other, who, who.where)

    def _is_other(self, address: int, size: int) -> bool:
        """Whether elements of ``size`` bytes are none of the tile at an address."""
        found = None if self._tiles is None else self._tiles.at(address)
        return found is None or found[0].itemsize != size

    def _wrong_swizzle(self, swizzle: int, other: int, who: Access | str, at: Where | None) -> Any:
        first = self._writers.get(other)
        found = error(
            "layout",
            f"{who} reads with {_named(swizzle)} what was written with {_named(other)}",
            at,
            "elements are found where their tile's swizzle put them: whoever reads them uses the same one",
            "give the tensor map and the tile one swizzle, nv.TMA(..., swizzle=tile.swizzle), and index the tile: "
            "tile[row, col] applies it, an index of tile.panel or of shared memory does not",
        )
        found.details = (f"first:  {first}", f"second: {who}")
        return found

    def _stored_in_tile(self, offsets: Any, view: Any) -> None:
        """Elements of a tile have their place in it, where the tile was allocated with that layout."""
        numbers, where = self._tiles.laid_by(view)  # type: ignore[union-attr]
        units = np.asarray(offsets).reshape(-1) // UNIT
        box = -numbers[units]
        if np.count_nonzero(self._box[units] != box):
            self._box[units], self._place[units] = box, where[units]
            self._version += 1

    def check(
        self, descriptor: int, rows: int, major: str, who: str, at: Where | None, made: Callable[[], Where | None]
    ) -> None:
        """Raise when the operand that a descriptor describes is not as the copies laid it. ``who``: what reads it.
        ``made``: tells where the descriptor was made."""
        key = descriptor, rows, major
        if not self._version or self._checked.get(key) == self._version:
            return
        units = matrix._units(descriptor, rows, major)
        if int(units.max()) < len(self._box):
            boxes = self._box[units]
            if boxes.any():
                self._check(boxes, self._place[units], lambda box: self._error(descriptor, box, who, at, made() or at))
            plain = units[(boxes == 0) & (self._swizzle[units] == 0)]
            swizzle = matrix.decode(descriptor).swizzle
            if (geometry.swizzled(plain * UNIT, swizzle) != plain * UNIT).any():
                raise self._wrong_swizzle(swizzle, 0, who, at)
        self._checked[key] = self._version

    def _check(self, boxes: Any, places: Any, wrong_box: Callable[[int], Exception]) -> None:
        """Raise ``wrong_box`` of the box where a step along an operand is none along its box."""
        key = boxes.shape, boxes.tobytes(), places.tobytes(), tuple(extents for _, extents, _ in self._boxes[1:])
        if key in self._right:
            return
        for axis in (0, 1):
            wrong = self._wrong(boxes, places, axis)
            if wrong is not None:
                raise wrong_box(int(boxes[wrong]))
        self._right.add(key)

    def _wrong(self, boxes: Any, places: Any, axis: int) -> Any:
        """Where a step along an axis of the operand is no step along the box; None where all are."""
        size = boxes.shape[axis]
        here, there = np.arange(size - 1), np.arange(1, size)
        first, second = np.take(boxes, here, axis), np.take(boxes, there, axis)
        before, after = np.take(places, here, axis), np.take(places, there, axis)
        bad = np.zeros(first.shape, bool)
        for number in np.unique(first[first != 0]).tolist():
            extents = self._boxes[number][1] if number > 0 else self._extents(-number)
            mine = (first == number) & (second > 0 if number > 0 else second == number)
            x, y = _coordinates(before, extents), _coordinates(after, extents)
            same = mine & (second == number)
            steps = np.zeros(first.shape, np.int32)
            legal = np.ones(first.shape, bool)
            for i, extent in enumerate(extents):
                change = y[i] - x[i]
                steps += change == 1
                legal &= (change == 0) | (change == 1) | ((change == 1 - extent) & (y[i] == 0))
            bad |= same & ~(legal & (steps == 1))
            other = mine & (second != number)
            if other.any():
                bad |= other & ~self._enters(second, x, after, extents)
        return None if not bad.any() else tuple(int(i[0]) for i in np.nonzero(bad))

    def _extents(self, number: int) -> tuple[int, int]:
        """Of a tile that ordinary stores wrote: rows, and units of a row."""
        tile = self._tiles.places()[2][number - 1]  # type: ignore[union-attr]
        return tile.rows, tile.cols * tile.itemsize // UNIT

    def _enters(self, second: Any, x: Any, after: Any, extents: Any) -> Any:
        """Whether the step into another box starts it anew along one axis, and stays along the others; or goes on in
        what is left of a larger box, of which a smaller one has overwritten the beginning."""
        good = np.zeros(second.shape, bool)
        for number in np.unique(second[second > 0]).tolist():
            its = self._boxes[number][1]
            if len(its) != len(extents):
                good |= second == number
                continue
            y = _coordinates(after, its)
            moved = sum((a != b).astype(np.int32) for a, b in zip(x, y, strict=True))
            anew = np.logical_and.reduce([(a == b) | (b == 0) | (b == a + 1) for a, b in zip(x, y, strict=True)])
            good |= (second == number) & anew & (moved <= 1)
        return good

    def _error(self, descriptor: int, number: int, who: str, at: Where | None, made: Where | None) -> Any:
        d = matrix.decode(descriptor)
        mine = _named(d.swizzle)
        if number < 0:
            tile = self._tiles.places()[2][-number - 1]  # type: ignore[union-attr]
            laid, first = f"the elements lie that were stored, in a {tile}", "stores through the tile"
            fix = "nv.ops.wgmma.descriptor(tile.address, tile.operand(mn_axis)) has the tile's swizzle and strides"
        else:
            tensor_map, _, first = self._boxes[number]
            box = "x".join(map(str, tensor_map.box))
            swizzle = "no swizzle" if tensor_map.swizzle == "none" else tensor_map.swizzle
            laid = f"the {first} laid it there (a box of {box} {tensor_map.element}, {swizzle})"
            fix = "give the tensor map, the tile and the descriptor one swizzle; strides: nvdsl.layout has them"
        found = error(
            "layout",
            f"{who} is read by a descriptor with {mine}, leading byte offset {d.leading} and stride byte offset "
            f"{d.stride}: not as {laid}",
            made,
            _RULE,
            fix,
        )
        found.details = (f"first:  {first}", f"second: {who}" + (f" at {at}" if at else ""))
        return found


def _named(swizzle: int) -> str:
    return f"a {swizzle}-byte swizzle" if swizzle > UNIT else "no swizzle"


def _coordinates(places: Any, extents: tuple[int, ...]) -> list[Any]:
    found = []
    for extent in reversed(extents):
        found.append(places % extent)
        places = places // extent
    return found[::-1]
