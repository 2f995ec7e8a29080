"""The order in which two consumer warpgroups multiply."""

from __future__ import annotations

from typing import Any

import nvdsl as nv


class OrderedBarrier:
    """Warpgroups 0 and 1 take turns, by named barriers 3 and 4 (1 and 2 are the epilogue's)."""

    def wait(self, warpgroup: Any) -> None:
        """Wait for this warpgroup's turn: until the other one has arrived."""
        nv.named_barrier_sync(3 + warpgroup, 256)

    def arrive(self, warpgroup: Any) -> None:
        """It is the other one's turn now."""
        nv.named_barrier_arrive(4 - warpgroup, 256)
