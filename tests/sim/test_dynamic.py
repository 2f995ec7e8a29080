"""Kernels whose arrays have named extents: chapters that were written for constants, each compiled once for several
sizes, right under every order of blocks and deliveries."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.twins import products, twin
from nvdsl import sim
from nvdsl.call import jit
from tests.sim.programs import load
from tests.sim.simulate import traced

CHAPTERS = {
    "ch5_warp_specialized_gemm": (((128, 128, 72), (256, 128, 64)), {"stages": 2, "tile": (128, 128, 64)}),
    "ch7_persistent_gemm": (((256, 128, 72), (128, 256, 8)), {"stages": 2, "tile": (128, 128, 64), "blocks": 1}),
    "ch8_cluster_gemm": (((256, 128, 136), (512, 128, 64)), {"stages": 2, "tile": (128, 128, 64), "blocks": 2}),
    "ch9_pingpong_gemm": (((256, 64, 72), (128, 128, 64)), {"stages": 2, "tile": (128, 64, 64), "blocks": 1}),
}


def operands(m, n, k, dtype=np.float16):
    rng = np.random.default_rng((m, n, k))
    a, b = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(-3, 4, (k, n)).astype(np.float16)
    return a, b, np.full((m, n), np.nan, dtype), (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_with_named_extents(name, monkeypatch):
    count, trace = [], jit.trace_function
    monkeypatch.setattr(jit, "trace_function", lambda *args: count.append(args) or trace(*args))
    sizes, constants = CHAPTERS[name]
    gemm = twin(load(f"chapters/{name}.py").gemm, **products())
    for size in sizes:
        a, b, d, expected = operands(*size)
        gemm(a, b, d, **constants, target="sim")
        np.testing.assert_array_equal(d, expected)
    assert len(count) == 1


@pytest.mark.parametrize("level", ["traced", "nvvm"])
@pytest.mark.parametrize("delivery", ["late", "eager", "random"])
def test_edges_under_every_delivery(level, delivery):
    a, b, d, expected = operands(70, 72, 136)
    gemm = load("chapters/ch15_dynamic_shapes.py").gemm
    options = sim.Options(level=level, delivery=delivery, order="random" if delivery == "random" else "forward")
    traced(gemm, a, b, d, stages=2, tile=(64, 64, 64)).run(options)
    np.testing.assert_array_equal(d, expected)
