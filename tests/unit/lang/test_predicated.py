"""Stores under a predicate: of every type, of vectors, into tiles; indices are checked where it holds."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim.simulate import run, verdict

DTYPES = [
    np.bool_, np.int8, np.uint8, ml_dtypes.float8_e4m3fn, np.int16, np.float16, ml_dtypes.bfloat16, np.int32,
    np.float32, np.int64, np.float64,
]  # fmt: skip


@nv.jit
def stored(x, y, z, *, count):
    """Where x is above 2: its number to y; and vectors of ``count`` to z, through a tile."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        p = x[t] > 2.0
        y.store(nv.select(p, t, t + 1000), x[t], predicate=p)
        tile = nv.smem((4, 8 * count), z.dtype)
        tile.store((t // 8, t % 8 * count), z.vector(t * count, count), predicate=p)
        if p:
            z.store(t * count, tile.vector((t // 8, t % 8 * count), count) + 1, predicate=True)

    kernel()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_a_number_of_each_type(dtype, level):
    @nv.jit
    def host(x, y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            t = nv.thread_id.x
            p = x[t] > 2.0
            y.store(nv.select(p, t, t + 1000), x[t] > 3.0 if dtype is np.bool_ else x[t], predicate=p)

        kernel()

    x = np.random.default_rng(0).integers(0, 6, 32).astype(np.float32)
    if np.dtype(dtype).kind in "iu":
        x = x.astype(dtype)
    y = np.zeros(32, dtype)
    run(host, x, y, options=sim.Options(level=level))
    given = x > 3 if dtype is np.bool_ else x.astype(dtype)
    np.testing.assert_array_equal(y.astype(float), np.where(x > 2, given.astype(float), 0))


@pytest.mark.parametrize("dtype, count", [(np.float32, 4), (np.float16, 8), (np.float64, 2), (np.float16, 2)])
def test_vectors_and_tiles(dtype, count):
    x = np.random.default_rng(0).integers(0, 6, 32).astype(np.float32)
    y, z = np.zeros(32, np.float32), np.arange(32 * count).astype(dtype)
    run(stored, x, y, z, count=count)
    np.testing.assert_array_equal(y, np.where(x > 2, x, 0))
    added = np.repeat(x > 2, count)
    np.testing.assert_array_equal(z, np.arange(32 * count) + added)


def test_an_index_outside_where_the_predicate_holds():
    @nv.jit
    def host(y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            y.store(nv.thread_id.x, 1.0, predicate=nv.thread_id.x < 20)

        kernel()

    found = verdict(host, np.zeros(16, np.float32))
    assert found is not None and found.kind == "out-of-bounds" and "lane 16" in str(found)
