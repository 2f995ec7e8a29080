"""Tile orders: every tile exactly once, whatever the shape, and the same numbers when traced."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.hilbert import curve
from nvdsl.kernels.blocks.tile_scheduler import ORDERS, TileScheduler, tile_at
from nvdsl.kernels.gemm import cooperative, pingpong
from nvdsl.kernels.gemm.config import Config

extents, groups = st.integers(1, 12), st.integers(1, 16)


@given(extents, extents, st.sampled_from(ORDERS), groups)
@settings(max_examples=200)
def test_every_tile_comes_once(rows, cols, order, group):
    found = [tile_at(t, rows, cols, order, group) for t in range(rows * cols)]
    assert sorted(found) == [(r, c) for r in range(rows) for c in range(cols)]


@nv.jit
def places(out, *, rows, cols, order, group):
    @nv.kernel(grid=1, block=256)
    def kernel():
        t = nv.thread_id.x
        if t < rows * cols:
            row, col = tile_at(t, rows, cols, order, group)
            out[t, 0] = row
            out[t, 1] = col

    kernel()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(8, 3, 4), (7, 5, 4), (3, 4, 16), (6, 9, 2), (4, 7, 1), (11, 21, 8)])
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


def steps(order, rows, cols, group):
    """How far it is from each tile to the next."""
    found = [tile_at(t, rows, cols, order, group) for t in range(rows * cols)]
    return [abs(r - s) + abs(c - d) for (r, c), (s, d) in pairwise(found)]


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))
@settings(max_examples=100)
def test_a_hilbert_curve_goes_from_neighbour_to_neighbour(side, rows, cols, more):
    """Also from square to square and from band to band; from what is left beside them, across two bands at most."""
    assert set(steps("hilbert", rows * side, cols * side, side + more % side)) <= {1}
    assert max(steps("hilbert", rows * side + more, cols * side + more, side), default=0) < 2 * side


def test_a_hilbert_curve_fills_its_quadrants_one_after_the_other():
    assert [curve(d, 2) for d in range(4)] == [(0, 0), (0, 1), (1, 1), (1, 0)]
    for side in (2, 4, 8, 16, 32):
        points = [curve(d, side) for d in range(side * side)]
        assert (points[0], points[-1]) == ((0, 0), (side - 1, 0))
        quarter = side * side // 4
        for i, corner in enumerate([(0, 0), (0, 1), (1, 1), (1, 0)]):
            assert {(2 * x // side, 2 * y // side) for x, y in points[i * quarter : (i + 1) * quarter]} == {corner}


def rows_and_columns(order, size, group, window=132):
    """How many different rows and columns each ``window`` consecutive tiles have."""
    found = [tile_at(t, size, size, order, group) for t in range(size * size)]
    parts = [found[t : t + window] for t in range(len(found) - window + 1)]
    return [len({r for r, _ in part}) + len({c for _, c in part}) for part in parts]


@pytest.mark.parametrize("group", [4, 8, 16, 32])
@pytest.mark.parametrize("size", [32, 64])
def test_a_hilbert_curve_reads_as_little_as_groups_of_rows(size, group):
    """The worst moment is better, as nothing jumps; on average there is little in it, unless the group is too large."""
    curved, grouped = rows_and_columns("hilbert", size, group), rows_and_columns("rows", size, group)
    assert max(curved) <= max(grouped)
    assert np.mean(curved) <= (1.07 if group < 32 else 0.8) * np.mean(grouped)


MATMUL = {"cooperative": cooperative.matmul, "pingpong": pingpong.matmul}


@pytest.mark.parametrize("schedule", MATMUL)
def test_a_product_along_a_hilbert_curve(schedule):
    """5 x 3 clusters of tiles: squares of 2, a column and a row that are left."""
    rng = np.random.default_rng(0)
    m, n, k, cluster = (600, 184, 64, 1) if schedule == "pingpong" else (1200, 184, 64, 2)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    out = np.full((m, n), np.nan, np.float32)
    config = Config(128, 64, stages=2, schedule=schedule, cluster_m=cluster, order="hilbert", group=2)
    MATMUL[schedule](a, b, out, config=config, blocks=2 * cluster, target="sim")
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("group", [8, 16])
@pytest.mark.parametrize("schedule, tile", [("cooperative", (128, 256)), ("pingpong", (128, 192))])
def test_a_hilbert_curve_costs_no_registers_that_are_not_there(schedule, tile, group):
    square = nv.ShapeDtype((5000, 5000), nv.f16)
    strict = nv.jit(MATMUL[schedule].__wrapped__, strict=True)
    config = Config(*tile, schedule=schedule, order="hilbert", group=group)
    (kernel,) = strict.compile(square, square, square, config=config, blocks=132).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores, kernel.resources.spill_loads) == (0, 0, 0)


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
