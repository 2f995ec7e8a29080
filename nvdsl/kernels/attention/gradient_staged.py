"""How `backward` adds up dQ: its consumers leave their parts in shared memory, and warps of their own add them."""

from __future__ import annotations

from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_sums import GradientSums
from nvdsl.kernels.attention.gradient_tiles import KeyTile, Seeing
from nvdsl.lang.tile import Tile
from nvdsl.layout.tile import TileLayout
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputing

WRITTEN, FREE = 4, 6
"""The first of two named barriers each, one for each consumer: its part is in shared memory; or may be."""


class Pending(NamedTuple):
    """The part of a tile that is still to come, -1 if there is none, how many blocks add theirs before, and the slot of
    shared memory where it will be. ``added``, ``turns``: where parts have an order, the one that was added last, of
    which the next block has not been told, or -1, and how many have been added to it."""

    part: nv.Int
    turn: nv.Int
    slot: nv.Int
    added: nv.Int
    turns: nv.Int

    def then(self, part: nv.Int, turn: nv.Int) -> Pending:
        """What is to come when this part has been added."""
        return Pending(part, turn, 1 - self.slot, self.part, self.turn + 1)


class StagedSums:
    """`GradientSums` to which a warp for each consumer adds its parts by bulk reductions from shared memory; it stores
    its dK and dV, too, if these are the ``results``. The part of a tile comes a step late: with the next one, or after
    the last. With the first one of a block comes none; nor with the first one of a tile of keys, if shared memory holds
    one K alone (`Config`). Made in the host function."""

    def __init__(self, sums: GradientSums, results: tuple[nv.Array, ...], config: Config) -> None:
        self._tiles, self._rows, self._turns = sums.tiles, sums.parts.rows, sums.turns
        self._slots, self._late = config.parts, config.keys > 1
        self._tma = nv.TMA(sums.total, tile=(self._rows, 256))
        self._part = TileLayout.of(self._rows, 256, 4, 0)
        sizes = config.sizes if results else ()
        self._layouts = [TileLayout.of(64, size, 2, 64 if size % 64 else 128) for size in sizes]
        self._stores = [
            nv.TMA(x, tile=(1, 64, 1, layout.cols), swizzle=layout.swizzle)
            for x, layout in zip(results, self._layouts, strict=True)
        ]

    def allocate(self) -> None:
        """Slots of shared memory of each consumer for a part, or its dK, or its dV. In the kernel."""
        most = max(layout.bytes for layout in (self._part, *self._layouts))
        self._staged = nv.smem((CONSUMERS * self._slots, most // 128, 32), nv.f32, swizzle=128)

    def hand_on(self, part: Any, me: nv.Int, slot: nv.Int) -> None:
        """Leave a consumer's part to its warp, which fences it. ``slot``: the other one each time, if there are two."""
        (registers,) = part.registers()
        thread, staged = nv.warpgroup_thread(), self._tile(self._part, nv.f32, me, slot)
        nv.named_barrier_sync(FREE + me, 160)
        for i in range(0, len(registers), 4):
            staged.store_vector(nv.vector(registers[i : i + 4]), (thread // 64 + i // 2, thread % 64 * 4))
        nv.named_barrier_arrive(WRITTEN + me, 160)

    def leave(self, dk: Any, dv: Any, dtype: nv.DType, me: nv.Int, slot: nv.Int) -> None:
        """Leave a consumer's dK and dV to its warp. ``slot``: of the next part."""
        for grad, layout, its in zip((dk, dv), self._layouts, self._slots_of_results(slot), strict=True):
            nv.named_barrier_sync(FREE + me, 160)
            with recomputing():
                grad.store(self._tile(layout, dtype, me, its))
            nv.named_barrier_arrive(WRITTEN + me, 160)

    def nothing(self) -> Pending:
        """Before the first part of a block."""
        return Pending(nv.i32(-1), nv.i32(0), nv.i32(0), nv.i32(-1), nv.i32(0))

    def take(self, at: KeyTile, sight: Seeing, me: nv.Int, pending: Any, dtype: nv.DType | None) -> Any:
        """Add a consumer's parts, each when it is there, to what other blocks have added. By its warp. Returns which
        one is still to come. ``dtype``: of dK and dV, where they are left to it."""
        number = self._tiles.first(at.number, at.sequence, at.head)
        outer, inner = sight.nested
        for i in nv.range(outer, unroll=False):
            for j in nv.range(inner, unroll=False):
                self.take_part(me, pending)
                tile, g = sight.nested_step(i, j)
                part = (number + g * self._tiles.rows + tile) * CONSUMERS + me
                pending = pending.then(part, nv.i32(sight.turn(tile)))
        if not self._late:
            if pending.part >= 0:
                self.take_part(me, pending)
                pending = pending.then(nv.i32(-1), nv.i32(0))._replace(slot=pending.slot)
        if dtype is not None:
            place = at.sequence.k_batch, at.key + me * 64, at.kv_head, 0
            slots = self._slots_of_results(pending.slot)
            for store, layout, slot in zip(self._stores, self._layouts, slots, strict=True):
                self._meet(me, pending)
                pending = pending._replace(added=nv.i32(-1))
                if nv.lane_id() == 0:
                    nv.fence_proxy_async()
                    store.store(self._tile(layout, dtype, me, slot), place)
                    nv.bulk_commit_group()
        return pending

    def take_part(self, me: nv.Int, pending: Any) -> None:
        """Add the part that comes next."""
        self._meet(me, pending, pending.part < 0, pending.part)
        if (nv.lane_id() == 0) & (pending.part >= 0):
            nv.fence_proxy_async()
            part = self._tile(self._part, nv.f32, me, pending.slot)
            self._tma.reduce_add(part, (pending.part * self._rows, 0))
            nv.bulk_commit_group()

    def finish(self, me: nv.Int, pending: Any) -> None:
        """Add the last part, if there is one, and wait until all has been written."""
        if pending.part >= 0:
            self.take_part(me, pending)
            pending = pending.then(nv.i32(-1), nv.i32(0))
        if nv.lane_id() == 0:
            nv.bulk_wait_group(0)
            self._tell(pending)

    def _tell(self, pending: Any) -> None:
        """The next block may add its part to what was added last, which has been written. By one thread."""
        if self._turns is not None:
            if pending.added >= 0:
                nv.bulk_wait_group(0)
                store_release(self._turns, pending.added, pending.turns)

    def _slots_of_results(self, slot: nv.Int) -> tuple[nv.Int, nv.Int]:
        """Where dK and dV are left: ``slot`` is the next part's, or was the tile's last part's."""
        return (slot, 1 - slot) if self._late else (1 - slot, slot)

    def _tile(self, layout: TileLayout, dtype: nv.DType, me: nv.Int, slot: nv.Int) -> Tile:
        return Tile(layout, dtype, self._staged[me if self._slots == 1 else slot * CONSUMERS + me].offset)

    def _meet(self, me: nv.Int, pending: Any, all: Any = False, part: nv.Int | None = None) -> None:
        """A slot is free, or ``all`` are; now something is there, and if it is ``part``, of dQ, it is its turn: that is
        looked for before it is there, and while what was added last is being written."""
        if nv.lane_id() == 0:
            nv.bulk_wait_group(self._slots - 1, read=True)
            if self._slots > 1:
                if all:
                    nv.bulk_wait_group(0, read=True)
        nv.sync_warp()
        nv.named_barrier_arrive(FREE + me, 160)
        if self._turns is not None:  # what has been read need not have been written
            if nv.lane_id() == 0:
                if part is None:
                    self._tell(pending)
                else:
                    added = load_acquire(self._turns, nv.max(part, 0))
                    self._tell(pending)
                    while (part >= 0) & (added != pending.turn):
                        added = load_acquire(self._turns, part)
            nv.sync_warp()
        nv.named_barrier_sync(WRITTEN + me, 160)
