"""mma.sync on the device: every type and shape, and the simulator's exact bits."""

import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.testing import in_child, random
from tests.sim import mma, tile_matrices, warp_products
from tests.sim.simulate import run

TYPES = sorted({form[:3] for form in mma.FORMS})


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@in_child(timeout=120)
def test_sums_have_the_simulators_bits(types):
    wrong = []
    for form in (form for form in mma.FORMS if form[:3] == types):
        given = mma.arguments(*form)
        a, b, c, d = given
        mma.product(a, b, c, d, types=types)
        expected = np.zeros_like(d)
        run(mma.product, a, b, c, expected, types=types, options=sim.Options(exact=True))
        if not np.array_equal(d, expected):
            wrong.append((form, np.abs(d.astype(np.float64) - expected.astype(np.float64)).max()))
    assert not wrong, wrong


@in_child(timeout=120)
def test_products_through_shared_memory():
    for name, form in warp_products.FORMS.items():
        a, b, d = form.arguments()
        warp_products.product(a, b, d, form=form)
        error = np.abs(d.astype(np.float64) - form.expected(a, b)).max()
        assert error <= warp_products.tolerance(form), name


@in_child(timeout=60)
def test_sums_with_rows_and_columns():
    q, k, v = (random(shape, nv.f16, seed=i) for i, shape in enumerate([(16, 32), (32, 32), (32, 32)]))
    o = np.zeros((16, 32), np.float32)
    warp_products.softmax_product(q, k, v, o)
    s = 0.25 * q.astype(np.float64) @ k.T.astype(np.float64)
    s[np.arange(32)[None] > np.arange(16)[:, None] + 16] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(o, p / p.sum(1, keepdims=True) @ v.astype(np.float64), atol=4e-3)


@in_child(timeout=60)
def test_matrices_of_a_tile():
    for swizzle, transpose in itertools.product((0, 32, 128), (False, True)):
        x, out = random((32, 64), nv.f16, seed=1), np.zeros((32, 64), np.float16)
        how = {"swizzle": swizzle, "count": 4, "loaded": transpose, "stored": transpose}
        tile_matrices.exchanged(x, out, start=(3, 8), to=(16, 32), **how)
        np.testing.assert_array_equal(out[16:, 32:48], x[3:19, 8:24])


@in_child(timeout=60)
def test_every_instruction_loads_the_same():
    form = warp_products.Form()
    a, b, d = form.arguments()
    for using in ("ldmatrix", "vector", "scalar"):
        d[...] = np.nan
        warp_products.product(a, b, d, form=form, using=using)
        assert np.abs(d - form.expected(a, b)).max() <= warp_products.tolerance(form), using
