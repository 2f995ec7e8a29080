"""Lanes of a warp run on their own: what one stored to shared memory, another reads after bar.warp.sync or a barrier.

Vector clocks are kept by warp, not by lane. So this keeps for each unit of shared memory the lane that stored it last,
with a stamp that changes whenever its warp's lanes meet. (Only reads after stores are checked, not stores after reads.)
What it finds is said at the block's end: a race between warps at the same place says more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import SimError
from nvdsl.sim.report import Access, error

_COLLECTIVE = 62
"""The lane that stands for all of them together (stmatrix, ldmatrix)."""


class Lanes:
    """One block's shared memory of ``size`` bytes. ``shift``: log2 of the bytes of a unit."""

    def __init__(self, size: int, shift: int) -> None:
        self._units, self.shift = (size >> shift) + 1, shift
        self._last: Any = None
        self._stores: dict[int, Access] = {}
        self.found: SimError | None = None

    def access(self, w: Any, offsets: Any, size: int, writes: bool, access: Access) -> None:
        """An ordinary access of ``size`` bytes at ``offsets``, one for each active lane (an int: at the same place)."""
        collective = access.what in ("stmatrix", "ldmatrix")
        if self._last is None:
            if not writes:
                return
            self._last = np.zeros(self._units, np.int64)
        first, count = offsets >> self.shift, max(size >> self.shift, 1)
        single = w.active is not None and len(w.active) == 1
        if offsets.__class__ is int:
            units: Any = slice(first, first + count)
            lane = int(w.active[0]) if single else _COLLECTIVE
        else:
            units = first if count == 1 else first + np.arange(count)[:, None]
            lane = w.lane if w.active is None else w.active
        if collective:
            lane = _COLLECTIVE
        if not writes:
            self._check(w, self._last[units], lane, access)
        elif offsets.__class__ is int and not single:
            self._last[units] = 0  # every lane stored it itself
        else:
            self._last[units] = w.stamp * 64 + lane
            self._stores[w.stamp] = access

    def bulk(self, w: Any, lane: int, first: int, last: int, access: Access) -> None:
        """A bulk copy, issued by one lane, that reads the bytes from ``first`` on, up to ``last``."""
        if self._last is not None:
            self._check(w, self._last[first >> self.shift : -(-last >> self.shift)], lane, access)

    def _check(self, w: Any, found: Any, lane: Any, access: Access) -> None:
        if self.found is not None:
            return
        wrong = (found >> 6 == w.stamp) & (found & 63 != lane)
        if not wrong.any():
            return
        store = self._stores[w.stamp]
        self.found = error(
            "warp-sync",
            f"{access} reads what another lane of the same warp stored: {store}, and the lanes have not met since",
            access.where,
            "lanes of a warp run independently; bar.warp.sync orders their accesses (PTX ISA, bar.warp.sync)",
            "nv.sync_warp() between the store and the load",
        )
