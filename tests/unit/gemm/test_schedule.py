"""Tile orders: every tile exactly once, whatever the shape, and the same numbers when traced."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.schedule import ORDERS, Tiles, tile_at

extents, groups = st.integers(1, 12), st.integers(1, 16)


@given(extents, extents, st.sampled_from(ORDERS), groups)
@settings(max_examples=200)
def test_every_tile_comes_once(rows, cols, order, group):
    found = [tile_at(t, rows, cols, order, group) for t in range(rows * cols)]
    assert sorted(found) == [(r, c) for r in range(rows) for c in range(cols)]


@nv.jit
def places(out, *, rows, cols, order, group):
    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        if t < rows * cols:
            row, col = tile_at(t, rows, cols, order, group)
            out[t, 0] = row
            out[t, 1] = col

    kernel()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(8, 3, 4), (7, 5, 4), (3, 4, 16)])
def test_a_traced_number_gives_the_same_tile(order, shape):
    rows, cols, group = shape
    out = np.full((rows * cols, 2), -1, np.int32)
    places(out, rows=rows, cols=cols, order=order, group=group, target="sim")
    assert [tuple(x) for x in out] == [tile_at(t, rows, cols, order, group) for t in range(rows * cols)]


def test_a_group_is_finished_before_the_next():
    rows = [tile_at(t, 16, 5, "rows", 4)[0] // 4 for t in range(80)]
    assert rows == sorted(rows)
    cols = [tile_at(t, 5, 16, "columns", 4)[1] // 4 for t in range(80)]
    assert cols == sorted(cols)


def test_serpentine_goes_on_where_it_was():
    found = [tile_at(t, 8, 6, "serpentine", 2) for t in range(48)]
    for (_, before), (_, after) in zip(found, found[1:], strict=False):
        assert abs(before - after) <= 1


@given(extents, extents, st.sampled_from([(1, 1), (2, 1), (1, 2), (4, 1)]), groups)
@settings(max_examples=100)
def test_a_cluster_takes_neighbouring_tiles(rows, cols, cluster, group):
    m, n = cluster
    tiles = Tiles(rows * 64, cols * 32, 64, 32, m, n, group=group)
    starts = {tiles.start(t, rank)[1:] for t in range(tiles.count) for rank in range(m * n)}
    assert len(starts) == tiles.count * m * n
    assert starts >= {(r * 64, c * 32) for r in range(rows) for c in range(cols)}
    first = [tiles.start(0, rank)[1:] for rank in range(m * n)]
    assert first == [(i % m * 64, i // m * 32) for i in range(m * n)]
