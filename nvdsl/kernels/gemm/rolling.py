"""How consumers with 128 rows each come to a tile's end: 64 rows after the other, so that products go on meanwhile."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue import PIECE_ROWS
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.ops.order import recomputing

LEAST = 2
"""Slices of a tile, see `Rolling`."""
Place = tuple[Any, Any, Any]  # batch, first row and first column of a tile


class Rolling:
    """A consumer whose sums are two blocks of 64 rows, ``upper`` and ``lower``, accumulators of their own.

        tensor cores   ... 30: upper, lower | 31: upper | lower        | 0: upper     | lower | 1: upper, lower ...
        consumer                                        | stores upper | stores lower |
                                                           slices of the next tile from here

    Of a tile's last slice the upper block is multiplied first, and its sums leave while the lower one is. Then the
    upper block begins the next tile, and meanwhile the lower sums leave. So tensor cores have something to multiply at
    a tile's end, and no sum is held longer than it would be anyway. (Two slices ahead or behind hold slots of the ring
    that the next ones need: slower, docs/measured/matmul.md.)

    What ptxas must see, as it else waits for all products before a sum is read, or serializes them (C7517, C7514): no
    two ways meet of which only one has products in flight, so that the last tile stands behind the loop; and in each
    turn of that a sum is added to before it is read, so that a tile has `LEAST` slices. Beyond the end of K they are
    zeros.
    """

    def __init__(self, gemm: Gemm, mainloop: Mainloop, consumer: nv.Int) -> None:
        self.gemm, self.mainloop, self.consumer = gemm, mainloop, consumer
        self.top, self.left = gemm.part(consumer)

    def run(self, first: nv.Int, step: nv.Int) -> None:
        """Multiply and store tiles ``first``, ``first + step``, ..., of which there is one at least."""
        mainloop, place = self.mainloop, self.mainloop.first
        state = mainloop.ring.consumer_state()
        upper = self._begin(state)
        for following in nv.range(first + step, self.gemm.tiles.count, step):
            held = self._prefetch(place)
            upper, lower, last, state = self._go_on(upper, state)
            self._store(upper, place, 0, held)
            upper = self._begin(state)
            nv.wgmma_wait(1)  # all but what has just begun
            mainloop.release(last)
            self._store(lower, place, 1, held)
            place = self.gemm.place(following, mainloop)
        held = self._prefetch(place)
        upper, lower, last, state = self._go_on(upper, state)
        self._store(upper, place, 0, held)
        mainloop.finish(last)
        self._store(lower, place, 1, held)

    def _begin(self, state: nv.PipelineState) -> nv.Accumulator:
        """The products of the upper block with a tile's first slice."""
        self.mainloop.wait(state)
        return self._add(None, state, 0)

    def _go_on(self, upper: nv.Accumulator, state: nv.PipelineState) -> tuple[Any, Any, Any, Any]:
        """All other products of a tile, until the upper block's sums are there. Returns both, the last slot and the
        ring's next position."""
        mainloop = self.mainloop
        lower, last, state = self._add(None, state, 1), state, state.next()
        for _ in nv.range(1, mainloop.steps, unroll=False):
            mainloop.wait(state)
            upper, lower = self._add(upper, state, 0), self._add(lower, state, 1)
            nv.wgmma_wait(2)  # the slice before this one is done
            mainloop.release(last)
            last = state
            state = state.next()
        nv.wgmma_wait(1)
        return upper, lower, last, state

    def _add(self, acc: nv.Accumulator | None, slot: nv.PipelineState, block: int) -> nv.Accumulator:
        """A slot's products of a block, a group of their own. ``acc``: its sums until then, None: none."""
        if acc is None:
            acc = nv.accumulator(PIECE_ROWS, self.gemm.config.cols, self.gemm.acc_dtype)
        product = self.mainloop.product(slot, self.top + block * PIECE_ROWS, self.left, PIECE_ROWS)
        return acc.mma(product.a, product.b)

    def _at(self, place: Place, block: int) -> Place:
        batch, row, col = place
        return batch, row + self.top + block * PIECE_ROWS, col + self.left

    def _prefetch(self, place: Place) -> list[Any]:
        return [self.gemm.epilogue.prefetch(*self._at(place, block), PIECE_ROWS) for block in (0, 1)]

    def _store(self, acc: nv.Accumulator, place: Place, block: int, held: list[Any]) -> None:
        with recomputing():  # no addresses are kept while tiles are multiplied
            self.gemm.epilogue.store(acc, *self._at(place, block), self.consumer, held[block])
