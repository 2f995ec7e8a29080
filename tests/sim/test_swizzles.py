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


@nv.jit
def by_hand(x, out, *, how):
    """A tile that TMA brought with a swizzle, read by addresses that the kernel computes."""
    x_tma = nv.TMA(x, tile=(16, 64), swizzle=128)
    tables, raw = nv.empty(8, nv.i32, arbitrary=True), nv.empty(2048, nv.u8)

    @nv.kernel(grid=1, block=32)
    def body():
        tile, full, t = nv.smem((16, 64), x.dtype, swizzle=128), nv.Mbarriers(1, arrivals=1)[0], nv.lane_id()
        panel, flat = tile.panel(0), tile.panel(0, (16 * 64,))
        bytes_of = tile.panel(0, (2048,), nv.u8)
        laid_out = nv.get_dynamic_shared_memory((16, 64), x.dtype.ir, tile.offset)
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        if t < 8:
            tables[t] = t * 8
        full.wait(0)
        nv.sync_warp()
        for i in nv.range(t, 16 * 64, 32):
            r, c = i // 64, i % 64
            if how == "panel":
                out[r, c] = panel[r, c]
            elif how == "flat":
                out[r, c] = flat[i]
            elif how == "memory":
                out[r, c] = laid_out[r, c]
            elif how == "vectors":
                out.store_vector(panel.vector((r, c // 8 * 8), 8), (r, c // 8 * 8))
            elif how == "bytes":
                raw[i], raw[i + 1024] = bytes_of[i], bytes_of[i + 1024]
                out[r, c] = tile[r, c]
            elif how == "xor":
                out[r, c] = panel[r, c ^ (r % 8 * 8)]
            elif how == "table":
                out[r, c] = flat[r * 64 + (c ^ tables[r % 8])]
            elif how == "first row":
                out[r, c] = panel[r // 16, c] if r == 0 else tile[r, c]
            elif how == "constants":
                out[r, c] = flat[9 * 64 + (3 ^ 8)] if r == 9 and c == 3 else tile[r, c]
            elif how == "scratch":
                panel[r, c] = x[r, c]
                out[r, c] = panel[r, c]
            else:
                laid_out[r, c] = x[r, c]
                out[r, c] = laid_out[r, c]

    body()


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("how", ["panel", "flat", "memory", "vectors"])
def test_addresses_without_the_swizzle(how, level):
    x = random((16, 64), nv.f16, seed=3)
    error = verdict(by_hand, x, np.zeros_like(x), how=how, options=sim.Options(level=level))
    assert error is not None and error.kind == "layout" and "tile[row, col] applies it" in error.fix
    assert "reads with no swizzle what was written with a 128-byte swizzle" in error.message


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("how", ["bytes", "xor", "table", "first row", "constants", "scratch", "memory as scratch"])
def test_addresses_that_are_right(how, level):
    x = random((16, 64), nv.f16, seed=3)
    assert verdict(by_hand, x, out := np.zeros_like(x), how=how, options=sim.Options(level=level)) is None
    assert (out == x).all()


@nv.jit
def operand_by_hand(a, b, d, *, swizzled):
    @nv.kernel(grid=1, block=128)
    def body():
        A, B = (nv.smem((64, 64), a.dtype, swizzle=128) for _ in range(2))
        panel = A.panel(0)
        for i in nv.range(nv.thread_id.x, 64 * 64, 128):
            r, c = i // 64, i % 64
            panel[r, c ^ (r % 8 * 8) if swizzled else c] = a[r, c]
            B[r, c] = b[r, c]
        nv.fence_proxy_async()
        nv.sync_threads()
        acc = nv.accumulator(64, 64)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()


@pytest.mark.parametrize("swizzled", [False, True])
def test_an_operand_that_was_stored_by_addresses(swizzled):
    a, b = (random((64, 64), nv.f16, seed=s, integers=True) for s in (1, 2))
    error = verdict(operand_by_hand, a, b, d := np.zeros((64, 64), np.float32), swizzled=swizzled)
    if swizzled:
        assert error is None and (d == a.astype(np.float32) @ b.astype(np.float32)).all()
    else:
        assert error is not None and error.kind == "layout" and "with a 128-byte swizzle what was" in error.message
