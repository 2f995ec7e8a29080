"""dQ of attention's gradients: blocks add up their parts in f32 in global memory; then it is converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_tiles import GradientTiles
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputing

MEET = 2
"""The first of two named barriers, at each of which a consumer meets itself."""
TELLS = 32
"""The thread of a consumer that tells other blocks what has been added: another warp than the one that waits."""


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
        self.turns = nv.zeros(tiles.count * CONSUMERS, nv.i32) if ordered else None

    def clear(self, tile: nv.Int) -> None:
        """Leave zeros for a tile, by 128 threads, before all."""
        row, column = nv.thread_id.x // 64, nv.thread_id.x % 64 * 4
        for i in range(0, self._rows, 2):
            self.total.store((tile * self._rows + i + row, column), nv.vector([nv.f32(0.0)] * 4))

    def allocate(self) -> None:
        """Shared memory for what a consumer has added to last: nothing yet. In the kernel; the block meets afterwards.
        """
        if self.turns is not None:
            self._added = nv.smem((CONSUMERS, 2), nv.i32)
            if nv.thread_id.x < CONSUMERS:
                self._added[nv.thread_id.x, 0] = -1

    def begin(self, tile: nv.Int, me: nv.Int, turn: nv.Int) -> None:
        """Wait until ``turn`` other blocks have added their parts of a tile, where that has an order."""
        if self.turns is not None:
            with recomputing():
                one_thread = nv.warpgroup_thread() == 0
            if one_thread:
                while load_acquire(self.turns, tile * CONSUMERS + me) != turn:
                    pass
            nv.named_barrier_sync(MEET + me, 128)

    def add(self, part: Any, tile: nv.Int, me: nv.Int, slice: nv.Int = 0, first: int = 0) -> None:
        """Add a consumer's part of the tile of that number, or the piece of it from column ``first`` on."""
        (registers,) = part.registers()
        places = self._places(tile, me, slice)[first // 8 :]  # four registers for each 8 columns
        for i, place in enumerate(places[: len(registers) // 4]):
            self.total.atomic_add(place, nv.vector(registers[4 * i : 4 * i + 4]))

    def end(self, tile: nv.Int, me: nv.Int, turn: nv.Int) -> None:
        """This block has added all slices of its part. The next one is told of it later, by `tell`."""
        if self.turns is not None:
            with recomputing():
                one_thread = nv.warpgroup_thread() == TELLS
            if one_thread:
                self._added[me, 0] = tile * CONSUMERS + me
                self._added[me, 1] = turn + 1

    def tell(self, me: nv.Int) -> None:
        """The next block may add its part to what this consumer has added to last, all of whose threads have met since:
        a step later the additions are done, and nobody waits for them here."""
        if self.turns is not None:
            with recomputing():
                one_thread = nv.warpgroup_thread() == TELLS
            if one_thread:
                if self._added[me, 0] >= 0:
                    store_release(self.turns, self._added[me, 0], self._added[me, 1])

    def _places(self, tile: nv.Int, me: nv.Int, slice: nv.Int) -> list[tuple[nv.Int, nv.Int]]:
        """Where each four registers of this thread lie."""
        parts, thread = self.parts, nv.warpgroup_thread()
        start = ((tile * CONSUMERS + me) * parts.slices + slice) * parts.rows
        return [(start + thread // 64 + 2 * i, thread % 64 * 4) for i in range(parts.rows // 2)]

    def convert(self, dq: nv.Array, scale: nv.Number) -> None:
        """``dq``: the sums times ``scale``. A kernel of its own, from the last tile, which is in L2, to the first."""
        tiles, parts = self.tiles, self.parts
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
