"""dQ of attention's gradients: blocks add up their parts in f32 in global memory; then it is converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Seeing
from nvdsl.lang.tile import Tile
from nvdsl.layout.tile import TileLayout
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputing

MEET, WRITTEN, FREE = 2, 4, 6
"""The first of two named barriers each, one for each consumer: it meets itself; its part is in shared memory; or may
be."""


@dataclass(frozen=True)
class Parts:
    """The parts of a tile of dQ, (tile_m, size), that the consumers compute: 64 rows each, or half of the columns.
    ``slices``: into how many the columns are cut, which are computed one after the other. ``swizzle``: of the tile, and
    of K: its panels are no wider than a part."""

    tile_m: int
    size: int
    swizzle: int
    slices: int = 1

    @property
    def by_rows(self) -> bool:
        return self.tile_m == 64 * CONSUMERS

    @property
    def columns(self) -> int:
        return self.size // (self.slices if self.by_rows else CONSUMERS)

    @property
    def shape(self) -> tuple[int, int]:
        """Of a part's accumulator."""
        return 64, self.columns

    @property
    def rows(self) -> int:
        """Rows of 256 f32 that a part has where it lies in the order of its registers."""
        return 64 * self.columns // 256

    def place(self, me: nv.Int, part: nv.Int = 0) -> tuple[nv.Int, nv.Int]:
        """A part's first row and column in a tile of dQ."""
        return (me * 64, part * self.columns) if self.by_rows else (0, me * self.columns)

    def of(self, tile: Any, me: nv.Int, part: int = 0) -> Any:
        """The part of a tile of dQ."""
        row, column = self.place(me, part)
        return tile.rows(row, 64).cols(column, self.columns)

    def product(self, ds: Any, k: Any, me: nv.Int) -> Any:
        """What a part adds up: of dS, (rows, keys), and K."""
        row, column = self.place(me)
        return ds.rows(row, 64) @ k.cols(column, self.columns)


