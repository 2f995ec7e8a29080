"""Configurations of the forward kernel: tiles, warpgroups, stages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention.splits import CLUSTERS, FEW, LONG, in_clusters, splits_of

LARGE = {1: 448.0, 2: 2.0**14}
"""By an element's bytes: the sum of a thread's part of a row from which on new maxima are found. e4m3 and f16 hold each
of its terms below."""
SHARED_MEMORY = 226 * 1024
"""Bytes of a block's tiles: what the hardware has, but for mbarriers and what a queue of tiles needs."""
SHORT = 1024
"""Keys up to which a tile's start and end, and its rows that are masked or behind the last, are a large part of it."""
NARROW = 512
"""Keys of a window up to which tiles of 64 of them hide less, in packed sequences, than longer tiles gain."""
SIZES = {2: (32, 64, 80, 96, 112, 128, 160, 192, 224, 256), 1: (64, 96, 128, 192, 256)}
"""By an element's bytes: head sizes that a kernel is compiled for; TMA fills smaller ones up with zeros."""
TOLD = (64, 96, 128), (128, 128, 128), (192, 80, 80), (224, 64, 64), (256, 48, 64)
"""Of heads up to a size, keys of a tile where it matters of which query and which key a score is: with a bias, and with
nothing but a function."""
SUMS_AND_SCORES = 188
"""Registers of a thread that a consumer of two has for its sums, the scores of a tile and its weights."""


def padded(size: int, itemsize: int = 2) -> int:
    """The head size of the kernel that takes heads of ``size``, of elements of ``itemsize`` bytes."""
    return next(n for n in SIZES[itemsize] if n >= size)


def swizzle(row: int) -> int:
    """Of a tile with rows of so many bytes."""
    return next(n for n in (128, 64, 32) if row % n == 0)


