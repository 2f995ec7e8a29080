"""A warp's products through tiles of any type and swizzle, at both levels; what happens without a barrier."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.ir.walk import walk
from nvdsl.testing import random
from tests.exhaustive import sample
from tests.sim import warp_products
from tests.sim.simulate import run, traced, verdict, zeros


@pytest.mark.parametrize("name", sample(warp_products.FORMS, 7))
def test_product(name):
    form = warp_products.FORMS[name]
    a, b, d = form.arguments()
    run(warp_products.product, a, b, d, form=form, options=sim.Options(order="reverse"))
    assert np.abs(d.astype(np.float64) - form.expected(a, b)).max() <= warp_products.tolerance(form)


@pytest.mark.parametrize("name", ["f16", "float8", "the transpose by stmatrix"])
def test_product_after_lowering(name):
    form = warp_products.FORMS[name]
    a, b, d = form.arguments()
    run(warp_products.product, a, b, d, form=form, options=sim.Options(level="nvvm"))
    assert np.abs(d.astype(np.float64) - form.expected(a, b)).max() <= warp_products.tolerance(form)


@pytest.mark.parametrize("using", ["ldmatrix", "vector", "scalar"])
def test_every_instruction_loads_the_same(using):
    form = warp_products.Form()
    a, b, d = form.arguments()
    program = traced(warp_products.product, a, b, d, form=form, using=using)
    program.run()
    assert np.abs(d - form.expected(a, b)).max() <= warp_products.tolerance(form)
    loads = [op.name for op in walk(program.module.operation) if op.name in ("nvvm.ldmatrix", "vector.load")]
    assert loads == {"ldmatrix": ["nvvm.ldmatrix"] * 6, "vector": ["vector.load"] * 16 + ["nvvm.ldmatrix"] * 2}.get(
        using, ["nvvm.ldmatrix"] * 2
    )


def test_no_barrier_before_ldmatrix():
    form = warp_products.Form()
    error = verdict(warp_products.product, *form.arguments(), form=form, sync=False)
    assert error is not None and error.kind == "raw", error
    assert "ldmatrix" in str(error)


def test_sums_as_an_operand():
    a, b, c = (random(shape, nv.f16, seed=i) for i, shape in enumerate([(32, 16), (16, 48), (48, 8)]))
    d = zeros(32, 8)
    run(warp_products.chained, a, b, c, d)
    middle = (0.5 * a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(d, middle.astype(np.float32) @ c.astype(np.float32), atol=2e-2)


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_arithmetic_and_reductions_of_sums(level):
    q, k, v = (random(shape, nv.f16, seed=i) for i, shape in enumerate([(16, 32), (32, 32), (32, 32)]))
    o = zeros(16, 32)
    run(warp_products.softmax_product, q, k, v, o, options=sim.Options(level=level))
    s = 0.25 * q.astype(np.float64) @ k.T.astype(np.float64)
    s[np.arange(32)[None] > np.arange(16)[:, None] + 16] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(o, p / p.sum(1, keepdims=True) @ v.astype(np.float64), atol=4e-3)
