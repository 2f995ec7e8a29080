"""Storing by TMA or by threads, as a run's sizes and strides say: one kernel for both kinds of result."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.clamped_index import multiple
from nvdsl.kernels.blocks.direct_epilogue import VectorEpilogue
from nvdsl.kernels.blocks.epilogue import TmaEpilogue
from nvdsl.kernels.blocks.realigned import VECTOR
from nvdsl.kernels.blocks.turned_epilogue import TurnedEpilogue
from nvdsl.lang.extents import shaped

EITHER = "either"
"""What a kernel is told in place of True where `EitherEpilogue` can store."""


class EitherEpilogue(VectorEpilogue):
    """`TmaEpilogue` where rows of the result start and end at multiples of 16 bytes, else `VectorEpilogue`.

    Pieces are written to shared memory the same way for both, so that only what sends them is there twice.
    """

    _tensor_maps, _store, drain = TmaEpilogue._tensor_maps, TmaEpilogue._store, TmaEpilogue.drain
    by_tma: Any
    """Whether TMA can store the result: a value of the host function, or of Python's where that is promised."""

    def _described(self) -> nv.Array:
        """``out`` where TMA can store it. Else its first vector, in whose place nothing is stored: there is no tensor
        map of other rows."""
        *outer, cols = self.out.shape
        *steps, _ = self.out.strides
        unit = VECTOR // self.dtype.bytes
        if all(multiple(x) % unit == 0 for x in (cols, *steps)):
            self.by_tma = True
            return self.out
        self.by_tma = cols % unit == 0
        for extent, step in zip(outer, steps, strict=True):
            self.by_tma = self.by_tma & ((nv.i32(step) % unit == 0) | (extent == 1))
        shape = [nv.select(self.by_tma, extent, 1) for extent in outer]
        steps = [nv.max(step // unit * unit, unit) for step in steps]
        return shaped(self.out, self.dtype, [*shape, nv.select(self.by_tma, cols, unit)], [*steps, 1])

    def _send(
        self, piece: nv.Tile, by: nv.TMA | None, batch: Any, row: Any, col: Any, end: Any, leader: Any
    ) -> None:
        if self.by_tma:
            super()._send(piece, by, batch, row, col, end, leader)
        else:
            *_, first, left = self._at(batch, row, col)
            self._copy(piece, batch, first, left, self.out.shape[-2] if end is None else end)


class TurnedEitherEpilogue(TurnedEpilogue, EitherEpilogue):
    """`EitherEpilogue` for accumulators of ``out.T``."""
