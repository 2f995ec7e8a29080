"""What the three kernels of attention's gradients share: their arrays and numbers, which tiles there are, what loads
them, and where dQ is added up."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import GradientLoads
from nvdsl.kernels.attention.gradient_scores import Scoring, Weights
from nvdsl.kernels.attention.gradient_shares import GradientShares
from nvdsl.kernels.attention.gradient_sums import GradientSums
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Seeing
from nvdsl.ops.order import recomputed


@dataclass(frozen=True)
class GradientFrame:
    """Made in the host function. ``dk`` and ``dv`` are what a kernel writes; dQ becomes what ``sums`` adds up.
    ``ordered``: whether dQ is added up in the order of the tiles of keys. ``shares``: where dK and dV go instead if
    several blocks have the same keys."""

    config: Config
    tiles: GradientTiles
    scoring: Scoring
    loads: GradientLoads
    sums: GradientSums
    dk: nv.Array
    dv: nv.Array
    ordered: bool
    shares: GradientShares | None = None

    @property
    def dtype(self) -> nv.DType:
        """Of q, k and v, and of P and dS in shared memory."""
        return self.dk.dtype

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread of the producer, and of a consumer's."""
        return self.config.registers(self.tiles.packed or self.tiles.packed_keys)

    @property
    def backwards(self) -> bool:
        """Whether blocks take queries from the last to the first. Where dQ has an order, blocks that see the same last
        queries would else wait until the one with the first keys has come there. Where the last keys come first, the
        block before has always been at a tile of queries when the next one comes to it."""
        return self.ordered and not self.tiles.descending

    def place(self, number: nv.Int, whole_warp: bool) -> tuple[KeyTile, Seeing]:
        """The keys of a tile, and which queries see them; in the kernel, each time anew rather than in registers.
        Functions of scores are told of queries in the order of a loop. ``whole_warp``: see `Sequences.of`."""
        at, scoring = self.tiles.keys_of(recomputed(number), whole_warp), self.scoring
        return at, Seeing(self.tiles, at, scoring.left, scoring.right, self.backwards, scoring.kind.told)

    def weights(self, at: KeyTile) -> Weights:
        """Of these keys, in the kernel."""
        return Weights(self.scoring, at)
