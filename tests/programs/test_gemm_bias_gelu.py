"""A layer of many batch sizes: one compilation, exact edges, under every order of the simulator."""

import math

import numpy as np
import pytest

from nvdsl import sim
from tests.sim.programs import load

OPTIONS = [sim.Options(), sim.Options(delivery="random", order="random", seed=3), sim.Options(level="nvvm")]


@pytest.mark.parametrize("options", OPTIONS, ids=["late", "random", "nvvm"])
def test_any_number_of_rows(options, monkeypatch):
    monkeypatch.setattr(sim.Options, "from_environment", lambda: options)
    layer = load("tests/programs/gemm_bias_gelu.py").layer
    before = len(layer._compiled)
    for m, n, k in ((1, 64, 64), (65, 72, 136), (63, 8, 8)):
        rng = np.random.default_rng((m, n, k))
        x, w, bias = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k), n))
        d = np.full((m, n), np.nan, np.float16)
        layer(x, w, bias, d, target="sim")
        y = x.astype(np.float64) @ w.T.astype(np.float64) + bias
        expected = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
        np.testing.assert_allclose(d, expected, atol=5e-2, rtol=5e-3)
    assert len(layer._compiled) == before + 1
