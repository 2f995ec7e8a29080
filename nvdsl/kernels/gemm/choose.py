"""Which configuration runs: the legal ones are listed, one model gives the cycles of each, and the least is taken.

`tuned` asks here for every product that was not tuned on this machine, and is not one of the exceptions in the table.

A GEMM takes as long as its fullest SM, which computes rounds of tiles, a slice of K (128 bytes) at a time:

    slice   = the longest of  multiplying: tile / 32,  loading: its bytes / LOAD,  waiting: LATENCY / stages
    rounds  = ceil(tiles / blocks that run at once)        (stream-K: the last round's tiles are cut along K)
    compute = START + rounds * slices * slice + epilogues  (ping-pong hides all epilogues but the last)
    cycles  = the longer of  compute,  (bytes of A, B and the result + FLUSHED) / MEMORY

"The longest" is a p-norm: what takes nearly as long disturbs, too. The constants were fitted to times on an H200: f16
squares of 1024 to 16384 in steps of 256, four layouts, and 1 to 256 rows times weights of 4096 to 14336.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.launch import blocks_of_an_sm, resident_clusters
from nvdsl.kernels.gemm.streamk_scheduler import StreamKScheduler

TILES = {
    ("cooperative", 64, 1): (32, 48, 64, 96, 112, 128, 192, 256),
    ("cooperative", 128, 2): (64, 96, 112, 128, 160, 208, 224, 240, 256),
    ("cooperative", 192, 3): (96, 112, 192),
    ("cooperative", 256, 2): (112, 128, 176, 192, 256),
    ("pingpong", 64, 2): (128, 192, 256),
    ("pingpong", 128, 2): (112, 128, 144, 160, 176, 192, 256),
    ("pingpong", 192, 2): (128,),
    ("pingpong", 256, 2): (128,),
    ("streamk", 128, 2): (128, 192),
    ("streamk", 192, 2): (128,),
    ("splitk", 64, 1): (32, 64, 128),
    ("splitk", 128, 1): (64,),
    ("splitk", 128, 2): (64,),
}
"""(schedule, tile_m, consumer warpgroups): each tile_n. These were timed on an H200, in groups of 8 or 12 rows of
tiles. Groups whose patch is nearer to a square were no better: of 13 or 15 rows, they cost 2560 and 3840 7 to 12 %.
"""

COMMON = {
    ("cooperative", 1): [(64, 32), (64, 64), (64, 128)],
    ("cooperative", 2): [(128, 128), (128, 256), (256, 192)],
    ("pingpong", 1): [(128, 192)],
    ("pingpong", 2): [(64, 256), (128, 192)],
    ("streamk", 1): [(128, 192)],
    ("splitk", 1): [(64, 32), (64, 64)],
}
"""(schedule, blocks of a cluster): the tiles of `TILES` that a small B is multiplied by, and that a large one prefers.
Each configuration is compiled on its own, so that products of many small sizes share a few."""
LARGE, WORTH = 1280, 1.02
"""The least extent of a B from which all of `TILES` are worth compiling, and how much longer COMMON may take then."""
UNALIGNED = {
    ("cooperative", 1): [(64, 64), (64, 128), (128, 224), (192, 112)],
    ("cooperative", 2): [(128, 128)],
    ("pingpong", 2): [(128, 192)],
    ("streamk", 1): [(128, 128)],
    ("splitk", 1): [(64, 32), (64, 64)],
}
"""All that is chosen, whatever the size of B, where the result's rows are none that TMA can store. That takes other
code, so they are few: the model loses 5 % beside the best of `TILES` where M, N and K are 500 to 9000."""
THIN = {("cooperative", 1): [(64, 64)], ("pingpong", 2): [(128, 192)]}
"""The same for products of one slice of K, where storing the result is all that counts."""
VECTOR = {("splitk", 1): [(64, 32)]}
"""The same for one column, and OUTER for a K of 1: operands may then be read along the other axis, by other code."""
OUTER = {("pingpong", 2): [(128, 192)]}

MENU = 6
"""Configurations beside one B."""
ROWS = sorted({round(2 ** (i / 4)) for i in range(12, 61)} | {*range(32, 256, 32), *range(256, 4097, 256)})
"""Rows of A for which a menu is made: four an octave from 8 to 32768, the multiples of 32 up to 256, and of 256 up to
4096."""
FEW_ROWS, FEW_COUNT = 256, 2
"""The rows up to which most products beside one B are, and how often each of `ROWS` up to there counts."""

TWO_BUFFERS = 176
"""Columns of a tile of up to 128 rows for which a second store buffer was worth a slot of the ring. With 192 it isn't.
"""

CLUSTERED = 128 * 128
"""Elements of the smallest tile for which pairs of blocks are listed that load B together."""
LEAST_STAGES = 6
"""Slots of a ring that keep memory busy: where half an SM has room for as many, two split-K blocks share it."""
CROWDED = 60
"""Registers of a consumer's thread beside the sums that the largest epilogues need (`is_crowded`)."""

