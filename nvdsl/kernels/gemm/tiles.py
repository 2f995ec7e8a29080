"""The configurations that are chosen from: tiles as free as the hardware has them, alone and in clusters of two."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config

Tile = tuple[str, int, int]  # schedule, tile_m, tile_n
TILES = {
    ("cooperative", 64, 1): (*range(8, 64, 8), *range(64, 257, 16)),
    ("cooperative", 128, 2): (*range(16, 64, 16), *range(64, 257, 8)),
    ("cooperative", 192, 3): range(64, 201, 8),
    ("cooperative", 192, 2): range(208, 257, 16),
    ("cooperative", 256, 2): range(64, 209, 8),
    ("pingpong", 64, 2): range(128, 257, 32),
    ("pingpong", 128, 2): range(96, 201, 8),
    ("pingpong", 192, 2): (96, 112, 128),
    ("pingpong", 256, 2): (96,),
    ("streamk", 128, 2): (128, 160, 192),
}
"""(schedule, tile_m, consumer warpgroups): each tile_n. Stream-K of 192 x 128 was timed, too, for 53 products: another
configuration was as fast for each of them. Tiles of 272 to 352 columns that two consumers divide along N
were timed, too, and no size was the better for one."""

PARTS = 32
"""Clusters that may share a tile: more than there are of 4 and 8 blocks."""
SPLITS = (
    (64, 32, 2, 1), (64, 32, 4, 1), (64, 64, 2, 1), (64, 64, 4, 1), (64, 64, 8, PARTS), (64, 128, 2, 1),
    (64, 128, 4, 1), (128, 64, 2, PARTS), (128, 64, 4, 1), (128, 128, 2, PARTS), (128, 128, 4, 1),
    (192, 128, 2, PARTS),
)  # fmt: skip
"""tile_m, tile_n, split and parts of split-K. Parts need memory of the call's own, so they are few."""
SPLITS_EITHER_WAY = (64, 128, 1, PARTS), (128, 128, 1, PARTS), (128, 192, 2, PARTS)
"""The same of those that are listed with swapped operands, too: for results of one to two rounds of such tiles."""

IN_MEMORY, MOST_PARTS = ((64, 128), (128, 96), (128, 128), (192, 128)), 128
"""Tiles of products with parts of K whose sums meet in memory, and how many parts there may be. Larger tiles, and
clusters that load together, were timed, too, and slower for all results of 64 to 512 on a side."""

TWO_BUFFERS = 176
"""Columns of a tile of up to 128 rows for which a second store buffer was worth a slot of the ring. With 192 it isn't.
"""
CLUSTERED, SPREAD = 64 * 64, 128 * 256
"""Elements of the smallest tile for which pairs of blocks are listed that load together, and of the largest for which
four and eight are."""
WHOLE_SECTORS, SECTOR = 64, 32
"""Columns of a tile of an N-major B beyond which these are whole sectors (of so many bytes), as tiles else begin within
one. 256 x 104 was chosen for 4 of 192 such products, and took up to 1.25 times as long as cuBLAS."""
NEIGHBOURS = 16
"""Consecutive tiles of cooperative kernels that make a square patch. Blocks without clusters fill one GPC after the
other, 16 or 18 of consecutive numbers, and what several of a GPC ask L2 for at the same time comes once for all.
Clusters are dealt to the GPCs in turn, and with ping-pong a block is at two tiles."""
LEAST_STAGES = 6
"""Slots of a ring that keep memory busy: where half an SM has room for as many, two split-K blocks share it."""
CROWDED = {"cooperative": 60, "splitk": 60, "pingpong": 68, "streamk": 76}
"""Registers of a consumer's thread beside the sums that the largest epilogues need. With ping-pong it also keeps whose
turn it is, with stream-K also the part of a tile: there ptxas spilled some of them for columns that are no vectors."""


@functools.cache
def legal(
    dtype: nv.DType, out: nv.DType, acc: nv.DType, crowded: bool = False, a_major: str = "k", b_major: str = "mn",
    tiles: frozenset[Tile] | None = None,
) -> tuple[Config, ...]:  # fmt: skip
    """All that is chosen from: each of `TILES` that fits into an SM with these types, and operands of which these axes
    are contiguous. ``crowded``: beside an epilogue that needs many registers. ``tiles``: only these, of `TILES`."""

    def fits(config: Config) -> bool:
        a, b = (b_major, a_major) if config.swap_ab else (a_major, b_major)
        if b == "mn" and dtype.bits != 16:
            return False  # wgmma transposes 16 bits only, and takes A alone from registers
        if b == "mn" and config.tile_n > WHOLE_SECTORS and config.tile_n * dtype.bytes % SECTOR:
            return False
        return config.fits(dtype, out, acc, b, a) and (not crowded or has_registers(config, acc))

    return tuple(config for config in listed(dtype, a_major, b_major, tiles) if fits(config))


