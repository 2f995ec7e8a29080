"""dK and dV where several blocks have the same keys: each leaves its part in f32, and another kernel adds them up."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile
from nvdsl.ops.order import recomputing

PIECE = 32
"""Columns of an accumulator that a block adds up; of 64 rows."""
ACCESS = 8
"""16-bit elements of an access of 16 bytes."""


class GradientShares:
    """Made in the host function. A part lies in the order of the registers that hold it, so that threads store, and
    read, 16 bytes side by side. Parts are added in their order: the results are the same bits each time.

    A consumer of `backward` has 64 keys of dK and of dV at its end, one of `backward_wide` 64 keys of half of their
    columns; one of `backward_apart` has dV, the other dK, 64 columns by all keys of each accumulator."""

    def __init__(self, tiles: GradientTiles, config: Config) -> None:
        assert tiles.shares is not None
        self._tiles, self._config, self._count = tiles, config, tiles.shares.value
        of_each = [size // (4 if config.wide else 2) for size in config.sizes]  # registers
        if config.apart:
            of_each = [size // 64 * config.tile_n // 2 for size in config.sizes]
        self._of_k = of_each[0]
        self._rows = (max if config.apart else sum)(of_each) // 2  # of 256 f32, for a consumer
        self._parts = nv.empty((tiles.blocks * CONSUMERS * self._rows, 256), nv.f32)

    def leave(self, grads: Any, at: KeyTile, me: nv.Int) -> None:
        """A consumer's accumulators, as they are."""
        registers = [x for grad in grads for of_rows in grad.registers() for x in of_rows]
        with recomputing():  # no addresses are kept during the loop
            for place, i in self._places(at.block, me, 0, len(registers)):
                self._parts.store(place, nv.vector(registers[i : i + 4]))

    def _places(self, block: nv.Int, me: nv.Int, first: nv.Int, count: int) -> list[tuple[tuple[nv.Int, nv.Int], int]]:
        """Where each four of this thread's registers from ``first`` on lie, and their number from there."""
        thread = nv.warpgroup_thread()
        start = (block * CONSUMERS + me) * self._rows + first // 2 + thread // 64
        return [((start + i // 2, thread % 64 * 4), i) for i in range(0, count, 4)]

    def add(self, dk: nv.Array, dv: nv.Array, scale: nv.Number) -> None:
        """``dk``: the sums of the parts times ``scale``, ``dv``: the sums. A kernel of its own."""
        tiles, config = self._tiles, self._config
        of_k, of_v = (config.tile_n * size // (64 * PIECE) for size in config.sizes)

        @nv.kernel(grid=tiles.key_tiles * (of_k + of_v), block=128, programmatic=True)
        def add_shares() -> None:
            tile, piece = nv.block_id.x // (of_k + of_v), nv.block_id.x % (of_k + of_v)
            nv.griddep_wait()
            at = tiles.keys_of(tile * self._count, True)
            if piece < of_k:
                self._add(at, piece, 0, dk, scale)
            else:
                self._add(at, piece - of_k, 1, dv, 1.0)

        add_shares()

    def _add(self, at: KeyTile, piece: nv.Int, which: int, out: nv.Array, factor: nv.Number) -> None:
        """A piece of dK (``which`` is 0) or of dV."""
        config, size = self._config, self._config.sizes[which]
        me: nv.Int
        key: nv.Int
        if config.apart:  # keys are the columns of an accumulator
            me, first = 1 - which, piece * (PIECE // 2)
            along = config.tile_n // PIECE
            key, column = piece % along * PIECE, piece // along * 64
            room = nv.smem((PIECE, 64), out.dtype, swizzle=128)
        else:
            each = size // PIECE // (CONSUMERS if config.wide else 1)
            me, number = piece // each, piece % each
            first = number * (PIECE // 2) + which * self._of_k
            key, column = (0, piece * PIECE) if config.wide else (me * 64, number * PIECE)
            room = nv.smem((64, PIECE), out.dtype, swizzle=64)
        total = nv.accumulator(64, PIECE)
        for share in nv.range(self._count, unroll=False):
            registers: list[Any] = []
            for place, _ in self._places(at.block + share, me, first, PIECE // 2):
                registers += list(self._parts.vector(place, 4))
            total = total + nv.accumulator(64, PIECE).with_registers([registers])
        (total * factor).store(room.T if config.apart else room)
        nv.sync_threads()
        one, (rows, columns) = at.sequence, room.shape
        across = columns // ACCESS
        for access in range(0, rows * across, 128):
            row, col = (access + nv.thread_id.x) // across, nv.thread_id.x % across * ACCESS
            its = at.key + key + row
            there = (its < one.keys) & (column + col < out.shape[3])
            values = room.vector((row, col), ACCESS)
            out.store((one.k_batch, one.k_first + its, at.kv_head, column + col), values, predicate=there)
