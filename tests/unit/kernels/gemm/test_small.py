"""Small products of 8- and 16-bit types, by mma.sync."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.gemm import small
from tests.exhaustive import sample
from tests.unit.kernels.gemm.test_dynamic import road
from tests.unit.kernels.gemm.test_gathered import check, check_bytes, check_gaps_and_an_epilogue, check_nothing_beyond

LAYOUTS = ["nn", "nt", "tn", "tt"]
LEVELS = [sim.Options(), sim.Options(level="nvvm", delivery="random", order="random", seed=3)]
extents = st.one_of(st.sampled_from([2, 8, 15, 16, 17, 32, 33]), st.integers(2, 40))


@pytest.mark.parametrize("layout", sample(LAYOUTS, 1))
@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
@given(extents, extents, st.one_of(st.integers(65, 300), st.integers(16, 40).map(lambda k: 8 * k)))
@settings(max_examples=2)
def test_any_size(layout, options, m, n, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.Options, "from_environment", lambda: options)
        check(m, n, k, layout)


@pytest.mark.parametrize("k", sample([4104, 2049], 1))
@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
def test_a_cluster_shares_a_long_k(k, options, monkeypatch):
    monkeypatch.setattr(sim.Options, "from_environment", lambda: options)
    assert dict(road(20, 9, k, "nt").options)["split"] == small.SPLIT
    check(20, 9, k, "nt")


def test_batches_gaps_and_an_epilogue():
    check(17, 9, 136, "nt", dtype=np.float16, batch=(2,))
    check_gaps_and_an_epilogue(129)


@pytest.mark.parametrize(
    ("dtype", "k"), sample([("e4m3", 304), ("e4m3", 301), ("i8", 301), ("e5m2", 2049), ("i8", 2056)], 2)
)
def test_bytes(dtype, k):
    assert road(20, 9, k, "nt", dtype=getattr(nv, dtype)).function is small.matmul
    check_bytes(20, 9, k, dtype)


@pytest.mark.parametrize("k", [136, 137])
def test_nothing_beyond_k_enters(k):
    check_nothing_beyond(k)


def test_which_products():
    assert road(20, 90, 301, "nt").function is road(20, 90, 304, "nn").function is small.matmul
    assert road(200, 190, 304, "nt").function is not small.matmul
    assert road(20, 90, 304, "nt", dtype=nv.e4m3).function is small.matmul
    assert road(20, 90, 304, "nt", dtype=nv.f32).function is not small.matmul


KINDS = [(304, "nt"), (301, "nt"), (301, "tn"), (2056, "nt"), (2049, "nn")]


@pytest.mark.parametrize(("k", "layout"), sample(KINDS, 2))
def test_no_spill(k, layout):
    strict = nv.jit(small.matmul.__wrapped__, strict=True)
    found = road(20, 9, k, layout)
    assert found.function is small.matmul
    found = dataclasses.replace(found, function=strict)
    slots = dict(found.slots)
    specs = [slots[name].spec for name in found.order]
    arguments = [nv.ShapeDtype(spec.shape, spec.dtype, spec.strides) for spec in specs]
    (kernel,) = strict._find(found.call(strict._described(tuple(arguments), {})), None).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
