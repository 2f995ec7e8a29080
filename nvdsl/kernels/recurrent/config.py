"""How a sequence is spread over the blocks that run at the same time."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.kernels.recurrent.exchange import ROWS

_MOST_COLUMNS = 256
"""Of an accumulator."""

_SLICES = ((128, 4), (64, 3))
"""Columns of a slot, and how many slots there are at least. For a gradient of 128 steps x 256 x 1024, whose weights
leave room for 3 slots of 128 columns or 6 of 64, these took 1.71 and 1.63 ms."""

_MOST_STAGES = 6


@dataclass(frozen=True)
class Config:
    """``units``: hidden units of a block. ``consumers``: warpgroups of 64 rows of the batch each. ``slice_cols``: of h
    in a slot, ``stages``: slots of each consumer."""

    units: int
    consumers: int
    slice_cols: int
    stages: int

    @property
    def threads(self) -> int:
        return 128 * (1 + self.consumers)

    def writers(self, hidden: int) -> int:
        """Blocks that share all hidden units."""
        return nv.cdiv(hidden, self.units)

    def rows(self, hidden: int, sms: int) -> int:
        """Of the batch that one launch takes."""
        return sms // self.writers(hidden) * self.consumers * ROWS


def choose(hidden: int, columns: int, per_unit: int, batch: int, sms: int) -> Config | None:
    """The configuration for ``hidden`` units. ``columns``: of what is exchanged; ``per_unit``: columns of the product
    for each unit. None where the weights are more than shared memory holds.

    That with the fewest launches for the batch. Among these a block with one consumer goes first: it loads half as many
    rows in each step as one with two, and what blocks load bounds a step. (100 steps back x 100 x 1000 took 1.45 ms
    with one consumer and 16 units, 2.48 with two and 8.) Then the fewest units a block, that is, the most blocks.
    """
    best: tuple[tuple[int, int, int], Config] | None = None
    for consumers in (1,) if batch <= ROWS else (1, 2):
        for units in range(8, _MOST_COLUMNS // per_unit + 1, 8):
            config = _with(units, consumers, hidden, columns, per_unit)
            rows = 0 if config is None else config.rows(hidden, sms)
            if config is not None and rows > 0:
                key = nv.cdiv(batch, rows), consumers, units
                best = min(best or (key, config), (key, config), key=lambda one: one[0])
    return None if best is None else best[1]


def _with(units: int, consumers: int, hidden: int, columns: int, per_unit: int) -> Config | None:
    """As many slots as fit beside the weights."""
    for slice_cols, least in _SLICES:
        slices = columns // hidden * nv.cdiv(hidden, slice_cols)  # kind by kind
        left = arch.MAX_SMEM_PER_BLOCK - 2048 - 2 * slices * slice_cols * units * per_unit
        stages = left // (2 * ROWS * slice_cols * consumers)
        if stages >= least:
            return Config(units, consumers, slice_cols, min(stages, slices + 1, _MOST_STAGES))
    return None