LOAD = 75.0
"""Bytes that an SM gets from L2 in a clock."""
OFF_GRID, ON_GRID = 16.0, 100.0
"""Bytes of an operand that L2 gives an SM in a clock where rows don't start at multiples of 128 bytes, so that a box's
row lies in two lines; and of the other operand beside it. Blocks of a cluster ask once for what they share."""
LATENCY = 3000.0
"""Clocks from asking for a slice to having it, while all SMs ask."""
SHARED = 1.05
"""Consumers that share a tile wait for each other."""
NORM = 5.5
"""p of multiplying, loading and waiting."""
TAIL, DRAIN = 300.0, 0.1
"""Clocks of an epilogue, and of each element of 16 bits that one warpgroup stores."""
FIXUP = 20000.0
"""Clocks in which stream-K hands the sums of a piece to the block that owns the tile."""
EXCHANGE, EXCHANGED = 1400.0, 0.45
"""Clocks of split-K's reduction in a cluster, and of each element of a tile."""
START = 4000.0
"""Clocks before the first slice."""
MEMORY, FLUSHED = 3800.0, 20e6
"""Bytes of memory in a clock; bytes that L2 writes back meanwhile."""
OVERLAP = 4.0
"""p of computing and of memory."""


@dataclass(frozen=True)
class Shape:
    """What the choice depends on: ``batches`` products (m, k) @ (k, n), their types, which axis of A and B is
    contiguous ("k" or "mn"), and whether the rows of A and B start at multiples of 128 bytes (None: as packed ones do).
    ``unaligned``: TMA can't store the result.
    """

    m: int
    n: int
    k: int
    dtype: nv.DType = nv.f16
    out: nv.DType = nv.f16
    acc: nv.DType = nv.f32
    batches: int = 1
    a_major: str = "k"
    b_major: str = "mn"
    on_grid: tuple[bool, bool] | None = None
    unaligned: bool = False


@functools.lru_cache(maxsize=1 << 14)
def choose(shape: Shape, crowded: bool = False, sms: int = arch.SMS) -> Config:
    """The configuration of the fewest cycles on the `menu` of its weight. ``crowded``: beside an epilogue that needs
    many registers."""
    square = shape.n * shape.dtype.bytes % 128 == 0 if shape.a_major == "mn" else None
    on_grid = shape.on_grid and (shape.on_grid[0] if square is None else square, shape.on_grid[1])
    found = menu(replace(shape, m=shape.n, on_grid=on_grid), crowded, sms)
    if shape.m == 1:  # a single row may be read along the other axis, by other code: few tiles, as for one column
        small = [config for config in found if (config.tile_m, config.tile_n) in ((64, 32), (64, 64))]
        found = tuple([config for config in small if config.schedule == "splitk"] or small) or found
    return min(found, key=lambda config: weighed(config) * cycles(config, shape, sms))


