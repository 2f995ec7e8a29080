"""Products of a large operand whose rows start anywhere, read as it lies."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.call.launches import Launches
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import dispatch, gathered, matmul, packing, realigned, roads
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from tests.exhaustive import exhaustive, sample
from tests.unit.kernels.gemm.test_dynamic import road

TYPES = {np.dtype(np.int8): nv.i32, np.dtype(np.float32): nv.f32, np.dtype(nv.e4m3.numpy): nv.f32}


@pytest.fixture
def any_size():
    """Nothing is too small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "RESIDUES", 1 << 40)
        patch.setattr(dispatch, "RESIDUES_WIDE", 1 << 40)
        patch.setattr(dispatch, "REALIGNED", 1)
        patch.setattr(dispatch, "REALIGNED_K", 1)
        patch.setattr(dispatch, "SIMPLE_PRODUCTS", -1)
        patch.setattr(dispatch, "_simulated", lambda *_: ())
        patch.setattr(matmul, "_bound", {})
        patch.setattr(matmul, "_launches", Launches())
        yield


def check(m, n, k, dtype, **options):
    rng = np.random.default_rng((m, n, k))
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (n, k)))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    out_dtype = TYPES.get(np.dtype(dtype), nv.f32)
    got = nv.matmul(a, b.T, out_dtype=out_dtype, target="sim", **options)
    np.testing.assert_array_equal(got, expected + options.get("bias", 0))


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    sample([(17, 140, 261, nv.e4m3.numpy), (140, 17, 335, np.int8), (150, 30, 129, np.float32)], 1),
)
def test_each_type_either_way_round(any_size, m, n, k, dtype):
    check(m, n, k, dtype)


@exhaustive
@given(st.integers(100, 300), st.integers(1, 40), st.integers(128, 400).filter(lambda k: k % 16))
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_size(any_size, m, n, k):
    check(m, n, k, np.int8)


def test_an_epilogue(any_size):
    check(20, 130, 131, np.float32, bias=np.arange(130, dtype=np.float32))


def test_nothing_beyond_k_enters(any_size):
    """Behind a row's K elements is the next row's first one."""
    a = np.ones((130, 257), np.float32)
    a[1::2] = np.nan
    got = nv.matmul(a, np.ones((3, 257), np.float32).T, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got[::2], np.full((65, 3), 257, np.float32))
    assert np.isnan(got[1::2]).all()


def test_which_products():
    found = road(10_100, 170, 5001, "nt", dtype=nv.e4m3)
    assert found.function is realigned.matmul and set(found.packs) == {"b"}, "the larger one is read as it lies"
    assert road(170, 10_100, 5001, "nt", dtype=nv.e4m3).sizes["m"] == 10_100
    biased = LinearCombination(bias=True)
    assert not road(20_000, 60, 5001, "nt", biased, dtype=nv.e4m3).packs, "and so is a narrow one"
    for m, n, k in ((20_000, 300, 5001), (2000, 100, 5001), (50_000, 100, 1001)):
        assert road(m, n, k, "nt", dtype=nv.e4m3).function is not realigned.matmul, "copies cost little there"
    assert not road(20_000, 100, 5008, "nt", dtype=nv.e4m3).packs, "TMA reads both"
    assert road(10_000, 10, 1001, "nt").function is gathered.matmul


def test_what_is_copied_by_words():
    def by_words(shape, strides, dtype=nv.e4m3, first=(0,), **more):
        return packing.by_words(Matrix(dtype, shape, strides, **more), first)

    assert by_words((5, 33), (33, 1)) and by_words((2, 5, 33), (0, 40, 1)) and by_words((5, 33), (33, 1), nv.bf16)
    assert not by_words((5, 33), (0, 1)), "all rows have the last elements"
    assert not by_words((5, 33), (1, 5)) and not by_words((2, 5, 33), (1, 33, 1))
    assert by_words((5, 7), (7, 1)) and not by_words((5, 3), (3, 1)), "one vector is there"
    assert not by_words((5, 33), (33, 1), aligned=False) and not by_words((5, 33), (33, 1), first=(0, 40))


@pytest.mark.parametrize("n", sample([30, 170], 1))
def test_no_spill(n):
    strict = nv.jit(realigned.matmul.__wrapped__, strict=True)
    product = {"a": Matrix(nv.e4m3, (20_000, 5001), (5001, 1)), "b": Matrix(nv.e4m3, (5001, n), (1, 5001))}
    product = GemmProblem.of(product, None, None)
    given = roads.by_words(product, LinearCombination(), dispatch.shared(product, LinearCombination()), "sim")
    found = dataclasses.replace(given, function=strict)
    arguments = [nv.ShapeDtype(x.spec.shape, x.spec.dtype, x.spec.strides) for _, x in found.slots]
    (kernel,) = strict._find(found.call(strict._described(tuple(arguments), {})), None).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
