"""Which configuration runs: the legal ones (`tiles`) are weighed by one `model` of their time, and the least is taken.

`tuned` asks here for every product that was not tuned on this machine, and is not one of the exceptions in the table.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.model import Shape, times
from nvdsl.kernels.gemm.model import cycles as model_cycles
from nvdsl.kernels.gemm.tiles import MOST_PARTS, PARTS, SECTOR, Tile, legal

MAJORS = "k", "mn"
Key = tuple[str, int, int, int, int, bool, int, int]

COMMON = (
    ("cooperative", 64, 16, 1, 1, True, 1, 1),
    ("cooperative", 64, 128, 1, 1, False, 1, MOST_PARTS),
    ("cooperative", 128, 64, 1, 1, True, 1, 1),
    ("cooperative", 192, 160, 1, 1, True, 1, 1),
    ("cooperative", 192, 192, 2, 1, True, 1, 1),
    ("pingpong", 64, 128, 4, 1, False, 1, 1),
    ("pingpong", 128, 112, 2, 2, True, 1, 1),
    ("pingpong", 128, 176, 1, 1, False, 1, 1),
    ("pingpong", 128, 192, 2, 2, False, 1, 1),
    ("pingpong", 192, 128, 1, 2, False, 1, 1),
    ("splitk", 64, 64, 1, 1, False, 4, 1),
    ("splitk", 128, 128, 1, 1, False, 1, PARTS),
)
"""What is good for many products: of so many, these lose the least on random shapes of all layouts in the model
(`benchmarks/common_configs.py`). Each configuration is compiled on its own, so products of many sizes share a
few."""
OTHERS, OTHERS_ALONG_K = {16: 2, 8: 7, 32: 4}, 7
"""How many more a process compiles for products of a type (of so many bits) and layout that have no good one among the
common ones; and so many more where K is contiguous in both operands, as then there are fewer other kernels. With all
these, 1,000 shapes take at most 40 compilations."""
SCARCE = 1.05, 1.15
"""How much longer the best of these may take than the best of all before such a one is compiled: the first, and the
last."""
ALONE = 28
"""How many more it is in a process that has had no result that TMA can't store: then there are hardly other kernels,
either, and these that there are don't serve both."""

THIN, THIN_K, THIN_WRITTEN = Config(128, 256, stages=3, store_buffers=4, group=1, cluster_m=2), 256, 26 << 20
THIN_PAYS = {True: 0.84, False: 0.7}
"""For results of so many bytes and a K of up to so many: all pieces of a tile leave at once, in pairs of rows of tiles.
How much less than in the model it takes beside others, where the result's rows are whole sectors, and where not, so
that tiles that are far apart in time write parts of one (docs/measured/small_products.md, "A short K")."""

BESIDE = {"cooperative": 40, "splitk": 40, "pingpong": 40, "streamk": 48}
"""Registers of a consumer's thread beside the sums that an epilogue of few operands needs. With stream-K it also keeps
the part of a tile: ptxas spilled it beside 192 sums, and scales of rows and columns beside 200."""
TURNED_WORDS = 48
"""The same that a store of the transpose of a result of 32 bits needs."""
NEAR, LOST = 1.02, 1000
"""How much longer one that is compiled may take than the best of all: times, and clocks at most."""
LATER, NEAR_LATER = 8, 1.03
"""From so many others on one that is compiled may take so much longer, as few more will be."""
MENU, MOST_MENUS = 4, 1 << 12
"""Configurations beside one B: 6 kernels are compiled, for one row has its own (`gemv`), and so have few rows of a
small B (`small`). And how many B's are remembered."""

_used: dict[Any, list[Config]] = {}  # by all but the sizes
_menus: dict[Any, list[Config]] = {}  # by B
_mixed: set[tuple[Any, Any]] = set()  # types of operands and of results, some of which TMA can't store
_choosing = threading.Lock()


@functools.lru_cache(maxsize=1 << 14)
def choose(shape: Shape, crowded: bool = False, sms: int = arch.SMS) -> Config:
    """The configuration of the fewest cycles, or one that was chosen before and that is as good.

    So a choice can depend on those before it in the process. ``crowded``: beside an epilogue that needs many registers.
    """
    found = allowed(shape, crowded)
    cycles, places = times(found, shape, sms)[:, 0], _places(found)
    best = found[int(cycles.argmin())]
    keys, common = keys_of(COMMON, shape.turns), _of_keys(found, COMMON, shape.turns)

    def least(configs: Iterable[Config]) -> Config | None:
        return min((c for c in configs if c in places), key=lambda c: float(cycles[places[c]]), default=None)

    grids = shape.grids and (0 if shape.a_major == "mn" else shape.grids[0], shape.grids[1])  # beside any rows of A
    kind = replace(shape, m=0, n=0, k=0, batches=1, grids=None, unaligned=False)
    with _choosing:
        if len(_menus) >= MOST_MENUS:
            _menus.clear()
        used = _used.setdefault((kind, crowded, sms), [])
        menu = _menus.setdefault((replace(shape, m=0, grids=grids), crowded, sms), [])
        others = sum(_uncommon(kind, crowded, sms, keys))
        if shape.unaligned:
            _mixed.add((shape.dtype, shape.out))
        scarce, alone = mixed(shape.dtype, shape.out), shape.m == 1  # a row is of another layout than the rest
        most = ALONE
        if scarce:
            more = OTHERS_ALONG_K * (shape.a_major == shape.b_major == "k")
            most = 0 if alone else OTHERS[shape.dtype.bits] + more
        if thin_cycles(shape, sms) < cycles.min() and (THIN in used or others < most):
            if THIN not in used:
                used.append(THIN)
            return THIN
        enough = SCARCE[1] * float(cycles.min()) if scarce and alone else near(float(cycles.min()), others)
        known = least(menu)
        if known is not None and (len(menu) >= MENU or cycles[places[known]] <= enough):
            return known
        chosen = least(used)
        if chosen is None or cycles[places[chosen]] > enough:
            worth = enough
            if scarce:
                worth = float(cycles.min()) * (SCARCE[0] + (SCARCE[1] - SCARCE[0]) * others / max(most, 1))
            chosen = least([*used, *common])
            if chosen is None or others < most and cycles[places[chosen]] > worth:
                chosen = best
        menu.append(chosen)
        if chosen not in used:
            used.append(chosen)
        return chosen