def has_registers(config: Config, acc: nv.DType) -> bool:
    """Whether a consumer's thread has the registers that the largest epilogues need."""
    return config.registers[1] - config.accumulator_registers(acc) >= CROWDED[config.schedule]


def listed(
    dtype: nv.DType, a_major: str = "k", b_major: str = "mn", tiles: frozenset[Tile] | None = None
) -> Iterator[Config]:
    """`TILES` of operands of a type, alone and where it may pay in pairs, either way round; whether they fit or not.
    ``tiles``: only these of them: to make them all takes 0.03 s."""
    for (schedule, tile_m, consumers), widths in TILES.items():
        for tile_n in widths:
            if tiles is not None and (schedule, tile_m, tile_n) not in tiles:
                continue
            group = 12 if tile_m == 128 and tile_n >= 128 else 8
            tile = Config(tile_m, tile_n, 128 // dtype.bytes, schedule=schedule, consumers=consumers, group=group)
            if schedule == "cooperative" and tile_m % (64 * consumers):
                tile = tile.changed(along="n")
            clusters = [(1, 1)]
            if schedule != "streamk" and tile_m * tile_n >= CLUSTERED:
                clusters += [(2, 1), (1, 2)]
                if tile_m * tile_n <= SPREAD:
                    clusters += [(1, 4), (4, 1)]
                if tile_m * tile_n <= SPREAD and tile_n % 16 == 0:
                    clusters += [(2, 2), (4, 2), (2, 4)]
            for cluster_m, cluster_n in clusters:
                one = tile.changed(cluster_m=cluster_m, cluster_n=cluster_n, group=max(group // cluster_m, 1))
                if schedule == "cooperative" and one.cluster == 1:
                    one = one.changed(group=1 << round(math.log2(NEIGHBOURS * tile_n / tile_m) / 2))
                yield with_stages(one, dtype, b_major)
                if schedule != "streamk":
                    yield with_stages(one.changed(swap_ab=True), dtype, a_major)
    for tile_m, tile_n, split, parts in (*SPLITS, *SPLITS_EITHER_WAY):
        tile = Config(tile_m, tile_n, 128 // dtype.bytes, schedule="splitk", split=split, parts=parts)
        tile = tile.changed(consumers=tile_m // 64)
        yield with_stages(tile, dtype, b_major)
        if (tile_m, tile_n, split, parts) in SPLITS_EITHER_WAY:
            yield with_stages(tile.changed(swap_ab=True), dtype, a_major)
    for tile_m, tile_n in IN_MEMORY:
        tile = Config(tile_m, tile_n, 128 // dtype.bytes, consumers=tile_m // 64, parts=MOST_PARTS)
        yield with_stages(tile, dtype, b_major)


def with_stages(config: Config, dtype: nv.DType, b_major: str = "mn") -> Config:
    """As many stages as shared memory has room for, and a second store buffer where it costs none of them, or pays."""
    most = slots(config, dtype, b_major=b_major)
    if config.schedule == "splitk":
        half = slots(config, dtype, memory=arch.SMEM_PER_SM // 2 - arch.RESERVED_SMEM_PER_BLOCK, b_major="k")
        return config.changed(stages=half if half >= LEAST_STAGES else most, store_buffers=1)
    second = slots(config, dtype, buffers=2, b_major=b_major)
    if second == most or config.tile_m <= 128 and config.tile_n <= TWO_BUFFERS:
        return config.changed(stages=second, store_buffers=2)
    return config.changed(stages=most, store_buffers=1)


def slots(
    config: Config, dtype: nv.DType, *, buffers: int = 1, memory: int = arch.MAX_SMEM_PER_BLOCK, b_major: str = "mn"
) -> int:
    """Stages for which there is room beside so many store buffers."""
    return (memory - config.beside_the_ring(buffers)) // config.stage_bytes(dtype, b_major)
