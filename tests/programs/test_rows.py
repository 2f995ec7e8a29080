"""The row programs at other shapes and types than in sim/programs.py, against f64."""

import ml_dtypes
import numpy as np
import pytest

from tests.sim.programs import layer_norm_of, load, softmax_of
from tests.sim.simulate import run

TOLERANCE = {np.float32: 1e-5, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}


def _softmax(name, *shape, dtype=np.float32, **options):
    x = (10 * np.random.default_rng(shape).standard_normal(shape)).astype(dtype)
    x[0, 0], x[-1] = -np.inf, np.inf if shape[0] > 1 else x[-1]
    y = np.full_like(x, np.nan)
    run(name, x, y, **options)
    with np.errstate(invalid="ignore"):
        expected = softmax_of(x)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=TOLERANCE[dtype], atol=1e-7)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize(("shape", "options"), [
    ((3, 1), {}), ((9, 50), {"lanes": 8, "threads": 32}), ((2, 2056), {}), ((2, 777), {"lanes": 128}),
    ((1, 8192), {"threads": 256, "lanes": 256}),
])  # fmt: skip
def test_softmax(shape, options, dtype):
    _softmax(load("chapters/ch11_row_softmax.py").softmax, *shape, dtype=dtype, **options)


@pytest.mark.parametrize(("shape", "options"), [((3, 2056), {}), ((2, 99), {"threads": 32, "cluster": 8})])
def test_softmax_of_a_cluster(shape, options):
    _softmax(load("tests/programs/cluster_softmax.py").cluster_softmax, *shape, dtype=np.float16, **options)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("cols", [1, 77, 1032])
def test_layer_norm(cols, dtype):
    rng = np.random.default_rng(cols)
    offset = 0 if cols == 1 else 1e4 if dtype is np.float32 else 30
    x = (offset + rng.standard_normal((3, cols))).astype(dtype)
    weight, bias = (rng.standard_normal(cols).astype(dtype) for _ in range(2))
    y = np.full_like(x, np.nan)
    run(load("tests/programs/layer_norm.py").layer_norm, x, weight, bias, y)
    tolerance = 3 * TOLERANCE[dtype]
    np.testing.assert_allclose(y.astype(np.float64), layer_norm_of(x, weight, bias), rtol=tolerance, atol=tolerance)
