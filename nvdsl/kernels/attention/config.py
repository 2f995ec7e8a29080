"""Configurations of the forward kernels: tiles, warpgroups, stages."""

from __future__ import annotations

from nvdsl.errors.records import dataclass

LARGE = {1: 448.0, 2: 2.0**14}
"""By an element's bytes: the sum of a thread's part of a row from which on new maxima are found. e4m3 and f16 hold each
of its terms below."""
SHARED_MEMORY = 226 * 1024
"""Bytes of a block's tiles: what the hardware has, but for mbarriers and what a queue of tiles needs."""
SIZES = {2: (32, 64, 80, 96, 112, 128, 160, 192, 224, 256), 1: (64, 96, 128, 192, 256)}
"""By an element's bytes: head sizes that a kernel is compiled for; TMA fills smaller ones up with zeros."""


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
