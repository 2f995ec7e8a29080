"""Tuned functions of named extents: one compilation of each configuration, a choice for each size."""

from __future__ import annotations

import functools
from typing import Annotated

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.tune import device
from nvdsl.tune.bench import ProcessBench
from nvdsl.tune.progress import Silent

pytestmark = pytest.mark.usefixtures("quick_python")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))


def make(**settings):
    seen = []

    @nv.autotune(nv.Space(block=[32, 64, 128]), **settings)
    @nv.jit
    def scale(x: Annotated[nv.Array, "n"], y: Annotated[nv.Array, "n"], by, *, block=32):
        seen.append(block)
        n = x.shape[0]

        @nv.kernel(grid=nv.cdiv(n, block), block=block)
        def kernel():
            i = nv.block_id.x * block + nv.thread_id.x
            if i < n:
                y[i] = x[i] * by

        kernel()

    bench = functools.partial(ProcessBench, factory="tests.unit.tune.benches:SimBench")
    scale.overrides = {"make_bench": bench, "compiler": "tests.unit.tune.benches:SimCompiler"}
    return scale, seen


def test_a_heuristic_is_asked_for_each_size_and_a_configuration_traced_once(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "no NVIDIA driver")
    asked = []

    def heuristic(x):
        asked.append(x.shape[0])
        return {"block": 128 if x.shape[0] > 100 else 32}

    scale, seen = make(heuristic=heuristic)
    for n in (10, 500, 20, 300, 10, 500):
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        scale(x, y, 3.0, target="sim")
        assert np.array_equal(y, 3 * x)
    assert asked == [10, 500, 20, 300]
    assert sorted(seen) == [32, 128]


def test_a_choice_needs_sizes(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "no NVIDIA driver")
    scale, _ = make()
    named = nv.ShapeDtype(("n",), nv.f32)
    with pytest.raises(nv.ArgumentError, match=r"x is f32 \(n\), without sizes"):
        scale.compile(named, named, 2.0)
    assert scale.compile(named, named, 2.0, block=64) is scale.compile(
        nv.ShapeDtype((7,), nv.f32), nv.ShapeDtype((7,), nv.f32), 2.0, block=64
    )


def test_a_tuning_runs_candidates_with_the_sizes_of_the_call(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "ordinal", lambda call: 0)
    monkeypatch.setattr(device, "identity", lambda call: {"name": "NVIDIA H200", "capability": "9.0"})
    monkeypatch.setattr(device, "multiprocessors", lambda call: 132)
    scale, _ = make(reference=lambda x, by: x * np.float32(by), min_fill=0)
    x = nv.ShapeDtype((200,), nv.f32)
    found = scale.tune(x, x, 2.0, progress=Silent())
    assert found.source == "tuned" and found.config["block"] in (32, 64, 128)
    assert {candidate.config["block"] for candidate in found.candidates} == {32, 64, 128}
    assert all(candidate.ms is not None for candidate in found.candidates), found
