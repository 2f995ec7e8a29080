"""The configurations that are chosen from: tiles as free as the hardware has them, alone and in clusters of two."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config

TILES = {
    ("cooperative", 64, 1, "m"): (*range(8, 64, 8), *range(64, 257, 16)),
    ("cooperative", 128, 2, "m"): (*range(16, 64, 16), *range(64, 257, 8)),
    ("cooperative", 192, 3, "m"): range(64, 201, 8),
    ("cooperative", 256, 2, "m"): range(64, 201, 8),
    ("cooperative", 128, 2, "n"): range(272, 353, 16),
    ("pingpong", 64, 2, "m"): range(128, 257, 32),
    ("pingpong", 128, 2, "m"): range(96, 201, 8),
    ("pingpong", 192, 2, "m"): (96, 112, 128),
    ("pingpong", 256, 2, "m"): (96,),
    ("streamk", 128, 2, "m"): (128, 160, 192),
    ("streamk", 192, 2, "m"): (128,),
    ("splitk", 64, 1, "m"): (32, 64, 128),
    ("splitk", 128, 2, "m"): (64, 128),
}
"""(schedule, tile_m, consumer warpgroups, what they divide the tile along): each tile_n."""

SPLITS = (2, 4, 8)
MOST_PARTS = 32
"""Clusters that may share a tile: more than there are of 4 and 8 blocks."""

TWO_BUFFERS = 176
"""Columns of a tile of up to 128 rows for which a second store buffer was worth a slot of the ring. With 192 it isn't.
"""
CLUSTERED = 128 * 96
"""Elements of the smallest tile for which pairs of blocks are listed that load together."""
LEAST_STAGES = 6
"""Slots of a ring that keep memory busy: where half an SM has room for as many, two split-K blocks share it."""
CROWDED = 60
"""Registers of a consumer's thread beside the sums that the largest epilogues need."""


@functools.cache
def legal(
    dtype: nv.DType, out: nv.DType, acc: nv.DType, crowded: bool = False, a_major: str = "k", b_major: str = "mn"
) -> tuple[Config, ...]:
    """All that is chosen from: each of `TILES` that fits into an SM with these types, and operands of which these axes
    are contiguous. ``crowded``: beside an epilogue that needs many registers."""

    def fits(config: Config) -> bool:
        spare = config.registers[1] - config.accumulator_registers(acc)
        major = a_major if config.swap_ab else b_major
        whole = major == "k" or config.cols % (128 // dtype.bytes) == 0 or config.along == "m"
        return whole and not config.problems(dtype, out, acc, major) and not (crowded and spare < CROWDED)

    return tuple(config for config in listed(dtype, a_major, b_major) if fits(config))


def listed(dtype: nv.DType, a_major: str = "k", b_major: str = "mn") -> Iterator[Config]:
    """`TILES` of operands of a type, alone and where it may pay in pairs, either way round; whether they fit or not."""
    for (schedule, tile_m, consumers, along), widths in TILES.items():
        for tile_n in widths:
            group = 12 if tile_m == 128 and tile_n >= 128 else 8
            tile = Config(
                tile_m, tile_n, 128 // dtype.bytes, schedule=schedule, consumers=consumers, group=group, along=along
            )
            if schedule == "splitk":
                for split in SPLITS:
                    for parts in (1, MOST_PARTS):
                        yield with_stages(replace(tile, split=split, parts=parts), dtype, b_major)
                continue
            pairs = [(1, 1)]
            if schedule != "streamk" and tile_m * tile_n >= CLUSTERED and consumers > 1:
                pairs += [(2, 1), (1, 2)]
            for cluster_m, cluster_n in pairs:
                one = replace(tile, cluster_m=cluster_m, cluster_n=cluster_n, group=group // cluster_m)
                yield with_stages(one, dtype, b_major)
                if schedule != "streamk":
                    yield with_stages(replace(one, swap_ab=True), dtype, a_major)


def with_stages(config: Config, dtype: nv.DType, b_major: str) -> Config:
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
