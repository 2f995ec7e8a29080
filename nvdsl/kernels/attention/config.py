"""Configurations of the forward kernel: tiles, warpgroups, stages."""

from __future__ import annotations

from dataclasses import dataclass

SHARED_MEMORY = 227 * 1024
SIZES = (64, 96, 128, 192, 256)
"""Head sizes that a kernel is compiled for; TMA fills smaller ones up with zeros."""


def padded(size: int) -> int:
    """The head size of the kernel that takes heads of ``size``."""
    return next(n for n in SIZES if n >= size)


@dataclass(frozen=True)
class Config:
    """``sizes``: of a head of q and k, and of v, in shared memory. ``tile_n``: keys of a tile. ``consumers``:
    warpgroups of 64 rows. ``stages``: tiles of K, and of V, in flight. ``q_stages``: tiles of Q. ``blocks``: of a
    persistent grid; 0: a block for each tile. ``cluster``: blocks that take neighbouring tiles of queries, and share
    each tile of keys: each loads a part of it for all. ``queue``: a persistent grid draws its tiles. ``pingpong``:
    consumers take turns at issuing. ``pack``: heads in a tile that share a head of keys, a power of two. ``page``:
    rows of a box of paged keys; 0: they aren't paged. ``rescale_at``:
    O is scaled where a row's maximum has grown by more than this, as a logarithm to base 2: until then the old one is
    subtracted, which changes nothing but the scale of P."""

    sizes: tuple[int, int] = (128, 128)
    tile_n: int = 128
    consumers: int = 2
    stages: int = 2
    q_stages: int = 1
    blocks: int = 0
    cluster: int = 1
    queue: bool = False
    pingpong: bool = True
    pack: int = 1
    page: int = 0
    rescale_at: float = 8.0

    @staticmethod
    def swizzle(size: int) -> int:
        """Of a tile with rows of so many 16-bit elements, in bytes."""
        return 128 if size % 64 == 0 else 64

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread of the producer's warpgroup, and of a consumer. (The producer needs more than 24.)"""
        return {1: (56, 256 - 16), 2: (40, 232), 3: (32, 160)}[self.consumers]


def choose(size: int, value_size: int, queries: int, group: int, bounded: bool, blocks: int) -> Config:
    """The configuration for heads of these sizes. ``queries``: of one head; ``group``: heads that share a head of keys;
    ``bounded``: queries see a part of the keys on the right, so that tiles are unequal; ``blocks``: as many as run at
    the same time."""
    sizes = padded(size), padded(value_size)
    tile_n = {64: 128, 96: 128, 128: 128, 192: 112, 256: 80}[max(sizes)]
    pack, consumers = _rows(queries, group, 2)
    return Config(sizes, tile_n, consumers, blocks=0 if bounded else blocks, pingpong=consumers > 1, pack=pack)


def _rows(queries: int, group: int, consumers: int) -> tuple[int, int]:
    """How many heads of a group are packed into a tile, and its warpgroups of 64 rows. Heads are packed where that
    saves a tenth of the tiles, and few rows take one warpgroup."""
    tile = 64 * consumers
    together = min(1 << (group - 1).bit_length(), 64)
    alone, packed = (-(-queries // (tile // pack)) * -(-group // pack) for pack in (1, together))
    pack = together if packed * 1.1 < alone else 1
    return pack, 1 if queries * pack <= 64 else consumers
