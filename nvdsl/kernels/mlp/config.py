"""How a block shares its rows and its shared memory: chosen by the width of the layers."""

from __future__ import annotations

from dataclasses import dataclass

from nvdsl.hopper import arch

WIDTHS = (64, 128, 256)
MOST_LAYERS = 32
CONSUMER_ROWS = 64
"""Rows of a consumer warpgroup: one wgmma's."""
SLICE = 64
"""Elements along K in a slot of the ring: 128 bytes, the swizzle's width."""
MOST_STAGES = 8
_REGISTERS = {1: (40, 232), 2: (24, 240), 4: (24, 112)}
"""Of a thread of the producer and of a consumer warpgroup, by the number of consumers."""


@dataclass(frozen=True)
class MlpConfig:
    """``consumers`` warpgroups of 64 rows each, ``cluster`` blocks that load the weights together, ``stages`` slots of
    64 columns of a layer's weights, ``tiles`` of rows in shared memory. ``turns``: consumers issue their products one
    after the other."""

    consumers: int
    cluster: int
    stages: int
    tiles: int
    turns: bool = False

    @property
    def rows(self) -> int:
        """Rows of a block's tile."""
        return CONSUMER_ROWS * self.consumers

    @property
    def threads(self) -> int:
        """The producer warpgroup's and the consumers'."""
        return 128 * (1 + self.consumers)

    @property
    def registers(self) -> tuple[int, int]:
        return _REGISTERS[self.consumers]


def choose(width: int, layers: int, rows: int, sms: int = arch.SMS) -> MlpConfig:
    """The largest tile that still gives every SM one, or the smallest.

    A block's weights pass by all of its rows, so large tiles read them less often from L2. A tile of 256 columns has
    room for two consumers; there two blocks share what they load.
    """
    most = 4 if width == 64 else 2
    consumers = next((n for n in (4, 2) if n <= most and rows > CONSUMER_ROWS * n // 2 * sms), 1)
    cluster = 2 if width > 64 and consumers == most else 1
    tile, slot = CONSUMER_ROWS * consumers * width * 2, width * SLICE * 2
    left = arch.MAX_SMEM_PER_BLOCK - 1024 - layers * width * 4
    tiles = 2 if left - 2 * tile >= 4 * slot else 1
    return MlpConfig(consumers, cluster, min((left - tiles * tile) // slot, MOST_STAGES), tiles)
