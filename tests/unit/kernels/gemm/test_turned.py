"""Products of f32 whose factors have another axis than K contiguous: one is read into registers, as it lies."""

import numpy as np
import pytest

import nvdsl as nv
from tests.exhaustive import sample

SHAPES = [(72, 68, 44), (260, 20, 100), (4, 300, 36), (132, 132, 132), (64, 8, 516)]


@pytest.mark.parametrize(
    ("layout", "shape", "batch"),
    sample([(x, s, b) for s in SHAPES for x in ("NN", "TN", "TT") for b in ((), (2,))], 2),
)
def test_layouts(layout, shape, batch):
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, (*batch, *s)).astype(np.float32) for s in ((m, k), (k, n)))
    bias = rng.integers(-4, 5, n).astype(np.float32)
    stored = [np.ascontiguousarray(x.mT).mT if letter == "T" else x for x, letter in zip((a, b), layout, strict=True)]
    out = np.full((*batch, m, n), np.nan, np.float32)
    nv.matmul(*stored, out, bias=bias, target="sim")
    np.testing.assert_array_equal(out, a @ b + bias)
