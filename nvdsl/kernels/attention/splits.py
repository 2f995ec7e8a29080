"""Into how many parts the keys of attention are split, for blocks that share a tile of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST_SPLITS = 128
CLUSTERS = (2, 4, 8, 16)
"""Blocks that may share the keys of a tile."""
LONG = 48 * 2**20
"""Bytes of keys and values from which on a second kernel costs less than it gains: it lets all SMs read."""
FEW = 0.4
"""Where clusters of eight would leave more of the SMs than this empty, there may be parts."""
EQUAL = 0.9


def splits_of(tiles: int, steps: int, sms: int, clusters: Sequence[int], many: bool) -> tuple[int, int]:
    """Blocks of a cluster that share the keys of a tile, and parts of the keys that another kernel adds up. Both are 1
    where the tiles fill four fifths of the SMs. One is what fills them otherwise: parts, where no cluster does, or
    where keys are ``many``, and more than two blocks share them: those of a cluster lie in a GPC, and meet at the end.
    A few SMs stay free, for the blocks that add up parts come before the last of the others end."""
    if tiles >= 0.8 * sms or steps < 2:
        return 1, 1
    cluster = next((n for n in clusters if tiles * n >= 0.8 * sms), clusters[-1])
    parts = min(MOST_SPLITS, steps // 2, int(0.97 * sms) // tiles)
    if (tiles * cluster < FEW * sms or many and cluster > 2 and parts > 2) and steps > 4 * cluster:
        return 1, parts
    return min(cluster, 1 << (steps.bit_length() - 1)), 1


def in_clusters(tiles: int, steps: int, mean: float, sms: int) -> int:
    """How many blocks of a cluster, which have an SM each, share the keys of each of ``tiles``: 1, unless that saves a
    tenth of the time. ``steps``: tiles of keys of the longest tile; ``mean``: the part of them that others have. Equal
    ones come in waves; of others the last ones end while some of the SMs have no more work."""

    def time(count: int) -> float:
        clusters, more = sms // count, 1 if count == 1 else 4 + math.log2(count)  # steps for a tile's start and end
        each = steps / count + more
        if mean > EQUAL:
            return -(-tiles // clusters) * each
        return max(tiles / clusters * (steps * mean / count + more) + (0.6 if count == 1 else 0.3) * each, each)

    best = min((count for count in (1, 2, 4, 8) if count <= sms), key=time)
    return best if time(best) < 0.9 * time(1) else 1
