"""How a block shares its rows and its shared memory: chosen by the width of the layers."""

from __future__ import annotations

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch

WIDTHS = (64, 128, 256)
MOST_LAYERS = 32
WGMMA_ROWS = 64
"""Rows of one wgmma."""
SLICE = 64
"""Elements along K in a slot of the ring: 128 bytes, the swizzle's width."""
MOST_STAGES = 8
_REGISTERS = {1: (40, 232), 2: (24, 240), 4: (24, 112)}
"""Of a thread of the producer and of a consumer warpgroup, by the number of consumers."""


@dataclass(frozen=True)
class MlpConfig:
    """``consumers`` warpgroups of ``halves`` times 64 rows each, ``cluster`` blocks that load the weights together,
    ``stages`` slots of 64 columns of a layer's weights, ``tiles`` of rows in shared memory. ``turns``: consumers issue
    their products one after the other."""

    consumers: int
    cluster: int
    stages: int
    tiles: int
    halves: int = 1
    turns: bool = False

    @property
    def consumer_rows(self) -> int:
        """Rows of a consumer."""
        return WGMMA_ROWS * self.halves

    @property
    def rows(self) -> int:
        """Rows of a block's tile."""
        return self.consumer_rows * self.consumers

    @property
    def threads(self) -> int:
        """The producer warpgroup's and the consumers'."""
        return 128 * (1 + self.consumers)

    @property
    def registers(self) -> tuple[int, int]:
        return _REGISTERS[self.consumers]


_FORMS = {
    64: ((4, 1, 1, False), (2, 1, 1, False)),
    128: ((2, 2, 1, True), (2, 1, 1, True)),
    256: ((2, 1, 2, False),),
}
"""By the width: consumers, halves, blocks of a cluster, turns; the most rows first. On an H200 turns gained 4 % at 128
and 1 % at 256, and lost 6 % at 64."""


def choose(width: int, layers: int, rows: int, sms: int = arch.SMS) -> MlpConfig:
    """The largest tile of which every SM has one, or the smallest.

    A block's weights pass by all of its rows, so large tiles read them less often from L2. Two halves of 256 columns
    fit no consumer's registers; there two blocks share what they load.
    """
    found = (form for form in _FORMS[width] if rows > form[0] * form[1] * WGMMA_ROWS // 2 * sms)
    consumers, halves, cluster, turns = next(found, (1, 1, 1, False))
    tile, slot = WGMMA_ROWS * consumers * halves * width * 2, width * SLICE * 2
    left = arch.MAX_SMEM_PER_BLOCK - 1024 - layers * width * 4
    tiles = 2 if left - 2 * tile >= 4 * slot else 1
    return MlpConfig(consumers, cluster, min((left - tiles * tile) // slot, MOST_STAGES), tiles, halves, turns)