class GradientSums:
    """Made in the host function. A part lies in the order of the registers that hold it, so that threads add, and read,
    16 bytes side by side. ``ordered``: whether parts are added in the order of the keys. Consumers add straight from
    registers."""

    def __init__(self, tiles: GradientTiles, parts: Parts, ordered: bool) -> None:
        self._tiles, self._parts = tiles, parts
        self._rows = CONSUMERS * parts.slices * parts.rows  # of a tile
        self._total = nv.empty((tiles.count * self._rows, 256), nv.f32)
        self._turns = nv.zeros(tiles.count * CONSUMERS, nv.i32) if ordered else None

    def clear(self, tile: nv.Int) -> None:
        """Leave zeros for a tile, by 128 threads, before all."""
        row, column = nv.thread_id.x // 64, nv.thread_id.x % 64 * 4
        for i in range(0, self._rows, 2):
            self._total.store((tile * self._rows + i + row, column), nv.vector([nv.f32(0.0)] * 4))

    def begin(self, tile: nv.Int, me: nv.Int, turn: nv.Int) -> None:
        """Wait until ``turn`` other blocks have added their parts of a tile, where that has an order."""
        if self._turns is not None:
            with recomputing():
                one_thread = nv.warpgroup_thread() == 0
            if one_thread:
                while load_acquire(self._turns, tile * CONSUMERS + me) != turn:
                    pass
            nv.named_barrier_sync(MEET + me, 128)

    def add(self, part: Any, tile: nv.Int, me: nv.Int, slice: nv.Int = 0, first: int = 0) -> None:
        """Add a consumer's part of the tile of that number, or the piece of it from column ``first`` on."""
        (registers,) = part.registers()
        places = self._places(tile, me, slice)[first // 8 :]  # four registers for each 8 columns
        for i, place in enumerate(places[: len(registers) // 4]):
            self._total.atomic_add(place, nv.vector(registers[4 * i : 4 * i + 4]))

    def end(self, tile: nv.Int, me: nv.Int, turn: nv.Int) -> None:
        """This block has added all slices of its part."""
        if self._turns is not None:
            with recomputing():
                one_thread = nv.warpgroup_thread() == 0
            nv.named_barrier_sync(MEET + me, 128)
            if one_thread:
                nv.threadfence()
                store_release(self._turns, tile * CONSUMERS + me, turn + 1)

    def _places(self, tile: nv.Int, me: nv.Int, slice: nv.Int) -> list[tuple[nv.Int, nv.Int]]:
        """Where each four registers of this thread lie."""
        parts, thread = self._parts, nv.warpgroup_thread()
        start = ((tile * CONSUMERS + me) * parts.slices + slice) * parts.rows
        return [(start + thread // 64 + 2 * i, thread % 64 * 4) for i in range(parts.rows // 2)]

    def convert(self, dq: nv.Array, scale: nv.Number) -> None:
        """``dq``: the sums times ``scale``. A kernel of its own, from the last tile, which is in L2, to the first."""
        tiles, parts = self._tiles, self._parts
        dq_tma = nv.TMA(dq, tile=(1, parts.tile_m, 1, parts.size), swizzle=parts.swizzle)

        @nv.kernel(grid=tiles.count, block=128 * CONSUMERS, programmatic=True)
        def convert() -> None:
            nv.griddep_wait()
            number = tiles.count - 1 - nv.block_id.x
            tile = nv.smem((parts.tile_m, parts.size), dq.dtype, swizzle=parts.swizzle)
            me = nv.warpgroup_id()
            _, sequence, head, query = tiles.queries_of(number)
            for part in range(parts.slices):
                registers: list[Any] = []
                for place in self._places(number, me, part):
                    registers += list(self._total.vector(place, 4))
                found = nv.accumulator(64, parts.columns).with_registers([registers]) * scale
                if tiles.packed:
                    row, column = parts.place(me, part)
                    if parts.by_rows and column >= dq.shape[3]:  # all of it fills the head up
                        continue
                    mine = tiles.clipped(dq, sequence.q_batch, sequence.q_first, sequence.queries, head)
                    found.store(mine, (query + row, column), clip=True)
                else:
                    found.store(parts.of(tile, me, part))
            if not tiles.packed:
                nv.fence_proxy_async()
                nv.sync_threads()
                if nv.thread_id.x == 0:
                    dq_tma.store(tile, (sequence.q_batch, query, head, 0))
                    nv.bulk_commit_group()
                    nv.bulk_wait_group(0, read=True)

        convert()


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


class StagedSums(GradientSums):
    """The same, where a warp for each consumer adds its parts by bulk reductions from shared memory, and stores its dK
    and dV. The part of a tile comes a step late: with the next one, or after the last. With the first one of a block
    comes none; nor with the first one of a tile of keys, if shared memory holds one K alone (`Config`)."""

    def __init__(
        self, tiles: GradientTiles, parts: Parts, ordered: bool, dk: nv.Array, dv: nv.Array, config: Config
    ) -> None:
        super().__init__(tiles, parts, ordered)
        self._slots, self._late = config.parts, config.keys > 1
        self._tma = nv.TMA(self._total, tile=(parts.rows, 256))
        self._part = TileLayout.of(parts.rows, 256, 4, 0)
        self._layouts = [TileLayout.of(64, size, 2, 64 if size % 64 else 128) for size in config.sizes]
        self._stores = [
            nv.TMA(x, tile=(1, 64, 1, layout.cols), swizzle=layout.swizzle)
            for x, layout in zip((dk, dv), self._layouts, strict=True)
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
        for g in nv.range(self._tiles.group, unroll=False):
            number = self._tiles.first(at.number, at.sequence, at.kv_head * self._tiles.group + g)
            for i in nv.range(sight.count, unroll=False):
                self.take_part(me, pending)
                tile = sight.tile(i)
                pending = pending.then((number + tile) * CONSUMERS + me, nv.i32(sight.turn(tile)))
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
        self._meet(me, pending, pending.part < 0)
        if (nv.lane_id() == 0) & (pending.part >= 0):
            if self._turns is not None:
                while load_acquire(self._turns, pending.part) != pending.turn:
                    pass
            nv.fence_proxy_async()
            part = self._tile(self._part, nv.f32, me, pending.slot)
            self._tma.reduce_add(part, (pending.part * self._parts.rows, 0))
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

    def _meet(self, me: nv.Int, pending: Any, all: Any = False) -> None:
        """A slot is free, or ``all`` are; now something is there."""
        if nv.lane_id() == 0:
            nv.bulk_wait_group(self._slots - 1, read=True)
            if self._slots > 1:
                if all:
                    nv.bulk_wait_group(0, read=True)
        nv.sync_warp()
        nv.named_barrier_arrive(FREE + me, 160)
        if self._turns is not None:  # what has been read need not have been written
            if nv.lane_id() == 0:
                self._tell(pending)
            nv.sync_warp()
        nv.named_barrier_sync(WRITTEN + me, 160)
