"""The race of roads, and what is fitted to it."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.bench_roads import possible, told
from benchmarks.fit_roads import fitted, seen
from benchmarks.problems import Workload
from tests.exhaustive import sample


@pytest.mark.parametrize(("sizes",), sample([((16, 17, 130),), ((20, 9, 33),)], 1))
def test_each_road_is_the_product(sizes, monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")
    m, n, k = sizes
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (x, k)).astype(np.float16) for x in (m, n))
    workload = Workload(m, n, k, layout="NT")
    ways = possible(workload)
    assert {"by_warps", "by_strips 16", "tensor_cores"} <= {way.name for way in ways}
    for way in ways:
        out = np.full((m, n), np.nan, np.float16)
        operands = SimpleNamespace(problem=workload, a=a, b=b.T, out=out, scale_a=None)
        try:
            call = way.call(operands)
        except ValueError as error:
            assert "has no kernel" in str(error), way.name
            continue
        call()
        call()
        np.testing.assert_array_equal(out, a.astype(np.float32) @ b.T.astype(np.float32), err_msg=way.name)


def test_constants_are_found():
    rng = np.random.default_rng(1)
    terms = np.concatenate((np.ones((40, 1)), rng.uniform(0, 100, (40, 3))), axis=1)
    times = terms @ [5.0, 0.25, 0.0, 0.01]
    np.testing.assert_allclose(fitted(terms, times, times), [5.0, 0.25, 0.0, 0.01], atol=1e-9)
    assert (fitted(terms, times - 0.2 * terms[:, 2], times) >= 0).all()


def test_a_row_says_how_operands_lie():
    row = {"m": 40, "n": 50, "k": 60, "kind": "bf16.f32.bf16.NT"}
    assert not seen(row).aligned and seen({**row, "k": 64}).aligned and not seen({**row, "n": 50}).stored
    assert seen({**row, "k": 64, "kind": "bf16.f32.bf16.NN"}).copied > 0


def test_what_is_told():
    row = {"m": 4, "n": 5, "k": 6, "kind": "x", "ratio": {"chosen": 0.9, "few": 1.1}}
    text = told([row, {**row, "ratio": {"chosen": 1.2, "few": 1.0}}])
    assert "4x5x6: chosen 0.900  few 1.100" in text and "2: chosen 1.039 ([0, 1] under 0.85, 0.95)" in text
