"""Who multiplies: the order of two warpgroups that play ping-pong."""

from __future__ import annotations

from typing import Any

import nvdsl as nv


class OrderedBarrier:
    """Two warpgroups, 0 and 1, take turns: named barriers 3 and 4 (1 and 2 are the epilogue's)."""

    def take(self, warpgroup: Any) -> None:
        """Wait until the other has passed the turn on."""
        nv.named_barrier_sync(3 + warpgroup, 256)

    def pass_on(self, warpgroup: Any) -> None:
        """It is the other's turn now."""
        nv.named_barrier_arrive(4 - warpgroup, 256)