def thin_cycles(shape: Shape, sms: int) -> float:
    """What `THIN` takes in the model; infinity where it is not for this."""
    row = shape.n * shape.out.bytes
    of_16 = shape.dtype.bits == shape.out.bits == 16 and shape.acc == nv.f32
    short = shape.k * shape.dtype.bytes <= THIN_K and shape.batches * shape.m * row >= THIN_WRITTEN
    if not (of_16 and short) or shape.unaligned:
        return math.inf
    return THIN_PAYS[row % SECTOR == 0] * model_cycles(THIN, shape, sms)


def mixed(dtype: Any, out: Any) -> bool:
    """Whether there have been products of these types whose results TMA can't store."""
    return (dtype, out) in _mixed


def _layouts(kind: Shape) -> Iterator[Shape]:
    """The same of operands with any axis contiguous."""
    return (replace(kind, a_major=a_major, b_major=b_major) for a_major, b_major in itertools.product(MAJORS, MAJORS))


def _uncommon(kind: Shape, crowded: bool, sms: int, keys: frozenset[Key]) -> Iterator[bool]:
    """Whether each configuration that was chosen is one of the others. Factors of 32 bits are read one way or another,
    as it suits their sizes: what was chosen for arrays that are read otherwise are others, too."""
    for one in _layouts(kind) if kind.dtype.bits == 32 else [kind]:
        found = _used.get((one, crowded, sms), ())
        yield from (one != kind or key(config) not in keys for config in found)


def near(cycles: float, others: int) -> float:
    """What is as good as so many. ``others``: how many of the others are compiled."""
    return NEAR_LATER * cycles if others >= LATER else min(NEAR * cycles, cycles + LOST)


class Configs(tuple[Config, ...]):
    """Configurations told apart by which object they are: to compare and hash hundreds takes as long as to weigh them.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


@functools.lru_cache(maxsize=256)
def _places(found: Configs) -> dict[Config, int]:
    return {config: i for i, config in enumerate(found)}


@functools.lru_cache(maxsize=256)
def _of_keys(found: Configs, few: Sequence[Key], turnable: bool) -> Configs:
    keys = keys_of(few, turnable)
    return Configs(config for config in found if key(config) in keys)


@functools.lru_cache(maxsize=256)
def _allowed(
    dtype: Any, out: Any, acc: Any, crowded: bool, majors: tuple[str, str], turnable: bool, epilogue: bool,
    slight: bool, tma: bool, tiles: frozenset[Tile] | None,
) -> Configs:  # fmt: skip
    def fits(config: Config) -> bool:
        spare, needed = config.registers[1] - config.accumulator_registers(acc), 0
        if not (tma or config.stores_without_tma(out, acc, epilogue)):
            return False
        if epilogue and not (slight and config.swap_ab):
            needed = BESIDE[config.schedule]
        if config.swap_ab and out.bits == 32:
            needed = max(needed, TURNED_WORDS)
        return (turnable or not config.swap_ab) and spare >= needed

    return Configs(filter(fits, legal(dtype, out, acc, crowded, *majors, tiles)))


def allowed(weight: Shape, crowded: bool, tiles: frozenset[Tile] | None = None) -> Configs:
    """All that can compute it, or of these tiles: an epilogue needs registers."""
    majors, tma = (weight.a_major, weight.b_major), not weight.unaligned
    kind = weight.dtype, weight.out, weight.acc, crowded, majors, weight.turns, weight.epilogue, weight.slight
    return _allowed(*kind, tma, tiles)


def key(config: Config) -> Key:
    """Schedule, tile, cluster, whether operands are swapped, split and parts: all else follows."""
    shape = config.schedule, config.tile_m, config.tile_n, config.cluster_m, config.cluster_n
    return (*shape, config.swap_ab, config.split, config.parts)


def keys_of(few: Sequence[Key], turnable: bool) -> frozenset[Key]:
    """``turnable``: operands may be swapped; else it is done without."""
    return frozenset(few if turnable else [(*key[:5], False, *key[6:]) for key in few])
