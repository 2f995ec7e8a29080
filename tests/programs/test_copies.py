"""The programs of copies at other shapes and types than in sim/programs.py."""

import ml_dtypes
import numpy as np
import pytest

from tests.sim.programs import load
from tests.sim.simulate import run


@pytest.mark.parametrize(
    ("shape", "dtype", "options"),
    [
        ((64, 32), np.float32, {}), ((1, 1), np.float32, {}), ((67, 130), np.float16, {"swizzle": 64}),
        ((130, 5), np.float64, {"threads": 64}), ((40, 100), ml_dtypes.bfloat16, {"swizzle": 32}),
        ((65, 200), np.uint8, {"threads": 128}), ((33, 40), np.int32, {"swizzle": 0}),
    ],
)  # fmt: skip
def test_transpose(shape, dtype, options):
    x = np.random.default_rng(shape).integers(0, 100, shape).astype(dtype)
    y = np.zeros(shape[::-1], dtype)
    run(load("chapters/ch12_transpose.py").transpose, x, y, **options)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize(("cluster", "rows"), [(1, 8), (2, 16), (4, 16), (8, 8)])
def test_weighted_sum_of_a_cluster(cluster, rows):
    rng = np.random.default_rng(cluster)
    a, weights = (rng.integers(-4, 5, s).astype(np.float32) for s in ((cluster, 32, 128), (32, 128)))
    y = np.full((32, 128), np.nan, np.float32)
    run(load("tests/programs/cluster_sum.py").cluster_sum, a, weights, y, rows=rows)
    np.testing.assert_array_equal(y, (a * weights).sum(0))


@pytest.mark.parametrize(("shape", "options"), [((40, 64), {}), ((3, 8), {"stages": 4}), ((17, 136), {"threads": 32})])
def test_sums_of_columns(shape, options):
    x = np.random.default_rng(shape).integers(-9, 9, shape).astype(np.float16)
    y = np.full(shape[1], np.nan, np.float32)
    run(load("tests/programs/cp_async_rows.py").column_sums, x, y, **options)
    np.testing.assert_array_equal(y, x.sum(0, dtype=np.float32))
