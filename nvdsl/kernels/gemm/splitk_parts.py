"""Split-K beyond a cluster: how many clusters share a tile, and how the sums of all come to one of them.

A cluster has at most 8 blocks. Where K is long and tiles are few, several clusters have a part of each tile's K. Parts
are in groups. The last one of a group waits for the sums of the others, in global memory, and adds them in a fixed
order; the last one of all does so with the sums of groups, and stores:

    parts  0 1 2 3   4 5 6 7   8 9 10 11        3 adds 0 1 2,  7 adds 4 5 6,  11 adds 8 9 10,  then 3 and 7

Who waits has a higher number than those that it waits for, so all of these have begun before it.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.gemm.streamk_fixup import GIVEN, VECTOR, given, plus, stored
from nvdsl.ops import memory

AHEAD = 12
"""Vectors of sums that a thread asks for before it adds one: each takes as long as the way to L2."""
LEAST = 8
"""Slices of a block's part, at least: for fewer, handing over takes as long as it saves."""
GROUPS = ((6, 7), (16, 2), (64, 3), (128, 4))
"""Up to so many parts, the exponent of the size of a group. Few parts are one group, as a second wait takes longer."""


def parts(tiles: nv.Int, slices: nv.Int, split: int, clusters: int, most: int, least: int = LEAST) -> nv.Int:
    """Clusters of each tile, of ``clusters`` that run at the same time: 1 to ``most``. ``slices``: of K; ``least``: of
    a block's part."""
    wanted = nv.max(nv.min(nv.min(clusters // tiles, slices // (split * least)), most), 1)
    each = nv.max(nv.cdiv(slices, wanted * split), 1) * split
    return nv.max(nv.cdiv(slices, each), 1)  # none without a slice


def group_bits(parts: nv.Int) -> nv.Int:
    """Of the size of a group, the exponent: see `GROUPS`."""
    bits: nv.Int = GROUPS[-1][1]
    for most, fewer in reversed(GROUPS[:-1]):
        bits = nv.select(parts <= most, fewer, bits)
    return bits


class PartsWorkspace:
    """Sums of consumer warpgroups, ``rows x cols`` each, on their way to another cluster. Made in the host function.

    ``slots``: as many are handed over at most. As in `nvdsl.kernels.gemm.streamk_fixup`, memory is this call's alone
    and not cleared, and a flag is up when it has a value that no memory has by chance.
    """

    def __init__(self, slots: int, rows: int, cols: int, dtype: nv.DType) -> None:
        self.sums = nv.empty((slots, rows * cols // (128 * VECTOR), 128 * VECTOR), dtype)
        self.flags = nv.empty(slots, nv.i64, arbitrary=True)

    def store(self, acc: nv.Accumulator, slot: Any, barrier: Any) -> None:
        """Write what a cluster gives, and raise its flag. By one warpgroup, of which ``barrier`` is a named barrier."""
        stored(self.sums, acc, slot)
        nv.named_barrier_sync(barrier, 128)
        if nv.warpgroup_thread() == 0:
            memory.store_release(self.flags, slot, GIVEN)

    def sum(self, acc: nv.Accumulator, first: Any, step: Any, count: Any, barrier: Any) -> nv.Accumulator:
        """What is given in slots ``first``, ``first + step``, ... plus ``acc``, once all are there; lowers their flags.
        Threads wait for one each, ``count`` of the warpgroup."""
        thread = nv.warpgroup_thread()
        if thread // 32 * 32 < count:
            slot = first + nv.min(thread, count - 1) * step
            while nv.vote_any(memory.load_acquire(self.flags, slot) != GIVEN):
                pass
            if thread < count:
                self.flags[slot] = 0
        nv.named_barrier_sync(barrier, 128)
        at_once = max(AHEAD // self.sums.shape[1], 1)
        for i in nv.range(0, count, at_once, unroll=False):
            slots = [first + nv.min(i + j, count - 1) * step for j in range(at_once)]
            loaded = [given(self.sums, acc, slot) for slot in slots]
            for j, registers in enumerate(loaded):
                acc = plus(acc, registers, j == 0 or i + j < count)
        return acc
