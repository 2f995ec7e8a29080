"""Into how many parts the keys of attention are split, for blocks that share a tile of queries."""

from __future__ import annotations

from collections.abc import Sequence

MOST_SPLITS = 128
CLUSTERS = (2, 4, 8, 16)
"""Blocks that may share the keys of a tile."""
LONG = 48 * 2**20
"""Bytes of keys and values from which on a second kernel costs less than it gains: it lets all SMs read."""
MORE = 6.0, 1.0
"""What a tile of queries takes beside its steps, in steps: with a cluster's blocks on its keys, and without."""


def splits_of(tiles: int, steps: int, sms: int, clusters: Sequence[int], many: bool, least: int) -> tuple[int, int]:
    """Blocks of a cluster that share the keys of a tile, and parts of the keys that another kernel adds up. Both are 1
    where the tiles fill four fifths of the SMs. One is what fills them otherwise: parts, where no cluster does, or
    where keys are ``many``, and more than two blocks share them: those of a cluster lie in a GPC, and meet at the end.
    A few SMs stay free, for the blocks that add up parts come before the last of the others end. ``least``: steps of a
    cluster's block."""
    if tiles >= 0.8 * sms or steps < 2:
        return 1, 1
    cluster = next((n for n in clusters if tiles * n >= 0.8 * sms), clusters[-1])
    parts = min(MOST_SPLITS, steps // 2, int(0.97 * sms) // tiles)
    if (tiles * cluster < 0.4 * sms or many and cluster > 2 and parts > 2) and steps > 4 * cluster:
        return 1, parts
    return min(cluster, 1 << (max(steps // least, 1).bit_length() - 1)), 1


def in_clusters(tiles: int, steps: int, equal: bool, sms: int) -> int:
    """How many blocks of a cluster share the keys of each of ``tiles``, which fill the SMs: 1, unless that saves a
    tenth of the time. ``steps``: of the longest tile; ``equal``: of all, which come in waves then. Others have half as
    many in the mean, and the last ones end while a part of the SMs has no more work."""

    def time(count: int) -> float:
        clusters, each = sms // count, steps / count + MORE[count == 1]
        if equal:
            return -(-tiles // clusters) * each
        mean = steps / 2 / count + MORE[count == 1]
        return max(tiles / clusters * mean + 0.6 * each / count, each)

    best = min((1, 2, 4), key=time)
    return best if time(best) < 0.9 * time(1) else 1
