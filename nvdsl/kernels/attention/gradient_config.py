"""The configurations of attention's gradients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """``sizes``: of a head of q and k, and of v, in shared memory. ``tile_m``: rows of a tile of Q. ``stages``: tiles
    of Q, and of dO, in flight. ``wide``: `backward_wide` computes it, else `backward`."""

    sizes: tuple[int, int] = (128, 128)
    tile_m: int = 64
    stages: int = 2
    wide: bool = False

    @property
    def tile_n(self) -> int:
        """Keys of a tile."""
        return 64 if self.wide else 128

    def swizzle(self, size: int) -> int:
        """Of a head's tiles: in `backward_wide` a consumer takes half of the columns, whole panels of them."""
        return 64 if self.wide and size // 2 % 64 else 128


def choose(size: int, value_size: int, more: bool, told: bool) -> Config:
    """For heads of these sizes. ``more``: there are two bounds, a softcap or packed sequences, for which registers
    suffice with fewer rows only. ``told``: it matters of which query and which key a score is; that takes still more.
    """
    largest = max(size, value_size)
    if largest <= 64:
        return Config((64, 64), 64 if more or told else 128)
    if largest <= 128 and not told:
        return Config((128, -(-value_size // 64) * 64), 64)
    return Config((wide_size(size), wide_size(value_size)), 128, 1, wide=True)


def wide_size(size: int) -> int:
    """In shared memory, of `backward_wide`."""
    return max(-(-size // 64) * 64, 128)
