"""Which configuration runs: the legal ones (`tiles`) are weighed by one `model` of their time, and the least is taken.

`tuned` asks here for every product that was not tuned on this machine, and is not one of the exceptions in the table.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.model import Shape, times
from nvdsl.kernels.gemm.tiles import PARTS, legal

Key = tuple[str, int, int, int, int, bool, int, int]

COMMON = (
    ("cooperative", 64, 24, 1, 1, True, 1, 1),
    ("cooperative", 64, 32, 1, 1, False, 1, 1),
    ("cooperative", 64, 80, 1, 1, False, 1, 1),
    ("cooperative", 64, 112, 1, 1, False, 1, 1),
    ("cooperative", 128, 104, 1, 1, True, 1, 1),
    ("cooperative", 192, 160, 1, 2, False, 1, 1),
    ("cooperative", 192, 176, 1, 2, True, 1, 1),
    ("cooperative", 256, 144, 1, 2, True, 1, 1),
    ("cooperative", 256, 160, 1, 2, True, 1, 1),
    ("cooperative", 256, 176, 1, 1, True, 1, 1),
    ("cooperative", 256, 200, 1, 2, False, 1, 1),
    ("splitk", 64, 64, 1, 1, False, 4, 1),
    ("splitk", 64, 64, 1, 1, False, 8, PARTS),
    ("splitk", 128, 128, 1, 1, False, 2, PARTS),
    ("streamk", 128, 128, 1, 1, False, 1, 1),
    ("streamk", 128, 160, 1, 1, False, 1, 1),
    ("streamk", 192, 128, 1, 1, False, 1, 1),
)
"""What a small B is multiplied by, and what a large one prefers, see `key`. Each configuration is compiled on its own,
so that products of many sizes share a few: of so many, these lose the least on random shapes in the model, 2 % in the
mean (`benchmarks/common_configs.py`)."""
LARGE, WORTH = 4096, 1.12
"""The least extent of a B from which all configurations are worth compiling, and how much longer COMMON may take then.
"""
UNALIGNED = (
    ("cooperative", 64, 64, 1, 1, False, 1, 1),
    ("cooperative", 64, 128, 1, 1, False, 1, 1),
    ("cooperative", 128, 128, 1, 1, False, 1, 1),
    ("cooperative", 192, 112, 1, 1, False, 1, 1),
    ("pingpong", 128, 192, 2, 1, False, 1, 1),
    ("splitk", 64, 64, 1, 1, False, 8, PARTS),
    ("streamk", 128, 128, 1, 1, False, 1, 1),
)
"""All that is chosen, whatever the size of B, where the result's rows are none that TMA can store. That takes other
code, so they are few."""
OUTER = (("cooperative", 64, 112, 1, 1, False, 1, 1),)
"""The same for a K of 1: operands may then be read along the other axis, by other code."""

BESIDE = 40
"""Registers of a consumer's thread beside the sums that an epilogue of few operands needs, and a store without TMA."""
MENU, NEAR, MOST_MENUS = 5, 1.02, 1 << 12
"""Configurations beside one B: 6 are compiled, for one row has a kernel of its own (`gemv`). And how much longer one of
them may take than another that would be compiled, and how many B's are remembered."""

_menus: dict[Any, list[Config]] = {}
_choosing = threading.Lock()


@functools.lru_cache(maxsize=1 << 14)
def choose(shape: Shape, crowded: bool = False, sms: int = arch.SMS) -> Config:
    """The configuration of the fewest cycles, or one that the same B was multiplied by before and that is as good.

    Each configuration is compiled on its own. So there are `MENU` beside one B, whatever the rows of A: those of the
    first products that had no good one yet. ``crowded``: beside an epilogue that needs many registers.
    """
    found = offered(shape, crowded)
    each = times(found, shape, sms)
    if shape.m != shape.n:  # a square, of which there is one beside a B, is worth its own
        each = weights(found) * each
    cycles = dict(zip(found, each[:, 0].tolist(), strict=True))
    best = min(found, key=cycles.__getitem__)
    square = shape.n * shape.dtype.bytes % 128 == 0 if shape.a_major == "mn" else None
    on_grid = shape.on_grid and (shape.on_grid[0] if square is None else square, shape.on_grid[1])
    with _choosing:
        if len(_menus) >= MOST_MENUS:
            _menus.clear()
        menu = _menus.setdefault((replace(shape, m=0, on_grid=on_grid), crowded, sms), [])
        known = min((config for config in menu if config in cycles), key=cycles.__getitem__, default=None)
        if known is not None and (len(menu) >= MENU or cycles[known] <= NEAR * cycles[best]):
            return known
        menu.append(best)
        return best


def offered(shape: Shape, crowded: bool) -> tuple[Config, ...]:
    """What a product is computed by, where nothing was tuned."""
    found = allowed(shape, crowded)
    few: Sequence[Key] = COMMON
    if shape.k == 1:
        few = OUTER
    elif shape.unaligned:
        few = UNALIGNED
    elif min(shape.n, shape.k) >= LARGE or shape.m == shape.n:
        return found
    keys = keys_of(few, _turnable(shape))
    return tuple(config for config in found if key(config) in keys) or found


@functools.lru_cache(maxsize=256)
def _allowed(
    dtype: Any, out: Any, acc: Any, crowded: bool, majors: tuple[str, str], turnable: bool
) -> tuple[Config, ...]:
    found = legal(dtype, out, acc, crowded, *majors)
    if turnable:
        return found
    spare = lambda config: config.registers[1] - config.accumulator_registers(acc)  # noqa: E731
    return tuple(config for config in found if not config.swap_ab and spare(config) >= BESIDE)


def allowed(weight: Shape, crowded: bool) -> tuple[Config, ...]:
    """All that can compute it: a transposed result is stored as it is, by TMA, and an epilogue needs registers."""
    majors = weight.a_major, weight.b_major
    return _allowed(weight.dtype, weight.out, weight.acc, crowded, majors, _turnable(weight))


def _turnable(weight: Shape) -> bool:
    return not (weight.unaligned or weight.epilogue)


@functools.lru_cache(maxsize=256)
def weights(configs: tuple[Config, ...]) -> np.ndarray:
    """What the configurations' cycles are multiplied by where they are compared: one that isn't in COMMON has to save
    more. A column."""
    keys = keys_of(COMMON, any(config.swap_ab for config in configs))
    return np.array([[1.0 if key(config) in keys else WORTH] for config in configs])


def key(config: Config) -> Key:
    """Schedule, tile, cluster, whether operands are swapped, split and parts: all else follows."""
    shape = config.schedule, config.tile_m, config.tile_n, config.cluster_m, config.cluster_n
    return (*shape, config.swap_ab, config.split, config.parts)


def keys_of(few: Sequence[Key], turnable: bool) -> frozenset[Key]:
    """``turnable``: operands may be swapped; else it is done without."""
    return frozenset(few if turnable else [(*key[:5], False, *key[6:]) for key in few])