@functools.lru_cache(maxsize=1 << 12)
def menu(weight: Shape, crowded: bool = False, sms: int = arch.SMS) -> tuple[Config, ...]:
    """The configurations of all products with one B, whatever the rows of A: few, since each is compiled on its own.

    The first is the best one for as many rows as columns (``weight``). Each further one is that which lowers the mean
    square of what is lost over `ROWS` the most; then each is exchanged for a better one, where there is one.
    """
    found = offered(weight, crowded)
    rows = np.array([*ROWS, weight.m])
    counts = np.where(rows <= FEW_ROWS, FEW_COUNT, 1)
    times = np.stack([weighed(c) * cycles(c, replace(weight, m=rows), sms) for c in found], axis=1)  # type: ignore[arg-type]
    lost = times / times.min(axis=1, keepdims=True) - 1

    def best(beside: list[int]) -> int:
        least = lost[:, beside].min(axis=1, keepdims=True) if beside else np.inf
        return int((counts @ np.minimum(lost, least) ** 2).argmin())

    chosen = [int(times[-1].argmin())]
    while len(chosen) < min(MENU, len(found)):
        chosen.append(best(chosen))
    for at in range(1, len(chosen)):
        chosen[at] = best(chosen[:at] + chosen[at + 1 :])
    return tuple(found[i] for i in dict.fromkeys(chosen))


def offered(weight: Shape, crowded: bool) -> tuple[Config, ...]:
    """What the products with one B are computed by, where nothing was tuned."""
    found = legal(weight.dtype, weight.out, weight.acc, crowded)
    if weight.n == 1 or weight.k == 1:
        few = VECTOR if weight.n == 1 else OUTER
    elif min(weight.n, weight.k) >= LARGE and not weight.unaligned:
        return found
    else:
        few = UNALIGNED if weight.unaligned else THIN if weight.k * weight.dtype.bytes <= 128 else COMMON
    return tuple(config for config in found if _is_among(config, few)) or found


def weighed(config: Config) -> float:
    """What a configuration's cycles are multiplied by where it is compared: one that isn't in COMMON has to save more.
    Alone and in a cluster a tile counts alike, so that where nothing is gained by loading together it stays alone."""
    return 1.0 if any(_is_among(config, COMMON, cluster) for cluster in (1, 2)) else WORTH


def _is_among(config: Config, few: Mapping[tuple[str, int], list[tuple[int, int]]], cluster: int | None = None) -> bool:
    return (config.tile_m, config.tile_n) in few.get((config.schedule, cluster or config.cluster), ())


@functools.cache
def legal(dtype: nv.DType, out: nv.DType, acc: nv.DType, crowded: bool = False) -> tuple[Config, ...]:
    """All that is chosen from: each of `TILES` that fits into an SM with these types."""

    def fits(config: Config) -> bool:
        spare = config.registers[1] - config.accumulator_registers(acc)
        return not config.problems(dtype, out, acc) and not (crowded and spare < CROWDED)

    return tuple(config for config in listed(dtype) if fits(config))


