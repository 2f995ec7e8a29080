"""Which configuration runs: the legal ones (`tiles`) are weighed by one `model` of their time, and the least is taken.

`tuned` asks here for every product that was not tuned on this machine, and is not one of the exceptions in the table.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.model import Shape, times
from nvdsl.kernels.gemm.tiles import PARTS, legal

COMMON = (
    ("cooperative", 64, 24, 1, 1, True, 1, 1),
    ("cooperative", 64, 32, 1, 1, False, 1, 1),
    ("cooperative", 64, 80, 1, 1, False, 1, 1),
    ("cooperative", 128, 96, 1, 1, False, 1, 1),
    ("cooperative", 192, 144, 1, 1, False, 1, 1),
    ("cooperative", 192, 176, 1, 1, True, 1, 1),
    ("cooperative", 256, 160, 1, 2, True, 1, 1),
    ("pingpong", 64, 128, 1, 1, False, 1, 1),
    ("pingpong", 128, 112, 1, 2, True, 1, 1),
    ("pingpong", 128, 144, 2, 1, True, 1, 1),
    ("pingpong", 128, 176, 2, 1, True, 1, 1),
    ("pingpong", 128, 192, 2, 1, False, 1, 1),
    ("pingpong", 192, 112, 1, 2, False, 1, 1),
    ("splitk", 64, 64, 1, 1, False, 4, 1),
    ("splitk", 64, 64, 1, 1, False, 8, PARTS),
    ("splitk", 128, 128, 1, 1, False, 2, PARTS),
    ("streamk", 192, 128, 1, 1, False, 1, 1),
)
"""What a small B is multiplied by, and what a large one prefers, see `_key`. Each configuration is compiled on its own,
so that products of many sizes share a few: of so many, these lose the least on random shapes in the model, 2 % in the
mean (`benchmarks/common_configs.py`)."""
LARGE, WORTH = 1280, 1.08
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
THIN = (("cooperative", 64, 80, 1, 1, False, 1, 1), ("pingpong", 128, 192, 2, 1, False, 1, 1))
"""The same for products of one slice of K, where storing the result is all that counts."""
VECTOR = (("splitk", 64, 64, 1, 1, False, 8, PARTS),)
"""The same for one column, and OUTER for a K of 1: operands may then be read along the other axis, by other code."""
OUTER = (("pingpong", 128, 192, 2, 1, False, 1, 1),)

MENU = 6
"""Configurations beside one B."""
ROWS = sorted({round(2 ** (i / 4)) for i in range(12, 61)} | {*range(32, 256, 32), *range(256, 4097, 256)})
"""Rows of A for which a menu is made: four an octave from 8 to 32768, the multiples of 32 up to 256, and of 256 up to
4096."""
FEW_ROWS, FEW_COUNT = 256, 2
"""The rows up to which most products beside one B are, and how often each of `ROWS` up to there counts."""

NEAR, APART = 1.1, 5
"""A menu is made of what takes at most so many times the least time for one of every fifth of `ROWS`."""


@functools.lru_cache(maxsize=1 << 14)
def choose(shape: Shape, crowded: bool = False, sms: int = arch.SMS) -> Config:
    """The configuration of the fewest cycles on the `menu` of its weight. ``crowded``: beside an epilogue that needs
    many registers."""
    square = shape.n * shape.dtype.bytes % 128 == 0 if shape.a_major == "mn" else None
    on_grid = shape.on_grid and (shape.on_grid[0] if square is None else square, shape.on_grid[1])
    found = menu(replace(shape, m=shape.n, on_grid=on_grid), crowded, sms)
    if shape.m == shape.n or len(found) == 1:
        return found[0]
    return found[1:][int((weights(found[1:]) * times(found[1:], shape, sms)).argmin())]


@functools.lru_cache(maxsize=1 << 12)
def menu(weight: Shape, crowded: bool = False, sms: int = arch.SMS) -> tuple[Config, ...]:
    """The configurations of all products with one B, whatever the rows of A: few, since each is compiled on its own.

    The first is the best one for as many rows as columns (``weight``). The others are for all other rows: each is that
    which lowers the mean square of what is lost over `ROWS` the most; then each is exchanged for a better one, where
    there is one.
    """
    found = offered(weight, crowded)
    every = allowed(weight, crowded) if len(found) > len(UNALIGNED) else found
    square = every[int(times(every, weight, sms).argmin())]
    rows = np.array(ROWS)
    some = weights(found) * times(found, weight, sms, rows[::-APART])
    near = (some <= NEAR * some.min(axis=0)).any(axis=1)
    found = tuple(config for config, is_near in zip(found, near, strict=True) if is_near)
    counts = np.where(rows <= FEW_ROWS, FEW_COUNT, 1)
    each = weights(found) * times(found, weight, sms, rows)
    lost = each / each.min(axis=0) - 1

    def best(beside: list[int]) -> int:
        least = lost[beside].min(axis=0) if beside else np.inf
        return int((np.minimum(lost, least) ** 2 @ counts).argmin())

    chosen: list[int] = []
    while len(chosen) < min(MENU - 1, len(found)):
        chosen.append(best(chosen))
    for at in range(len(chosen)):
        chosen[at] = best(chosen[:at] + chosen[at + 1 :])
    return (square, *(found[i] for i in dict.fromkeys(chosen)))


def offered(weight: Shape, crowded: bool) -> tuple[Config, ...]:
    """What the products with one B are computed by, where nothing was tuned."""
    found = allowed(weight, crowded)
    if weight.n == 1 or weight.k == 1:
        few = VECTOR if weight.n == 1 else OUTER
    elif min(weight.n, weight.k) >= LARGE and not weight.unaligned:
        return found
    else:
        few = UNALIGNED if weight.unaligned else THIN if weight.k * weight.dtype.bytes <= 128 else COMMON
    keys = _keys(few, _turnable(weight))
    return tuple(config for config in found if _key(config) in keys) or found


@functools.lru_cache(maxsize=256)
def _allowed(dtype: Any, out: Any, acc: Any, crowded: bool, majors: tuple[str, str], turnable: bool) -> tuple[Config, ...]:
    found = legal(dtype, out, acc, crowded, *majors)
    return tuple(config for config in found if turnable or not config.swap_ab)


def allowed(weight: Shape, crowded: bool) -> tuple[Config, ...]:
    """All that can compute it: a transposed result is stored as it is, by TMA."""
    majors = weight.a_major, weight.b_major
    return _allowed(weight.dtype, weight.out, weight.acc, crowded, majors, _turnable(weight))


def _turnable(weight: Shape) -> bool:
    return not (weight.unaligned or weight.epilogue)


@functools.lru_cache(maxsize=256)
def weights(configs: tuple[Config, ...]) -> np.ndarray:
    """What the configurations' cycles are multiplied by where they are compared: one that isn't in COMMON has to save
    more. A column."""
    keys = _keys(COMMON, any(config.swap_ab for config in configs))
    return np.array([[1.0 if _key(config) in keys else WORTH] for config in configs])


Key = tuple[str, int, int, int, int, bool, int, int]


def _key(config: Config) -> Key:
    """Schedule, tile, cluster, whether operands are swapped, split and parts: all else follows."""
    shape = config.schedule, config.tile_m, config.tile_n, config.cluster_m, config.cluster_n
    return (*shape, config.swap_ab, config.split, config.parts)


def _keys(few: Sequence[Key], turnable: bool) -> frozenset[Key]:
    """``turnable``: operands may be swapped; else it is done without."""
    return frozenset(few if turnable else [(*key[:5], False, *key[6:]) for key in few])