@dataclass(frozen=True)
class Config:
    """``sizes``: of a head of q and k, and of v, in shared memory. ``tile_n``: keys of a tile. ``consumers``:
    warpgroups of 64 rows. ``stages``: tiles of V in flight, ``k_stages``: of K, ``q_stages``: of Q.

    ``blocks``: of a persistent grid; 0: a block for each tile. ``queue``: a persistent grid draws its tiles.
    ``pingpong``: consumers take turns at issuing.
    ``q_columns``: so many of its rows of Q a consumer holds in registers, where shared memory would be read again for
    each tile of keys. ``pack``: heads in a tile that share a head of keys, a power of two. ``page``: rows of a box of
    paged keys; 0: they aren't paged.

    ``lazy``: of a tile of keys that are all seen, no maxima are found: those of before are subtracted, unless a sum
    grows beyond ``LARGE``. Elsewhere O is scaled where a row's maximum has grown by more than ``rescale_at``, as a
    logarithm to base 2. Either changes nothing but the scale of P and O, and that a row's largest weight is rounded,
    too, which 1 need not be: up to 6 % of the error with 16-bit weights.

    ``o_columns``: of a tile of O that are stored at a time, from shared memory of their own; a persistent grid then
    loads the next tile of Q while this one's last products run. 0: all, from where Q was, if that fits.

    ``cluster``: blocks that share the keys of a tile; they add up their sums through shared memory. ``blocks_per_sm``:
    so many shall fit.

    ``itemsize``: bytes of an element of q, k and v. The weights of 8-bit ones are 2 to the power ``lift`` times as
    large, so that few of them are below what e4m3 has."""

    sizes: tuple[int, int] = (128, 128)
    tile_n: int = 128
    consumers: int = 2
    stages: int = 2
    k_stages: int = 2
    q_stages: int = 1
    blocks: int = 0
    queue: bool = False
    pingpong: bool = True
    q_columns: int = 0
    pack: int = 1
    page: int = 0
    lazy: bool = False
    o_columns: int = 0
    cluster: int = 1
    blocks_per_sm: int = 1
    itemsize: int = 2
    lift: float = 0.0
    rescale_at: float = 8.0

    @property
    def fits(self) -> bool:
        """Whether a block has the shared memory: for tiles, those of V of 8 bits twice, since they are turned; and for
        results that take the place of no other."""
        (size, value_size), rows = self.sizes, 64 * self.consumers
        apart = 2 * rows * (self.o_columns or value_size) if self.o_apart and not self.over_keys else 0
        tiles = self.tile_n * (self.k_stages * size + self.stages * value_size * (2 if self.itemsize == 1 else 1))
        return self.itemsize * (rows * size * self.q_stages + tiles) + apart <= SHARED_MEMORY

    @property
    def q_registers(self) -> bool:
        """Whether all of Q is in registers, so that its shared memory is free before the products."""
        return self.q_columns == self.sizes[0]

    @property
    def o_apart(self) -> bool:
        """Whether results have shared memory of their own, since they don't fit where their rows of Q were."""
        size, value_size = self.sizes
        over_q = value_size <= size and swizzle(2 * value_size) == swizzle(2 * size)
        return not over_q or self.q_registers or self.itemsize == 1 or self.o_columns > 0

    @property
    def large(self) -> float:
        """See ``LARGE``."""
        return LARGE[self.itemsize]

    @property
    def more_maxima(self) -> bool:
        """Whether maxima are also found of the tile behind the masked ones: some queries have seen few keys by then,
        and weights of 8 bits soon are too large."""
        return self.lazy and self.itemsize == 1

    @property
    def room_for_sums(self) -> bool:
        """Whether a block's sums, in f32, fit where its tiles of keys and values are."""
        return self._room_for(4)

    @property
    def over_keys(self) -> bool:
        """Whether results are put where the tiles of keys and values were, and need no shared memory of their own."""
        return self.itemsize == 1 and not self.blocks and self._room_for(2)

    def _room_for(self, itemsize: int) -> bool:
        size, value_size = self.sizes
        row = self.itemsize * (self.k_stages * size + self.stages * value_size)
        return itemsize * 64 * self.consumers * value_size <= self.tile_n * row

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread of the producer's warpgroup, and of a consumer. (The producer needs more than 24.)"""
        if self.blocks_per_sm == 2:
            return 40, 216
        if self.itemsize == 1:
            return {1: (56, 240), 2: (56, 224)}[self.consumers]  # of threads that turn V, too
        return {1: (56, 256 - 16), 2: (40, 232), 3: (32, 160)}[self.consumers]


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
    stays = tiles > sms and alone and not (packed or page)
    widest = sizes == (256, 256) and consumers == 2 and not told
    shortened = itemsize == 2 and 128 < max(sizes) < 256 and seen <= SHORT and (bounded or config.tile_n < 128)
    # At 2,048 and 4,096 keys this gains 3 and 2 % without a bound, and nothing with one.
    if stays and widest and itemsize == 2 and seen <= (SHORT if bounded else 4 * SHORT):
        config = replace(config, tile_n=64, k_stages=2, q_columns=0, o_columns=128, pingpong=True)
        config = replace(config, blocks=sms, queue=bounded)
    elif stays and shortened and consumers == 2 and not told:
        # Without a bound this gains less than tiles of 128 keys do.
        config = replace(config, tile_n=96, k_stages=2, q_columns=0, o_columns=math.gcd(64, sizes[1]), pingpong=True)
        config = replace(config, tile_n=96 if config.fits else 64, blocks=sms, queue=bounded)
    elif stays and widest and itemsize == 1 and (not bounded or not left and seen <= 4 * SHORT):
        # With two bounds a queue's numbers spill. It gains 5 % at 2,048 keys, and nothing at 8,192.
        config = replace(config, o_columns=64, blocks=sms, queue=bounded)
    elif stays and (max(sizes) <= 128 or not bounded and itemsize == 2):
        # SMs are not equally fast: long equal tiles of 8 bits gain 1 to 3 % if they are drawn, too. Of wide heads of 16
        # bits they were as fast in any order.
        drawn = bounded or seen > SHORT and (itemsize == 1 or max(sizes) > 128)
        config = replace(config, blocks=sms, queue=drawn)
    return config if config.fits or config.cluster > 1 else replace(config, o_columns=math.gcd(64, sizes[1])), splits


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