def listed(dtype: nv.DType) -> Iterator[Config]:
    """`TILES` of operands of a type, alone and where it may pay in pairs, whether they fit or not."""
    for (schedule, tile_m, consumers), widths in TILES.items():
        for tile_n in widths:
            group = 12 if tile_m == 128 and tile_n >= 128 else 8
            tile = Config(tile_m, tile_n, 128 // dtype.bytes, schedule=schedule, consumers=consumers, group=group)
            if schedule == "splitk":
                tile = replace(tile, split=2)
            yield with_stages(tile, dtype)
            if schedule in ("cooperative", "pingpong") and tile_m * tile_n >= CLUSTERED and consumers == 2:
                yield with_stages(replace(tile, cluster_m=2, group=max(1, group // 2)), dtype)


def with_stages(config: Config, dtype: nv.DType, b_major: str = "mn") -> Config:
    """As many stages as shared memory has room for, and a second store buffer where it costs none of them, or pays."""
    most = slots(config, dtype, b_major=b_major)
    if config.schedule == "splitk":
        half = slots(config, dtype, memory=arch.SMEM_PER_SM // 2 - arch.RESERVED_SMEM_PER_BLOCK, b_major="k")
        return replace(config, stages=half if half >= LEAST_STAGES else most, store_buffers=1)
    second = slots(config, dtype, buffers=2, b_major=b_major)
    if second == most or config.tile_m <= 128 and config.tile_n <= TWO_BUFFERS:
        return replace(config, stages=second, store_buffers=2)
    return replace(config, stages=most, store_buffers=1)


@functools.cache
def slots(
    config: Config, dtype: nv.DType, *, buffers: int = 1, memory: int = arch.MAX_SMEM_PER_BLOCK, b_major: str = "mn"
) -> int:
    """Stages for which there is room beside so many store buffers."""

    def used(count: int) -> int:
        return replace(config, stages=count, store_buffers=buffers).smem_bytes(dtype, b_major)

    return (memory - used(0)) // (used(1) - used(0))


def cycles(config: Config, shape: Shape, sms: int = arch.SMS) -> Any:
    """The model's time, in clocks of an SM; where ``shape.m`` is an array, for each of its numbers of rows."""
    area = config.tile_m * config.tile_n
    tiles = shape.batches * config.tiles(shape.m, shape.n)
    together = blocks_of_an_sm(config, shape.dtype, shape.b_major)
    at_once = together * resident_clusters(config.cluster * config.split, sms)
    rounds = nv.cdiv(tiles, at_once)
    # Blocks of the fullest SM.
    sharing = np.minimum(together, nv.cdiv(np.minimum(tiles, at_once) * config.split, sms)) if together > 1 else 1
    steps = nv.cdiv(shape.k * shape.dtype.bytes, 128 * config.split)
    epilogues, slices, reduction = rounds, rounds * steps, 0.0
    if not config.shared_tile:
        epilogues = 1
    if config.schedule == "streamk":
        slices, reduction = _cut(tiles, steps, sms)
    elif config.schedule == "splitk":
        reduction = rounds * (EXCHANGE + EXCHANGED * area)
    multiplying = sharing * area / 32 * (SHARED if config.shared_tile and config.consumers > 1 else 1.0)
    # A slot that a store buffer took does not count: the constants were fitted to rings that had it.
    waiting = LATENCY / (config.stages if config.schedule == "splitk" else slots(config, shape.dtype))
    slice = _norm(NORM, multiplying, loading(config, shape, sharing), waiting)
    epilogue = TAIL + DRAIN * config.rows * config.tile_n * shape.out.bytes / 2
    compute = START + slices * slice + epilogues * epilogue + reduction
    operands = (shape.m + shape.n) * shape.k * shape.dtype.bytes
    moved = shape.batches * (operands + shape.m * shape.n * shape.out.bytes)
    return _norm(OVERLAP, compute, (moved + FLUSHED) / MEMORY)


def _cut(tiles: Any, steps: int, sms: int) -> tuple[Any, Any]:
    """Slices of a stream-K block, and clocks of its handing over."""
    if isinstance(tiles, np.ndarray):
        every = np.array([_cut(int(number), steps, sms) for number in tiles])
        return every[:, 0], every[:, 1]
    split = StreamKScheduler(tiles, steps, sms)
    handed = FIXUP * (nv.cdiv(split.pieces, split.cut) - 1) if split.is_cut else 0.0
    return split.whole * steps + split.longest, handed


def loading(config: Config, shape: Shape, sharing: Any) -> Any:
    """Clocks in which an SM gets a slice of both operands for each of its blocks."""
    panel = 128 // shape.dtype.bytes
    extents, majors = (shape.m, shape.n), (shape.a_major, shape.b_major)
    loaded: Any = 0
    lines: Any = 0.0
    off: Any = False
    for i, tile in enumerate((config.tile_m, config.tile_n)):
        # Of a K-major operand the rows that exist; else whole panels of 128 bytes (`TmaOperand`).
        rows = np.minimum(tile, nv.cdiv(extents[i], 8) * 8) if majors[i] == "k" else nv.cdiv(tile, panel) * panel
        row = shape.k if majors[i] == "k" else extents[i]
        bad = np.logical_not(shape.on_grid[i]) if shape.on_grid else row * shape.dtype.bytes % 128 != 0
        loaded = loaded + 128 * rows
        lines = lines + 128 * rows / config.sharers[i] / np.where(bad, OFF_GRID, ON_GRID)
        off = np.logical_or(off, bad)
    return np.maximum(sharing * loaded / LOAD, np.where(off, lines, 0.0))


def _norm(p: float, *values: Any) -> Any:
    return sum(value**p for value in values) ** (1 / p)
