"""Rows in shared memory: bulk copies bring them, and threads read their elements there as often as they need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import nvdsl as nv
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.lang.packing import as_words

if TYPE_CHECKING:
    from nvdsl.kernels.rows.row import Parts, Row


def widened(part: Any) -> Any:
    """A vector in f32. Of bf16, two elements at a time: one is a shift of their word, the other its upper half. Taken
    one by one, each upper half would be moved down first."""
    if part.dtype is not nv.bf16 or part.shape[0] % 2:
        return part.to(nv.f32)
    words = as_words([part], nv.bf16)
    return nv.vector([nv.bitcast(x, nv.f32) for word in words for x in (word << 16, word & -65536)])


class Staged:
    """``config.slots`` slots for each group of threads. A slot holds what the group's block has of a row of each of
    ``arrays``, brought by bulk copies (PTX ISA, cp.async.bulk), which complete on the slot's mbarrier.

    All threads of a block make it.
    """

    def __init__(self, arrays: Sequence[nv.Array], config: RowsConfig) -> None:
        self.arrays, self.config = arrays, config
        self.group, self.lane = nv.thread_id.x // config.lanes, nv.thread_id.x % config.lanes
        slots = config.groups * config.slots
        self.memory = [nv.smem(slots * config.part, x.dtype) for x in arrays]
        self.arrived = nv.Mbarriers(slots, arrivals=1) if config.bulk else None

    def _slot(self, stage: nv.Int) -> nv.Int:
        return self.group * self.config.slots + stage

    def fetch(self, row: Row, stage: nv.Int = 0) -> None:
        """Start the copies of a row, where there is one. By all threads of the group."""
        if self.arrived is None:
            first = self._slot(stage) * self.config.part + self.lane * self.config.wide
            for step in range(self.config.steps):
                if row.exists and row.inside(step):
                    for x, memory in zip(self.arrays, self.memory, strict=True):
                        nv.cp_async(memory, first + step * self.config.width, x, row.at(step), self.config.wide)
            nv.cp_async_commit()
            return
        if self.lane == 0 and row.exists:
            slot, count = self._slot(stage), row.end - row.begin
            arrived = self.arrived[slot]
            arrived.arrive_expect_tx(count * sum(x.dtype.bytes for x in self.arrays))
            for x, memory in zip(self.arrays, self.memory, strict=True):
                into = memory.view((slot * self.config.part,), (self.config.part,))
                source = x.view((row.index, row.begin), (1, self.config.wide))  # its start
                nv.bulk_load(into, source, count * x.dtype.bytes, arrived)

    def parts(self, row: Row, state: nv.PipelineState | None = None, missing: float = 0.0) -> list[Parts]:
        """This thread's elements of the arrays' rows, when they have come. Behind the end of a row there is
        ``missing``, written there by the thread that reads it."""
        config = self.config
        slot = self._slot(0 if state is None else state.stage)
        first = slot * config.part + self.lane * config.wide
        for step in range(config.steps):
            if not row.everyone(step):
                self._fill(row, step, first, missing)
        if self.arrived is None:
            nv.cp_async_wait(max(config.slots - 2, 0))
        elif row.exists:
            self.arrived[slot].wait(0 if state is None else state.phase)
        return [_reader(memory, first, config) for memory in self.memory]

    def _fill(self, row: Row, step: int, first: Any, missing: float) -> None:
        if not (row.exists and row.inside(step)):
            for memory in self.memory:
                nothing = nv.vector([missing] * self.config.wide, memory.dtype)
                memory.store_vector(nothing, first + step * self.config.width)


def _reader(memory: nv.Array, first: Any, config: RowsConfig) -> Parts:
    return lambda step: widened(memory.vector(first + step * config.width, config.wide))
