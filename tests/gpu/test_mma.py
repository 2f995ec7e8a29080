"""mma.sync on the device: every type and shape, and the simulator's exact bits."""

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.testing import in_child
from tests.sim import mma, warp_products
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
def test_every_instruction_loads_the_same():
    form = warp_products.Form()
    a, b, d = form.arguments()
    for using in ("ldmatrix", "vector", "scalar"):
        d[...] = np.nan
        warp_products.product(a, b, d, form=form, using=using)
        assert np.abs(d - form.expected(a, b)).max() <= warp_products.tolerance(form), using
