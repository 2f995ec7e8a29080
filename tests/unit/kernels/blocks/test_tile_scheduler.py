"""Groups of rows of tiles: every tile exactly once, whatever the shape, and the same numbers when traced."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.tile_scheduler import RowGroups, TileScheduler

extents, groups = st.integers(1, 12), st.integers(1, 16)


def places(rows, cols, group, last=None):
    groups = RowGroups(rows, cols, group, last)
    return [groups.place(t) for t in range(rows * cols)]


@given(extents, extents, groups, st.none() | groups)
@settings(max_examples=200)
def test_every_tile_comes_once(rows, cols, group, last):
    assert sorted(places(rows, cols, group, last)) == [(r, c) for r in range(rows) for c in range(cols)]


def test_the_last_group_has_many_rows():
    assert places(5, 2, 1, last=3) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (2, 1), (3, 1), (4, 1),
    ]  # fmt: skip


@nv.jit
def traced_places(out, rows, cols, *, group, last=None):
    groups = RowGroups(rows, cols, group, last)

    @nv.kernel(grid=1, block=256)
    def kernel():
        t = nv.thread_id.x
        if t < rows * cols:
            row, col = groups.place(t)
            out[t, 0] = row
            out[t, 1] = col

    kernel()


@nv.jit
def constant_places(out, *, rows, cols, group, last):
    traced_places.__wrapped__(out, rows, cols, group=group, last=last)


@pytest.mark.parametrize("shape", [(8, 3, 4), (7, 5, 4), (3, 4, 16), (6, 9, 2), (4, 7, 1), (11, 21, 8), (1, 1, 8)])
def test_a_traced_number_gives_the_same_tile(shape):
    (rows, cols, group), last = shape, 3 if shape[0] == 7 else None
    traced, constant = np.full((2, 240, 2), -1, np.int32)
    traced_places(traced, rows, cols, group=group, last=last, target="sim")
    constant_places(constant, rows=rows, cols=cols, group=group, last=last, target="sim")
    for out in traced, constant:
        assert [tuple(x) for x in out[: rows * cols]] == places(rows, cols, group, last)


def test_a_group_is_finished_before_the_next():
    rows = [row // 4 for row, _ in places(16, 5, 4)]
    assert rows == sorted(rows)


@given(extents, extents, st.sampled_from([(1, 1), (2, 1), (1, 2), (4, 1)]), groups)
@settings(max_examples=100)
def test_a_cluster_takes_neighbouring_tiles(rows, cols, cluster, group):
    m, n = cluster
    tiles = TileScheduler(rows * 64, cols * 32, 64, 32, m, n, group=group)
    starts = {tiles.start(t, rank)[1:] for t in range(tiles.count) for rank in range(m * n)}
    assert len(starts) == tiles.count * m * n
    assert starts >= {(r * 64, c * 32) for r in range(rows) for c in range(cols)}
    first = [tiles.start(0, rank)[1:] for rank in range(m * n)]
    assert first == [(i % m * 64, i // m * 32) for i in range(m * n)]
