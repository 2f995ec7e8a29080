"""Ordinary loads and stores: bounds, alignment, races."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import atomics, memory, shadow
from nvdsl.sim.atomics import RELAXED, Order
from nvdsl.sim.clocks import ALL_LANES
from nvdsl.sim.geometry import UNIT
from nvdsl.sim.memory import Bytes
from nvdsl.sim.records import COLLECTIVE, Touch
from nvdsl.sim.report import Access, error
from nvdsl.sim.values import LANES, Element

GENERIC, GLOBAL, SHARED, SHARED_CLUSTER = 0, 1, 3, 7

_least, _most, _all_bits = np.minimum.reduce, np.maximum.reduce, np.bitwise_or.reduce  # faster than the methods


def resolve(w: Any, space: int, address: int, at: Where | None, what: str) -> tuple[Bytes, Any, int]:
    """The memory an address is in, the block whose shared memory it is (None: global), and what to subtract."""
    if space in (SHARED, SHARED_CLUSTER):
        rank = address >> memory.CLUSTER_SHIFT
        if rank == 0:
            return w.block.smem, w.block, 0
        blocks = w.block.cluster.blocks
        if 0 < rank <= len(blocks):
            return blocks[rank - 1].smem, blocks[rank - 1], rank << memory.CLUSTER_SHIFT
    else:
        found = w.machine.gmem.find(address)
        if found is not None:
            return found, None, found.base
    raise error(
        "out-of-bounds",
        f"{what} by {w.name} at address {address:#x}, where there is no "
        f"{'shared' if space in (3, 7) else 'global'} memory",
        at,
        "an address comes from an array, a tensor map or the dynamic shared memory",
        "check the index arithmetic",
    )


class _InSeveral(Exception):
    """The active lanes have addresses in several arrays of global memory: a choice among arrays may depend on the
    lane."""


def _each(w: Any, places: Any) -> Iterator[None]:
    """Once for each place that active lanes have, with these lanes active."""
    whole = w.mask
    if (places[whole] == places[whole][0]).all():
        yield
        return
    for place in np.unique(places[whole]).tolist():
        w.set_mask(whole & (places == place))
        yield
    w.set_mask(whole)


def offset_list(offsets: Any) -> list[int]:
    return [offsets] if offsets.__class__ is int else list(dict.fromkeys(offsets.tolist()))


def _clashes(offsets: Any) -> tuple[Any, Any] | None:
    """(an order of the lanes, where in it a lane's place is its predecessor's); None where all places differ."""
    order = np.argsort(offsets, kind="stable")
    same = np.diff(offsets[order]) == 0
    return (order, same) if same.any() else None


class Accessor:
    """Loads and stores of one op: ``count`` contiguous elements of ``e`` (None: a scalar) for each active lane.

    ``alignment``: bytes that each lane's address must be a multiple of. ``order``: an atomic's; None for others.
    ``used``: those of a vector's elements that anything uses; None for all.
    """

    def __init__(
        self, space: int, e: Element, count: int | None, alignment: int, at: Where | None, order: Order | None = None,
        used: list[int] | None = None,
    ) -> None:  # fmt: skip
        self.space, self.e, self.count, self.at, self.order = space, e, count, at, order
        self.size = e.bytes * (count or 1)
        self.alignment = max(alignment, e.bytes)
        self.shift = e.bytes.bit_length() - 1
        self.dtype = np.dtype(np.uint8) if e.bits == 1 else e.dtype
        self.steps = None if count is None else np.arange(count)[:, None]
        self.used = used
        self.tile: Any = None  # swizzle and panel stride of the `Tile` whose element it is
        self.decided: Where | None = None  # of an atomic load: see `polling.decided`
        self.reads = True  # a read-modify-write whose old value matters
        self._touches: dict[Any, Any] = {}
        self._ranges: dict[bytes, tuple[int, int, int]] = {}
        self._clashes: dict[Any, Any] = {}

    def each_block(self, w: Any, address: Any) -> Iterator[None]:
        """Once for each block of the cluster that active lanes have addresses in, with these lanes active."""
        if self.space == SHARED_CLUSTER and address.__class__ is np.ndarray:
            yield from _each(w, address >> memory.CLUSTER_SHIFT)
        else:
            yield

    def load_each(self, w: Any, address: Any) -> Any:
        """`load` for lanes whose addresses may be in several blocks of the cluster."""
        if self.space != SHARED_CLUSTER:
            return self.load(w, address)
        return self._loaded(w, address, self.each_block(w, address))

    def _loaded(self, w: Any, address: Any, each: Iterator[None]) -> Any:
        found = None
        for _ in each:
            part = self.load(w, address)
            found = part if found is None else np.where(w.mask, part, found)
        return found

    def store_each(self, w: Any, address: Any, value: Any) -> None:
        """`store`, in the same way."""
        for _ in self.each_block(w, address):
            self.store(w, address, value)

    def locate(self, w: Any, address: Any, what: str) -> tuple[Bytes, Any, Any]:
        """(memory, block or None, offsets): offsets of the active lanes, checked; an int when all lanes agree."""
        if address.__class__ is int:
            found, block, base = resolve(w, self.space, address, self.at, what)
            offset = address - base
            if offset < found.reserved or offset + self.size > found.size or offset % self.alignment:
                self._fail(w, found, np.array([offset]), what)
            return found, block, offset
        active = address if w.active is None else address[w.active]
        found, block, base = resolve(w, self.space, int(active[0]), self.at, what)
        offsets = active - base if base else active
        low, high, bits = self._range(offsets)
        if low < found.reserved or high + self.size > found.size or bits & (self.alignment - 1):
            if block is None and (active >> memory.SLOT_BITS != active[0] >> memory.SLOT_BITS).any():
                raise _InSeveral
            self._fail(w, found, offsets, what)
        return found, block, offsets

    def _range(self, offsets: Any) -> tuple[int, int, int]:
        """The least and the most of offsets, and the bits that any of them has: blocks and warps have the same ones."""
        key = offsets.tobytes()
        found = self._ranges.get(key)
        if found is None:
            if len(self._ranges) > 4096:
                self._ranges.clear()
            found = self._ranges[key] = int(_least(offsets)), int(_most(offsets)), int(_all_bits(offsets))
        return found

    def _fail(self, w: Any, found: Bytes, offsets: Any, what: str) -> None:
        lanes = list(w.active_lanes())
        for i, offset in enumerate(offsets.tolist()):
            lane = lanes[i] if len(offsets) > 1 else lanes[0]
            where = f"byte {offset - found.reserved} of {found.name}, which has {found.size - found.reserved}"
            if offset < found.reserved or offset + self.size > found.size:
                raise error(
                    "out-of-bounds",
                    f"{what} of {self.size} bytes by {w.name} lane {lane} at {where}",
                    self.at,
                    "an access stays inside of its allocation",
                    "check the index, and the condition that guards the last block",
                )
            if offset % self.alignment:
                start = found.reserved % self.alignment if found.is_global else 0
                begins = f", and {found.name} begins {start} bytes behind one" if start else ""
                raise error(
                    "misaligned",
                    f"{what} of {self.size} bytes by {w.name} lane {lane} at {where}: no multiple of {self.alignment}"
                    + begins,
                    self.at,
                    "an access is aligned to its size (PTX ISA, Addresses as operands)",
                    f"pass an array that begins at a multiple of {self.alignment} bytes (a copy), or read and write "
                    "single elements" if start else "align the start of the array and the column",
                )

    def load(self, w: Any, address: Any) -> Any:
        try:
            found, block, offsets = self.locate(w, address, "load")
        except _InSeveral:
            return self._loaded(w, address, _each(w, address >> memory.SLOT_BITS))
        if w.machine.checks:
            self._check(w, found, block, offsets, "load" if self.order is None else "atomic load", False)
        if self.order is not None:
            if block is not None:
                atomics.read(w, found, offset_list(offsets), self.order)
            elif old := atomics.load(w, found, offset_list(offsets), self.order, self.at, self.decided):
                return self._load_old(w, found, offsets, old)
        view = found.view(self.dtype)
        if offsets.__class__ is int:
            i = offsets >> self.shift
            if self.count is not None:
                x = view[i : i + self.count].reshape(-1, 1).copy()
                return x.astype(np.bool_) if self.e.bits == 1 else x
            x = view[i]
            return x if self.e.is_float else bool(x) if self.e.bits == 1 else x.item()
        i = offsets >> self.shift
        x = view[i] if self.steps is None else view[i + self.steps]
        if w.active is not None:
            whole = np.zeros((*x.shape[:-1], LANES), x.dtype)
            whole[..., w.active] = x
            x = whole
        return x.astype(np.bool_) if self.e.bits == 1 else x

    def _load_old(self, w: Any, found: Bytes, offsets: Any, old: dict[int, bytes]) -> Any:
        """A load that sees at some addresses what was there before."""
        lanes = [offsets] if offsets.__class__ is int else offsets.tolist()
        each = [old.get(one) or found.data[one : one + self.size].tobytes() for one in lanes]
        values = np.frombuffer(b"".join(each), self.dtype)
        if offsets.__class__ is int:
            return values[0] if self.e.is_float else values[0].item()
        whole = np.zeros(LANES, self.dtype)
        whole[w.mask] = values
        return whole

    def store(self, w: Any, address: Any, value: Any) -> None:
        try:
            found, block, offsets = self.locate(w, address, "store")
        except _InSeveral:
            for _ in _each(w, address >> memory.SLOT_BITS):
                self.store(w, address, value)
            return
        if w.machine.checks:
            what = "store" if self.order is None else "atomic store"
            self._check(w, found, block, offsets, what, True, lambda: self._holds(w, found, offsets, value))
        if self.order is not None:
            atomics.write(w, found, offset_list(offsets), self.order, False, self.size, self.at)
        found.version += 1
        w.machine.changes += 1
        view = found.view(self.dtype)
        i = offsets >> self.shift
        if value.__class__ is np.ndarray and value.shape[-1] == LANES:
            value = value if w.active is None else value[..., w.active]
            if w.machine.checks and self.order is None and value.shape[-1] > 1:
                self._check_lanes(w, found, offsets, value)
            if offsets.__class__ is int:  # all lanes store there: one of them is last
                value = value[..., -1]
                view[i if self.count is None else slice(i, i + self.count)] = value
                return
        elif self.count is not None and offsets.__class__ is int:
            value = value[..., 0]
        if self.steps is None:
            view[i] = value
        elif offsets.__class__ is int:
            view[i : i + self.count] = value
        else:
            view[i + self.steps] = value

    def _holds(self, w: Any, found: Bytes, offsets: Any, value: Any) -> bool:
        """Whether the value is there already."""
        if value.__class__ is np.ndarray and value.shape[-1] == LANES and w.active is not None:
            value = value[..., w.active]
        i = offsets >> self.shift
        there = found.view(self.dtype)[i if self.steps is None else i + self.steps]
        return bool((there == value).all())

    def _check(
        self, w: Any, found: Bytes, block: Any, offsets: Any, what: str, writes: bool, same: Any = None
    ) -> None:
        """``same``: whether a store leaves all as it is."""
        tracker = found.shadow
        if tracker is None:
            return
        if block is None:
            order = (self.order or RELAXED) if what.startswith("atomic") else None
            # All may tell the same at one place; blocks that all store the same row forgot what tells them apart.
            at_one_place = same if offsets.__class__ is int else None
            tracker.access(w, offsets, self.size, what, writes, self.at, order, at_one_place)
            return
        span, touch = self.touch(w, offsets, tracker.shift, what)
        if block is not w.block:
            block.visited(w, self.at)
        if what.startswith("atomic"):
            domain = atomics.domain(w, (self.order or RELAXED).scope)
            access = Access(w.name, what, "atomic", self.at, (w.clock.cluster, w.block.rank), domain)
        else:
            access = Access(w.name, what, "generic", self.at)
        if w.agree:
            tracker.compare(span, w.clock, access, touch, writes, same)
        else:
            self._compare_apart(w, tracker, offsets, access, what, writes)
        needed = None if self.used is None else self._needed(offsets, tracker.shift)
        tracker.note(span, access, w.actor, w.epoch, touch, writes, needed)
        w.touched |= touch.lanes
        w.accesses += 1
        if writes:
            block.layouts.stored(offsets, self.size, self.tile, access)
        elif self.tile is not None:
            raw = self.e.bytes if self.tile[1] < 0 else 0  # `memref.PLAIN`
            block.layouts.check_swizzle(np.atleast_1d(offsets) // UNIT, self.tile[0], access, raw)

    def _compare_apart(self, w: Any, tracker: Any, offsets: Any, access: Access, what: str, writes: bool) -> None:
        """The active lanes know different things."""
        active = np.arange(LANES) if w.active is None else w.active
        for _ in w.apart():
            whole = offsets.__class__ is int or what in COLLECTIVE
            mine = offsets if whole else offsets[w.mask[active]]
            span, touch = self.touch(w, mine, tracker.shift, what)
            tracker.compare(span, w.clock, access, touch, writes)

    def _needed(self, offsets: Any, shift: int) -> int:
        """The bits of the elements that are used."""
        starts = [offsets + i * self.e.bytes for i in self.used or ()]
        each = [shadow.interval(s, s + self.e.bytes, shift) if s.__class__ is int
                else shadow.scattered(s, self.e.bytes, shift) for s in starts]  # fmt: skip
        bits = 0
        for mask, _, _ in each:
            bits |= mask
        return bits

    def _check_lanes(self, w: Any, found: Bytes, offsets: Any, value: Any) -> None:
        """Lanes that store to one place store the same there. ``value``: of the active lanes."""
        if offsets.__class__ is int:
            order, same = slice(None), slice(1, None)
        else:
            key = (offsets - offsets[0]).tobytes()
            if key not in self._clashes:
                self._clashes[key] = _clashes(offsets)
            if self._clashes[key] is None:
                return
            order, same = self._clashes[key]
        ordered = value[..., order]
        before, after = ordered[..., :-1], ordered[..., 1:]
        differs = ((before != after) & ((before == before) | (after == after))).reshape(-1, before.shape[-1]).any(0)
        if offsets.__class__ is not int:
            differs &= same
        if not differs.any():
            return
        lanes = np.arange(LANES) if w.active is None else w.active
        i = int(np.flatnonzero(differs)[0])
        first, second = lanes[order][i : i + 2].tolist()
        place = offsets if offsets.__class__ is int else int(offsets[order][i])
        raise error(
            "lanes-store",
            f"lanes {first} and {second} of {w.name} store different values to byte {place - found.reserved} of "
            f"{found.name} at the same time",
            self.at,
            "of what lanes of a warp store to one place in one instruction one value is kept, and which is not defined "
            "(CUDA programming guide, SIMT architecture)",
            "let one lane store, or add them up before (a shuffle, or an atomic)",
        )

    def check_warp(self, w: Any, found: Bytes, block: Any, offsets: Any, what: str) -> None:
        """A load that the lanes of a warp do together: ``offsets`` are those of its parts, in any number."""
        self._check(w, found, block, offsets, what, False)

    def modify(self, w: Any, address: Any, what: str = "atomic") -> Iterator[tuple[Bytes, list[int]]]:
        """The memory and the offsets, one for each active lane, of a read-modify-write: once for each block, as
        `each_block` has it."""
        for _ in self.each_block(w, address):
            try:
                found, block, offsets = self.locate(w, address, what)
            except _InSeveral:
                for _ in _each(w, address >> memory.SLOT_BITS):
                    yield from self.modify(w, address, what)
                continue
            order = self.order or RELAXED
            if w.machine.checks:
                self._check(w, found, block, offsets, "atomic" if self.reads else "atomic store", True)
            atomics.read(w, found, offset_list(offsets), order)
            atomics.write(w, found, offset_list(offsets), order, True, self.size, self.at)
            found.version += 1
            yield found, [offsets] * len(w.active_lanes()) if offsets.__class__ is int else offsets.tolist()

    def touch(self, w: Any, offsets: Any, shift: int, what: str) -> tuple[Any, Touch]:
        """What the active lanes touch: as a span, and by lane."""
        if offsets.__class__ is int:
            return shadow.interval(offsets, offsets + self.size, shift), Touch(offsets, self.size, w.bits)
        key = offsets.tobytes(), w.bits
        found = self._touches.get(key)
        if found is None:
            if len(self._touches) > 4096:
                self._touches.clear()
            collective = what in COLLECTIVE
            touch = Touch(offsets, self.size, ALL_LANES if collective else w.bits, collective)
            found = self._touches[key] = shadow.scattered(offsets, self.size, shift), touch
        return found
