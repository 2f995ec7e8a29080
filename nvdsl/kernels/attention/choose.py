"""Which configuration a call of the forward kernels takes: chosen by the sizes of its heads, its keys and its tiles."""

from __future__ import annotations

import math
from dataclasses import replace

from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention.config import SHARED_MEMORY, Config, padded
from nvdsl.kernels.attention.splits import CLUSTERS, FEW, LONG, in_clusters, splits_of

SHORT = 1024
"""Keys up to which a tile's start and end, and its rows that are masked or behind the last, are a large part of it."""
NARROW = 512
"""Keys of a window up to which tiles of 64 of them hide less, in packed sequences, than longer tiles gain."""
TOLD = (64, 96, 128), (128, 128, 128), (192, 80, 80), (224, 64, 64), (256, 48, 64)
"""Of heads up to a size, keys of a tile where it matters of which query and which key a score is: with a bias, and with
nothing but a function."""
SUMS_AND_SCORES = 188
"""Registers of a thread that a consumer of two has for its sums, the scores of a tile and its weights."""


def choose(
    size: int, value_size: int, batch: int, queries: int, heads: int, kv_heads: int, keys: int, *, bounded: bool,
    packed: bool, page: int, told: bool, splits: int | None, sms: int, itemsize: int = 2, seen: int | None = None,
    left: bool = False, ragged: bool = False, function: bool = False,
) -> tuple[Config, int]:  # fmt: skip
    """The configuration for a call, and into how many parts the keys are split.

    ``bounded``: queries see a part of the keys on the right, so that tiles are unequal. ``packed``: the queries of all
    sequences lie one behind the other; ``queries`` and ``keys`` are what one has in the mean then. ``page``: keys of a
    page, 0 without pages. ``told``: a score takes more registers than others, since it depends on its query and key, or
    since the scale is not above 0. ``splits``: what the caller says, or None. ``itemsize``: bytes of an element.
    ``seen``: keys that a window shows to a query, None for all. ``left``: whether a window has a bound on the left.
    ``ragged``: arrays say how many keys a sequence has. ``function``: scores are told for nothing but a caller's
    function. Raises ArgumentError for pages that no tile takes.
    """
    narrow = packed and not (told or page) and itemsize == 2 and seen is not None and seen <= NARROW
    seen = keys if seen is None or ragged else min(seen, keys)
    sizes, group = (padded(size, itemsize), padded(value_size, itemsize)), heads // kv_heads
    long = seen > SHORT or packed and not bounded  # some of packed ones are
    most = 3 if max(sizes) <= 64 and not told and itemsize == 2 and long else 2
    pack, consumers = _rows(queries, group, most, packed)
    tiles = batch * kv_heads * -(-group // pack) * -(-queries // (64 * consumers // pack))
    if itemsize == 2:
        bounds = left and (packed or ragged or splits is not None)
        config = _sixteen_bits(sizes, consumers, 0 if bounds else seen, page, told, function)  # bounds take registers
    else:
        config = _eight_bits(sizes, consumers, seen, page, told)
    if seen < keys and seen <= SHORT and 128 < max(sizes) <= 192 and itemsize == 2:  # a tile sees little more
        config = replace(config, tile_n=min(config.tile_n, 96))
    if narrow and max(sizes) <= 192:
        config = replace(config, tile_n=min(config.tile_n, 64))
    config = replace(config, pack=pack, page=math.gcd(page, config.tile_n) if page else 0)
    if (packed or ragged or left) and not config.q_registers:
        config = replace(config, q_columns=0)
    two = config.blocks_per_sm == 2
    clusters = CLUSTERS if two else CLUSTERS[:-1]  # few GPCs have 16 empty SMs
    if splits is None or splits in clusters:
        if splits is None:
            shown = min(keys, seen + 64 * consumers // pack)  # to a tile of queries
            bytes_, steps = batch * kv_heads * shown * (size + value_size) * itemsize, -(-shown // config.tile_n)
            counted = itemsize == 2 and config.room_for_sums and not (two or packed or ragged)
            if not counted or tiles * clusters[-1] < FEW * sms:
                cluster, splits = splits_of(tiles, steps, sms, clusters, two and bytes_ > LONG)
            else:
                mean = 1 - min(queries, keys) / (2 * keys) if bounded and seen == keys else 1.0
                cluster, splits = in_clusters(tiles, steps, mean, sms), 1
        else:
            cluster, splits = splits, 1
        if config.room_for_sums:
            config = replace(config, cluster=cluster)
        else:
            splits *= cluster
    alone = splits == config.cluster == config.blocks_per_sm == 1
    if tiles > sms and alone and not (packed or page):
        config = _persistent(config, sms, seen, bounded, left, told)
    return config if config.fits or config.cluster > 1 else replace(config, o_columns=math.gcd(64, sizes[1])), splits


def _persistent(config: Config, sms: int, seen: int, bounded: bool, left: bool, told: bool) -> Config:
    """The configuration with a persistent grid where one pays, as it did on an H200."""
    sizes, widest, sixteen = config.sizes, max(config.sizes), config.itemsize == 2
    whole = sizes == (256, 256) and config.consumers == 2 and not told
    shortened = sixteen and 128 < widest < 256 and seen <= SHORT and (bounded or config.tile_n < 128)
    # At 2,048 and 4,096 keys this gains 3 and 2 % without a bound, and nothing with one.
    if whole and sixteen and seen <= (SHORT if bounded else 4 * SHORT):
        config = replace(config, tile_n=64, k_stages=2, q_columns=0, o_columns=128, pingpong=True)
        return replace(config, blocks=sms, queue=bounded)
    if shortened and config.consumers == 2 and not told:
        # Without a bound this gains less than tiles of 128 keys do.
        config = replace(config, tile_n=96, k_stages=2, q_columns=0, o_columns=math.gcd(64, sizes[1]), pingpong=True)
        return replace(config, tile_n=96 if config.fits else 64, blocks=sms, queue=bounded)
    if whole and not sixteen and (not bounded or not left and seen <= 4 * SHORT):
        # With two bounds a queue's numbers spill. It gains 5 % at 2,048 keys, and nothing at 8,192.
        return replace(config, o_columns=64, blocks=sms, queue=bounded)
    if widest <= 128 or not bounded and sixteen:
        # SMs are not equally fast: long equal tiles of 8 bits gain 1 to 3 % if they are drawn, too. Of wide heads of 16
        # bits they were as fast in any order.
        return replace(config, blocks=sms, queue=bounded or seen > SHORT and (not sixteen or widest > 128))
    return config


def _sixteen_bits(sizes: tuple[int, int], consumers: int, seen: int, page: int, told: bool, function: bool) -> Config:
    widest, narrow = max(sizes), max(sizes) <= 64
    few = consumers == 1 and widest <= 128 and not told
    whole = _keys_that_fit(sizes, 2)
    if told:  # each score takes registers for its place, too
        whole = min(whole, next(keys[function] for end, *keys in TOLD if widest <= end))
    short = few or widest == 256 and seen <= 512
    config = Config(
        sizes,
        _tile_of_keys(min(whole, 64) if short else whole, whole, page, 16),
        consumers,
        stages=3 if few else 4 if narrow else 2,
        k_stages=4 if narrow and not few else 3,
        q_stages=2 if narrow and not few else 1,
        pingpong=consumers == 2 and widest <= 128,
        q_columns=0 if told or few or narrow else sizes[0] if widest <= 128 else 64 if sizes == (256, 256) else 0,
        lazy=widest <= 128 and not told,
        blocks_per_sm=2 if few else 1,
    )
    return config if config.fits else replace(config, k_stages=2)


def _keys_that_fit(sizes: tuple[int, int], stages: int) -> int:
    """Keys of the largest tile, up to 128, whose scores (f32) and weights (16 bits) have registers beside the sums of
    64 rows, and of which shared memory holds ``stages`` for K and V each, beside Q and a part of the results."""
    size, value_size = sizes
    registers = (SUMS_AND_SCORES - value_size // 2) * 4 // 3
    rows = 2 * 128 * (size if value_size == size else size + 64)  # results may leave in parts of 64 columns
    memory = (SHARED_MEMORY - rows) // (2 * stages * (size + value_size))
    return min(128, registers, memory) // 16 * 16


def _eight_bits(sizes: tuple[int, int], consumers: int, seen: int, page: int, told: bool) -> Config:
    widest = max(sizes)
    narrow = widest <= 128
    lazy = narrow and not told
    tile_n = 128 if widest < 256 else 96
    if told:
        tile_n = 64 if narrow else 32
    step = 128 if sizes[1] % 64 else 32  # four warps turn a tile of V, each its columns, or its keys
    tile_n = -(-tile_n // step) * step if sizes[1] != 96 else step
    return Config(
        sizes,
        _tile_of_keys(tile_n, tile_n, page, step),
        consumers,
        stages=3 if narrow else 2,
        k_stages=3 if narrow or widest == 256 else 2,
        pingpong=False,
        q_columns=sizes[0] if lazy else 0,
        itemsize=1,
        lazy=lazy,
        lift=3.0 if lazy else 5.0,  # 32 weights of a thread, if all are the greatest, are 256 then: below 448
        rescale_at=3.5,  # e4m3 ends at 448: between 2^8 and 2^9
    )


def _rows(queries: int, group: int, consumers: int, packed: bool) -> tuple[int, int]:
    """How many heads of a group are packed into a tile, and its warpgroups of 64 rows. Heads are packed where that
    saves a tenth of the tiles, and few rows take fewer warpgroups. Sequences of any lengths, ``packed``, end in the
    middle of a tile, and 2 % are enough for them."""
    tile = 64 * consumers

    def tiles(pack: int) -> float:
        positions = tile // pack
        return (queries / positions + 0.5 if packed else -(-queries // positions)) * -(-group // pack)

    together = min(1 << (group - 1).bit_length(), 64)
    pack = together if tiles(together) * (1.02 if packed else 1.1) < tiles(1) else 1
    return pack, min(consumers, -(-queries * pack // 64))


def _tile_of_keys(wanted: int, most: int, page: int, step: int) -> int:
    """Keys of a tile, of which a product takes ``step`` at a time. Of paged ones: such that boxes are large, which lie
    in one page and one tile."""
    if not page:
        return wanted
    if page % 8:  # rows of a swizzled box
        raise ArgumentError(
            f"pages of {page} keys", rule="pages have a multiple of 8 keys", fix="pages of 32, 64, 128, 256 keys"
        )
    fitting = range(step, most + 1, step)
    whole = [n for n in fitting if page % n == 0 or n % page == 0]
    return min(whole or fitting, key=lambda n: (0 if whole else -math.gcd(page, n), abs(n - wanted)))
