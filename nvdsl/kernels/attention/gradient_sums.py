"""dQ of attention's gradients: blocks add up their parts in f32 in global memory; then it is converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Seeing
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputing

TURN, ADDED = 2, 6
"""The first of two named barriers each, at which a consumer meets the warp that waits for its turns: it may add its
part; or has."""


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
        self.tiles, self.parts = tiles, parts
        self._rows = CONSUMERS * parts.slices * parts.rows  # of a tile
        self.total = nv.empty((tiles.count * self._rows, 256), nv.f32, in_turn=ordered)
        self.turns = nv.empty(tiles.count * CONSUMERS, nv.i32) if ordered else None

    def clear(self, tile: nv.Int, piece: nv.Int, pieces: int) -> None:
        """Leave zeros for a piece of a tile, by 128 threads, before all."""
        row, column, each = nv.thread_id.x // 64, nv.thread_id.x % 64 * 4, self._rows // pieces
        for i in range(0, each, 2):
            self.total.store((tile * self._rows + piece * each + i + row, column), nv.vector([nv.f32(0.0)] * 4))
        if self.turns is not None:
            self.turns.store(tile * CONSUMERS + row, nv.i32(0), predicate=(column == 0) & (piece == 0))

    def watch(self, at: KeyTile, sight: Seeing, me: nv.Int) -> None:
        """Wait for the turn of each of a consumer's parts, let it `begin` then, and tell the next block when the part
        has been added: the consumer waits for neither. By a warp of the producer's, where parts have an order."""
        assert self.turns is not None
        outer, inner = sight.nested
        for i in nv.range(outer, unroll=False):
            for j in nv.range(inner, unroll=False):
                with recomputing():  # the producer's warps have few registers
                    tile, g = sight.nested_step(i, j)
                    number = self.tiles.first(at.number, at.sequence, at.head + g)
                    part, turn = (number + tile) * CONSUMERS + me, sight.turn(tile)
                    leader = nv.lane_id() == 0
                if leader:
                    while load_acquire(self.turns, part) != turn:
                        pass
                nv.named_barrier_sync(TURN + me, 160)
                nv.named_barrier_sync(ADDED + me, 160)
                if leader:
                    store_release(self.turns, part, turn + 1)

    def begin(self, me: nv.Int) -> None:
        """Wait until this block may add a consumer's part of a tile, where that has an order."""
        if self.turns is not None:
            nv.named_barrier_sync(TURN + me, 160)

    def add(self, part: Any, tile: nv.Int, me: nv.Int, slice: nv.Int = 0, first: int = 0) -> None:
        """Add a consumer's part of the tile of that number, or the piece of it from column ``first`` on."""
        (registers,) = part.registers()
        places = self._places(tile, me, slice)[first // 8 :]  # four registers for each 8 columns
        for i, place in enumerate(places[: len(registers) // 4]):
            self.total.atomic_add(place, nv.vector(registers[4 * i : 4 * i + 4]))

    def end(self, me: nv.Int) -> None:
        """A consumer has added all slices of its part."""
        if self.turns is not None:
            nv.named_barrier_arrive(ADDED + me, 160)

    def _places(self, tile: nv.Int, me: nv.Int, slice: nv.Int) -> list[tuple[nv.Int, nv.Int]]:
        """Where each four registers of this thread lie."""
        parts, thread = self.parts, nv.warpgroup_thread()
        start = ((tile * CONSUMERS + me) * parts.slices + slice) * parts.rows
        return [(start + thread // 64 + 2 * i, thread % 64 * 4) for i in range(parts.rows // 2)]

    def convert(self, dq: nv.Array, scale: nv.Number, clear: Callable[[nv.Int, nv.Int], None]) -> None:
        """``dq``: the sums times ``scale``. A kernel of its own, from the last tile, which is in L2, to the first.
        ``clear``: what a warp of each block does besides; it takes the block's number, and how many there are."""
        tiles, parts = self.tiles, self.parts
        dq_tma = nv.TMA(dq, tile=(1, parts.tile_m, 1, parts.size), swizzle=parts.swizzle)

        @nv.kernel(grid=tiles.count, block=128 * CONSUMERS, programmatic=True)
        def convert() -> None:
            nv.griddep_wait()
            if nv.warp_id() == 0:
                clear(nv.block_id.x, tiles.count)
            number = tiles.count - 1 - nv.block_id.x
            tile = nv.smem((parts.tile_m, parts.size), dq.dtype, swizzle=parts.swizzle)
            me = nv.warpgroup_id()
            _, sequence, head, query = tiles.queries_of(number)
            for part in range(parts.slices):
                registers: list[Any] = []
                for place in self._places(number, me, part):
                    registers += list(self.total.vector(place, 4))
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
