"""nv.dropout: the mask of its seed, its own gradient, and what it refuses."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from tests.sim.tiles import kept_of


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


@pytest.mark.parametrize(
    ("shape", "dtype"), [((37, 75), np.float16), ((2, 3, 20), ml_dtypes.bfloat16), ((1,), np.float32)]
)
def test_the_mask_is_that_of_the_seed(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    rows, cols = x.size // shape[-1], shape[-1]
    for seed, p in ((7, 0.3), (-(2**40) + 5, 0.3), (7, 0.0)):
        keep = kept_of(seed, rows, cols, p).reshape(shape)
        expected = np.where(keep, x.astype(np.float32) / (1 - p), 0).astype(dtype)
        np.testing.assert_allclose(nv.dropout(x, p, seed).astype(np.float32), expected.astype(np.float32), rtol=1e-2)
    assert nv.dropout(x, 0.3, 7, x) is x
    assert (x.astype(np.float32)[~kept_of(7, rows, cols, 0.3).reshape(shape)] == 0).all()


def test_no_rows():
    assert nv.dropout(np.zeros((0, 8), np.float16), 0.5, 1).shape == (0, 8)


X = np.zeros((4, 8), np.float32)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: nv.dropout(X, 1.0, 0), "p=1.0"),
        (lambda: nv.dropout(X, -0.1, 0), "p=-0.1"),
        (lambda: nv.dropout(X, 0.1, 0.5), "seed=0.5"),
        (lambda: nv.dropout(X.astype(np.int32), 0.1, 0), "x is of i32"),
        (lambda: nv.dropout(X, 0.1, 0, X[:3]), "out has the shape (3, 8)"),
        (lambda: nv.dropout(X[:3], 0.1, 0, X[1:]), "out and x overlap"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_call(call, says):
    with pytest.raises(nv.ArgumentError) as caught:
        call()
    assert says in caught.value.message
    assert caught.value.where.file == __file__ and caught.value.rule
