"""Rows on their way: those of a group's next turns are copied to shared memory while it works on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.row import Parts, Row


class Ahead:
    """A ring of ``config.ahead`` slots for each group of threads. A slot holds what the group's block has of a row of
    each of ``arrays``, brought by bulk copies (PTX ISA, cp.async.bulk). The group's rows are ``first``,
    ``first + step``, ... of all.

    All threads make it, and pass the `nv.PipelineState` of a turn.
    """

    def __init__(self, arrays: Sequence[nv.Array], config: RowsConfig, first: nv.Int, step: nv.Int) -> None:
        self.arrays, self.config, self.first, self.step = arrays, config, first, step
        self.rows, self.cols = arrays[0].shape
        self.width = config.wide * config.lanes
        self.group, self.lane = nv.thread_id.x // config.lanes, nv.thread_id.x % config.lanes
        slots = config.groups * config.ahead
        self.memory = [nv.smem(slots * config.steps * self.width, x.dtype) for x in arrays]
        self.arrived = nv.Mbarriers(slots, arrivals=1)

    def begin(self) -> None:
        """Start the copies of the first turns."""
        for turn in range(self.config.ahead):
            row = self.first + turn * self.step
            if self.lane == 0 and row < self.rows:
                self._fetch(turn, row)

    def _slot(self, stage: nv.Int) -> nv.Int:
        return self.group * self.config.ahead + stage

    def _fetch(self, stage: nv.Int, row: nv.Int) -> None:
        """The columns of a block lie in one piece for each access; in a single one where the row has one block."""
        config, slot = self.config, self._slot(stage)
        pieces, width = (config.steps, self.width) if config.cluster > 1 else (1, config.steps * self.width)
        starts, counts = [], []
        for piece in range(pieces):
            start = nv.i32(piece * config.stride)
            if config.cluster > 1:
                start = start + nv.cluster_rank() * self.width
            starts.append(start)
            counts.append(nv.max(nv.min(width, nv.i32(self.cols) - start), 0))
        arrived = self.arrived[slot]
        arrived.arrive_expect_tx(sum(counts) * sum(x.dtype.bytes for x in self.arrays))
        for piece in range(pieces):
            if counts[piece] > 0:
                for x, memory in zip(self.arrays, self.memory, strict=True):
                    into = memory.view(((slot * config.steps + piece) * self.width,), (width,))
                    source = x.view((row, starts[piece]), (1, self.config.wide))  # its start
                    nv.bulk_load(into, source, counts[piece] * x.dtype.bytes, arrived)

    def read(self, row: Row, state: nv.PipelineState) -> list[Parts]:
        """This thread's elements of the arrays' rows, when they have come."""
        slot = self._slot(state.stage)
        if row.exists:
            self.arrived[slot].wait(state.phase)
        first = slot * self.config.steps * self.width + self.lane * self.config.wide
        at: Callable[[int], Any] = lambda step: first + step * self.width  # noqa: E731
        return [row.read(memory, at=at) for memory in self.memory]

    def next(self, row: Row, state: nv.PipelineState) -> None:
        """Refill the slot. An exchange of the group came before, so that all have read it."""
        later = row.index + self.config.ahead * self.step
        if self.config.lanes <= 32:
            nv.sync_warp()
        if self.lane == 0 and later < self.rows:
            self._fetch(state.stage, later)
