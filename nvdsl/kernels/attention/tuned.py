"""`forward.attention` with the best known configuration: the model's choice, changed as a search on this machine found.

What is searched is near the model's choice: one or two of its fields have other values.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.attention import forward
from nvdsl.kernels.attention.config import Config, swizzle
from nvdsl.kernels.attention.splits import CLUSTERS

_ORDERS = tuple((("blocks", n), ("queue", queue)) for n, queue in ((0, False), (arch.SMS, False), (arch.SMS, True)))
_TILES = tuple((("tile_n", n),) for n in (48, 64, 80, 96, 112, 128, 144, 160, 176))
_SWITCHES = tuple(((name, value),) for name in ("pingpong", "lazy") for value in (False, True))
_HELD = tuple((("q_columns", n),) for n in (0, 64, 96, 128))
_RINGS = tuple(((name, n),) for name in ("k_stages", "stages", "q_stages") for n in (1, 2, 3, 4))
_CLUSTERS = tuple((("cluster", n),) for n in (1, *CLUSTERS))

CHANGES: tuple[forward.Changes, ...] = (
    (), *_TILES, *_SWITCHES, *_HELD, *_ORDERS, *_RINGS, *_CLUSTERS,
    *(a + b for a, b in itertools.product(_TILES, (*_SWITCHES[:2], *_ORDERS))),
)  # fmt: skip


def _changes(changes: forward.Changes, config: Config) -> bool:
    return not changes or any(getattr(config, name) != value for name, value in changes)


def _fits(changes: forward.Changes, config: Config, scores: Any, table: Any, q_starts: Any) -> bool:
    new = replace(config, **dict(changes))
    if new.cluster == 1 and not new.fits or new.cluster > 1 and (new.blocks or not new.room_for_sums):
        return False
    if new.queue and not new.blocks or new.blocks and (table is not None or q_starts is not None):
        return False
    if new.pingpong and new.consumers == 1 or new.itemsize == 1 and new.tile_n % 32:
        return False
    if new.q_columns % (swizzle(new.itemsize * new.sizes[0]) // new.itemsize) or new.q_columns > new.sizes[0]:
        return False
    if new.lazy and scores.told:
        return False
    return not config.page or new.tile_n == config.tile_n


SPACE = (
    nv.Space(changes=list(CHANGES))
    .where(_changes, "another configuration than the model's choice")
    .where(_fits, "the kernel has it for these options")
)

attention = nv.autotune(SPACE)(forward.attention)
