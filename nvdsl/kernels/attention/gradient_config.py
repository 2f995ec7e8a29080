"""The configurations of attention's gradients."""

from __future__ import annotations

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch

MANY = 40
"""Steps of a tile of keys. With two parts of dQ instead of two tiles of K a step takes 2 % less, and the end of a tile
half a step more, or a whole one where tiles are unequal. (Heads of 96 gain nothing.)"""

SLICE = 64
"""Columns of dQ that `backward_wide` computes at a time."""

MOST_SHARES, MOST_DESCENDING = 8, 4
"""Blocks that share a tile of keys; the latter where causal heads are added up in order, and more blocks wait for each
other."""
ENDS = 2, 4, 6
"""What a tile of keys takes beside its steps, in steps: its start and its end; those of a part of its heads, with the
kernel that adds the parts up; those of a part of its queries, which is longer than its mean."""

HEAD = 0.5
"""What a head of q takes in a block beside its steps, in steps: its first scores, which nothing is computed beside."""

BARRIERS = 256
"""Bytes, at most, of a block's mbarriers."""


@dataclass(frozen=True)
class Config:
    """``sizes``: of a head of q and k, and of v, in shared memory. ``tile_m``: rows of a tile of Q. ``stages``: tiles
    of Q in flight. ``tile_n``: keys of a tile, 64 of `backward_wide`, 96 of `backward_apart`, 128 of `backward`, which
    has at most ``blocks`` blocks. ``keys``: tiles of K in flight. With two, a tile's last dQ is computed beside the
    next tile's first scores. ``parts``: of dQ that a consumer of `backward` has in shared memory."""

    sizes: tuple[int, int] = (128, 128)
    tile_m: int = 64
    stages: int = 2
    tile_n: int = 128
    blocks: int = arch.SMS
    keys: int = 2
    parts: int = 1

    @property
    def wide(self) -> bool:
        """Whether `backward_wide` computes it."""
        return self.tile_n == 64

    @property
    def apart(self) -> bool:
        """Whether `backward_apart` does."""
        return self.tile_n == 96

    @property
    def slices(self) -> int:
        """Into how many a consumer's part of dQ is cut."""
        return self.sizes[0] // SLICE if self.wide else 1

    @property
    def do_stages(self) -> int:
        """Tiles of dO in flight: `backward_wide` needs the next one in its next step alone."""
        return 1 if self.wide else self.stages

    @property
    def do_first(self) -> bool:
        """Whether dO comes before Q: dP before S."""
        return self.wide and self.stages == 1

    @property
    def values(self) -> int:
        """Tiles of V in flight."""
        return 2 if self.tile_n == 128 and max(self.sizes) <= 64 else 1

    def registers(self, packed: bool) -> tuple[int, int]:
        """Of a thread of the producer, which searches for packed sequences, and of a consumer's."""
        return (40, 232) if packed and self.tile_n == 128 else (24, 240)

    def swizzle(self, size: int) -> int:
        """Of a head's tiles, whose columns are whole panels of it; in `backward_wide`, half of them."""
        return 64 if (size // 2 if self.wide else size) % 64 else 128

    @property
    def k_swizzle(self) -> int:
        """Of K: a consumer's part of dQ has whole panels of it, too."""
        if self.apart:
            return 64 if self.sizes[0] // 2 % 64 else 128
        if self.wide or self.tile_m == 128:
            return self.swizzle(self.sizes[0])
        return {64: 64, 96: 32, 128: 128}[self.sizes[0]]


def choose(size: int, value_size: int, more: bool, most: bool, rows: float = 0, tight: bool = False,
           shared: bool = False) -> Config:  # fmt: skip
    """For heads of these sizes. ``more``: there are two bounds, a softcap or packed sequences, for which
    registers suffice with fewer rows only. ``most``: there is what takes still more: a bias, a function of
    scores, or a softcap of packed sequences. ``rows``: how many a tile of keys meets, of all heads of its group.
    ``tight``: there are two bounds, or one beside a bias or a function, for which `backward_apart` has no registers.
    ``shared``: `GradientShares` takes dK and dV; of two sizes ptxas then has no registers for `backward_apart`.
    """
    largest = max(size, value_size)
    if largest <= 64:
        return Config((64, 64), 64) if more or most else Config((64, 64), 128)
    if largest <= 128 and not most:
        keys, parts = (1, 2) if rows >= 64 * MANY and largest > 96 else (2, 1)
        return Config((narrow_size(size), narrow_size(value_size)), 64, keys=keys, parts=parts)
    if largest <= 192 and not tight:
        return apart(largest, largest) if shared else apart(size, value_size)
    return wide(size, value_size, most)


def shares(
    config: Config, tiles: int, group: int, seen: int, most: int, sms: int, most_shares: int = MOST_SHARES
) -> tuple[int, int]:
    """Into how many parts the queries that see a tile of keys are cut, and into how many the heads of q that share it,
    for a block each: 1 and 1, unless that saves a tenth of the time of ``tiles`` tiles of keys.

    A tile of keys is seen by ``seen`` queries in the mean, and by ``most``, of ``group`` heads each. Equal tiles come
    in waves; of others those that are left at the end take a third of the longest one's time."""
    mean, longest = (max(rows / config.tile_m, 1) for rows in (seen, most))

    def steps(cut: tuple[int, int]) -> float:
        parts, of_heads = cut
        blocks, end = tiles * parts * of_heads, ENDS[2 if parts > 1 else of_heads > 1]
        each, last = (group // of_heads * (rows / parts + HEAD) + end for rows in (mean, longest))
        if seen == most:
            return -(-blocks // sms) * each
        return max(blocks / sms * each + last / 3, last)

    counts = range(1, most_shares + 1)
    cuts = [
        (parts, n) for n in counts if group % n == 0
        for parts in counts if parts * n <= most_shares and (parts == 1 or parts <= most // config.tile_m)
    ]  # fmt: skip
    best = min(cuts, key=steps)
    return best if steps(best) < 0.9 * steps((1, 1)) else (1, 1)


def wide(size: int, value_size: int, told: bool) -> Config:
    """Of `backward_wide`: two tiles of Q where there is room."""
    size, value_size = wide_size(size), wide_size(value_size)
    columns = 2 * size + value_size + 128  # of two tiles of Q, of one of dO, and of P and dS
    beside = 2 * 4 * 128 * (3 if told else 2) + BARRIERS
    fits = 2 * (128 * columns + 64 * (size + value_size)) + beside <= arch.MAX_SMEM_PER_BLOCK
    return Config((size, value_size), 128, 2 if fits else 1, tile_n=64, keys=1)


def apart(size: int, value_size: int) -> Config:
    """Of `backward_apart`: multiples of 64 columns."""
    return Config((-(-size // 64) * 64, -(-value_size // 64) * 64), 64, tile_n=96, keys=1)


def rows_seen(queries: int, left: int | None, right: int | None) -> int:
    """How many queries see a key, about, which see at most so many keys before and behind their own."""
    if left is not None and right is not None:
        return min(queries, left + right + 1)
    return queries if left is None and right is None else queries // 2


def narrow_size(size: int) -> int:
    """In shared memory, of `backward`."""
    return max(-(-size // 32) * 32, 64)


def wide_size(size: int) -> int:
    """In shared memory, of `backward_wide`."""
    return max(-(-size // 64) * 64, 128)
