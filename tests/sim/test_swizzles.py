"""Elements that one swizzle wrote and another one reads: by TMA, through a `Tile`, as 8x8 matrices, at both levels."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.lang.tile import Tile
from nvdsl.layout import TileLayout
from nvdsl.testing import random
from tests.sim.simulate import verdict

ROWS, COLS = 32, 8  # i32: 32 bytes, one panel


def _seen(tile, swizzle):
    """The same memory with another swizzle."""
    return Tile(TileLayout.of(ROWS, COLS, 4, swizzle), tile.dtype, tile.offset)


def _places(row, lane):
    """Where a lane's four words of 8x8 matrices from a row on lie."""
    return [(row + i % 2 * 8 + lane // 4, i // 2 * 4 + lane % 4) for i in range(4)]


def _put(tile, x, how):
    lane = nv.thread_id.x
    if how == "elements":
        for col in range(COLS):
            tile[lane, col] = x[lane, col]
    elif how == "vectors":
        for col in range(0, COLS, 4):
            tile.store_vector(x.vector((lane, col), 4), (lane, col))
    else:
        for row in range(0, ROWS, 16):
            tile.stmatrix([x[at] for at in _places(row, lane)], (row, 0))


def _get(tile, out, how):
    lane = nv.thread_id.x
    if how == "elements":
        for col in range(COLS):
            out[lane, col] = tile[lane, col]
    elif how == "vectors":
        for col in range(0, COLS, 4):
            out.store_vector(tile.vector((lane, col), 4), (lane, col))
    else:
        for row in range(0, ROWS, 16):
            for at, word in zip(_places(row, lane), tile.ldmatrix((row, 0), 4), strict=True):
                out[at] = word


@nv.jit
def stored(x, out, *, how, writes, reads):
    out_tma = nv.TMA(out, tile=(ROWS, COLS), swizzle=reads)

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((ROWS, COLS), x.dtype, swizzle=reads)
        _put(_seen(tile, writes), x, how)
        nv.fence_proxy_async()
        nv.sync_warp()
        if nv.lane_id() == 0:
            out_tma.store(tile, (0, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()


@nv.jit
def loaded(x, out, *, how, writes, reads):
    x_tma = nv.TMA(x, tile=(ROWS, COLS), swizzle=writes)

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((ROWS, COLS), x.dtype, swizzle=writes)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.lane_id() == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        full.wait(0)
        _get(_seen(tile, reads), out, how)

    body()


@pytest.mark.parametrize("level", ["traced", "nvvm"])
@pytest.mark.parametrize("how", ["elements", "vectors", "matrices"])
@pytest.mark.parametrize("kernel", [stored, loaded])
def test_one_swizzle(kernel, how, level):
    x, options = random((ROWS, COLS), nv.i32, seed=1), sim.Options(level=level)
    for writes, reads in ((32, 32), (0, 0), (32, 0), (0, 32)):
        out = np.zeros_like(x)
        error = verdict(kernel, x, out, how=how, writes=writes, reads=reads, options=options)
        if writes == reads:
            assert error is None
            np.testing.assert_array_equal(out, x)
        else:
            assert error is not None and error.kind == "layout", error
            names = {0: "no swizzle", 32: "a 32-byte swizzle"}
            assert f"reads with {names[reads]} what was written with {names[writes]}" in error.message
            assert error.details[0].startswith("first: ")


@nv.jit
def rows(x, out, *, count):
    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((ROWS, COLS), x.dtype, swizzle=32)
        if nv.lane_id() < count:
            _put(tile, x, "elements")
            _get(_seen(tile, 0), out, "elements")

    body()


@pytest.mark.parametrize(("count", "kind"), [(4, None), (5, "layout")])
def test_a_row_that_the_swizzle_leaves_where_it_is(count, kind):
    """The pattern of 32 bytes moves every second group of four rows."""
    x = random((ROWS, COLS), nv.i32, seed=1)
    error = verdict(rows, x, np.zeros_like(x), count=count)
    assert getattr(error, "kind", None) == kind, error


@nv.jit
def anew(x, out):
    """Memory that is written again, by bytes that are no tile's."""

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((ROWS, COLS), x.dtype, swizzle=32)
        _put(tile, x, "elements")
        nv.sync_warp()
        flat = nv.ops.smem.get_dynamic_shared_memory((ROWS * COLS,), nv.i32.ir, tile.offset)
        for i in range(COLS):
            flat[i * 32 + nv.lane_id()] = x[nv.lane_id(), i]
        nv.sync_warp()
        _get(_seen(tile, 0), out, "elements")

    body()


def test_what_has_no_swizzle_is_not_judged():
    x = random((ROWS, COLS), nv.i32, seed=1)
    assert verdict(anew, x, np.zeros_like(x)) is None
