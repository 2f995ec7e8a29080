"""Products of a short K, of 16-bit types."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.gemm import short
from tests.exhaustive import sample
from tests.unit.kernels.gemm.test_dynamic import road
from tests.unit.kernels.gemm.test_gathered import check, check_gaps_and_an_epilogue, check_nothing_beyond

LEVELS = [sim.Options(), sim.Options(level="nvvm", delivery="random", order="random", seed=3)]
extents = st.one_of(st.sampled_from([1, 8, 63, 64, 65]), st.integers(1, 70))


pytestmark = pytest.mark.usefixtures("every_k_is_short")


@pytest.mark.parametrize("layout", sample(["nt", "nn", "tn", "tt"], 1))
@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
@given(extents, extents, st.one_of(st.integers(1, 70), st.sampled_from([15, 16, 17, 32, 33, 48, 64, 65, 130])))
@settings(max_examples=2)
def test_any_size(layout, options, m, n, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.Options, "from_environment", lambda: options)
        check(m, n, k, layout)


PAIRED = [(6, 70, 20, "nn"), (66, 130, 66, "nn"), (64, 8, 40, "tn")]


@pytest.mark.parametrize(("m", "n", "k", "layout"), sample(PAIRED, 1))
def test_rows_at_multiples_of_four_bytes(m, n, k, layout):
    assert road(m, n, k, layout).function is short.matmul
    check(m, n, k, layout)


ANYWHERE = [(5, 131, nv.f16), (67, 71, nv.f32), (3, 260, nv.f16)]


@pytest.mark.parametrize(("m", "n", "out"), sample(ANYWHERE, 1))
def test_long_rows_that_start_anywhere(m, n, out):
    """Whole vectors, and the elements before and behind them."""
    check(m, n, 20, "nn", out_dtype=out)


def test_batches_gaps_and_an_epilogue():
    check(17, 9, 36, "nt", dtype=np.float16, batch=(2,))
    check_gaps_and_an_epilogue(29)


@pytest.mark.parametrize("k", [36, 37])
def test_nothing_beyond_k_enters(k):
    check_nothing_beyond(k)


KINDS = [("nn", short.PART), ("tn", 16), ("nn", 16), ("tt", 16), ("tn", short.PART), ("tt", short.PART)]


@pytest.mark.parametrize(("layout", "part"), sample(KINDS, 1))
def test_no_spill(layout, part):
    found = road(1000, 1001, 33, layout)
    assert_no_spill(dataclasses.replace(found, options=found.options | {"part": part}))


def assert_no_spill(found):
    strict = nv.jit(short.matmul.__wrapped__, strict=True)
    assert found.function is short.matmul
    found = dataclasses.replace(found, function=strict)
    slots = dict(found.slots)
    specs = [slots[name].spec for name in found.order]
    arguments = [nv.ShapeDtype(spec.shape, spec.dtype, spec.strides) for spec in specs]
    (kernel,) = strict._find(found.call(strict._described(tuple(arguments), {})), None).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
