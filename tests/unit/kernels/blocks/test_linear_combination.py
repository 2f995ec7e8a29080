"""What ``nv.matmul`` does with sums before it stores them: scales, alpha, beta * C, bias, activation."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import ACTIVATIONS
from tests.exhaustive import sample
from tests.unit.kernels.products import CONFIGS, SMALL, made, product


@pytest.mark.parametrize(
    ("config", "shape"),
    sample([(config, shape) for config in (*CONFIGS, None) for shape in ((70, 40, 33), (64, 80, 40))], 4),
    ids=lambda x: str(x) if isinstance(x, tuple) else x.schedule if x else "simple",
)
def test_the_whole_epilogue(config, shape):
    m, n, k = shape
    a, b, c, bias = made(2, m, k), made(2, k, n), made(2, m, n), made(n)
    rows, cols = made(2, m, 1, dtype=np.float32), made(n, dtype=np.float32)
    got = nv.matmul(
        a, b, c=c, alpha=0.5, beta=2.0, bias=bias, activation="relu", scale_a=rows, scale_b=cols, out_dtype=nv.f32,
        target="sim", config=config,
    )  # fmt: skip
    expected = np.maximum(0.5 * rows * cols * product(a, b) + 2 * c.astype(np.float32) + bias, 0)
    np.testing.assert_array_equal(got, expected)


def test_the_result_may_be_c():
    a, b, c = made(40, 16), made(16, 24), made(40, 24, dtype=np.float32)
    before = c.copy()
    nv.matmul(a, b, c, c=c, beta=-1.0, target="sim", config=SMALL)
    np.testing.assert_array_equal(c, product(a, b) - before)


@pytest.mark.parametrize("k", [12, 0])
def test_an_epilogue_of_doubles_is_computed_in_doubles(k):
    rng = np.random.default_rng(0)
    a, b, c, bias, rows = (rng.standard_normal(s) for s in ((7, k), (k, 5), (7, 5), 5, (7, 1)))
    options = {"alpha": 1 / 3, "beta": 1 / 7, "bias": bias, "scale_a": rows}
    got = nv.matmul(a, b, c=c, **options, activation=plus_one, target="sim")
    np.testing.assert_allclose(got, rows * (a @ b) / 3 + c / 7 + bias + 1, rtol=4e-15, atol=1e-15)
    tiny = nv.matmul(a, b, alpha=1e-300, activation="relu", target="sim")
    np.testing.assert_allclose(tiny, np.maximum(1e-300 * (a @ b), 0), rtol=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_doubles(name):
    a, b = made(9, 8, dtype=np.float64) / 4, made(8, 7, dtype=np.float64)
    got = nv.matmul(a, b, activation=name, target="sim")
    np.testing.assert_allclose(got, REFERENCES[name](a @ b), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("config", [None, SMALL])
def test_relu_keeps_nan(dtype, config):
    a, b = made(8, 16, dtype=dtype), np.ones((16, 8), dtype)
    a[3, 5], a[5, 1] = np.nan, -np.inf
    got = nv.matmul(a, b, activation="relu", config=config, target="sim")
    np.testing.assert_array_equal(got, np.maximum(a @ b, 0))
    assert np.isnan(got[3]).all()


def test_beta_of_zero_does_not_read_c():
    a, b = made(8, 16), made(16, 8)
    c = np.full((8, 8), np.nan, np.float16)
    np.testing.assert_array_equal(nv.matmul(a, b, c=c, beta=0.0, target="sim"), product(a, b))


def test_numbers_are_scales_of_the_tensor():
    a, b = made(8, 16), made(16, 8)
    got = nv.matmul(a, b, scale_a=np.float32(2), scale_b=0.25, alpha=4, target="sim")
    np.testing.assert_array_equal(got, 2 * product(a, b))


REFERENCES = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: np.array([0.5 * v * (1 + math.erf(v / 2**0.5)) for v in x.flat]).reshape(x.shape),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    a, b = made(16, 8) * np.float16(0.25), made(8, 16)
    got = nv.matmul(a, b, activation=name, out_dtype=nv.f32, target="sim")
    np.testing.assert_allclose(got, REFERENCES[name](product(a, b).astype(np.float64)), rtol=2e-3, atol=2e-3)


def plus_one(x):
    return x + 1.0


def test_an_activation_of_the_callers():
    a, b = made(16, 8), made(8, 16)
    np.testing.assert_array_equal(nv.matmul(a, b, activation=plus_one, target="sim"), product(a, b) + 1)
