"""Products of a large operand off TMA's grid, whose rows of each residue TMA reads."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.call.launches import Launches
from nvdsl.kernels.gemm import dispatch, matmul, residues, roads
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from tests.exhaustive import exhaustive, sample
from tests.unit.kernels.gemm.test_dynamic import road

E4M3 = nv.e4m3.numpy
SUMS = {np.dtype(np.int8): nv.i32}


@pytest.fixture
def any_size():
    """Nothing is too small, and no copy too large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "RESIDUES", 1)
        patch.setattr(dispatch, "RESIDUES_WIDE", 1)
        patch.setattr(dispatch, "RESIDUES_K", 1)
        patch.setattr(dispatch, "RESIDUES_NARROW", 1)
        patch.setattr(dispatch, "RESIDUES_PAIRS", 1)
        patch.setattr(roads, "COPIED", 0)
        patch.setattr(matmul, "_bound", {})
        patch.setattr(matmul, "_launches", Launches())
        yield


def check(m, n, k, dtype, **options):
    rng = np.random.default_rng((m, n, k))
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (n, k)))
    assert dispatched(a, b).function is residues.matmul
    expected = a.astype(np.float32) @ b.astype(np.float32).T * options.get("alpha", 1)
    got = nv.matmul(a, b.T, out_dtype=SUMS.get(np.dtype(dtype), nv.f32), target="sim", **options)
    np.testing.assert_array_equal(got, expected)


def dispatched(a, b):
    dtype = {"bfloat16": nv.bf16, "float16": nv.f16, "float32": nv.f32, "int8": nv.i8}.get(str(a.dtype), nv.e4m3)
    given = {"a": Matrix(dtype, a.shape, (a.shape[1], 1)), "b": Matrix(dtype, b.T.shape, (1, b.shape[1]))}
    return dispatch.find(GemmProblem.of(given, None, None), roads.LinearCombination(), None, "sim")


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    sample([(560, 5, 261, E4M3), (17, 300, 335, np.int8), (261, 40, 131, np.float32), (2, 600, 301, ml_dtypes.bfloat16),
            (260, 130, 517, np.float16), (530, 60, 262, np.float16), (300, 3, 1164, E4M3), (16, 16, 129, np.int8),
            (47, 9, 1027, E4M3)], 1),
)  # fmt: skip
def test_each_type_either_way_round(any_size, m, n, k, dtype):
    check(m, n, k, dtype)


@exhaustive
@pytest.mark.parametrize("dtype", [E4M3, np.float32])
def test_higher_tiles(any_size, monkeypatch, dtype):
    monkeypatch.setattr(residues, "HIGH", (192,))
    check(420, 70, 261, dtype)


@exhaustive
@given(st.integers(16, 700), st.integers(2, 60), st.integers(16, 700).filter(lambda k: k % 16))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_size(any_size, m, n, k):
    check(max(m, n), min(m, n), k, np.int8)


def test_a_factor(any_size):
    check(140, 20, 131, np.float32, alpha=0.5)


@pytest.mark.parametrize("k", sample([257, 126], 1))
def test_nothing_of_other_rows_enters(any_size, k):
    """Before a row and behind it are its neighbours, in the slices of all residues."""
    a = np.ones((130, k), np.float16)
    a[1::2] = np.nan
    b = np.ones((3, k), np.float16)
    b[1] = np.inf
    got = nv.matmul(a, b.T, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got[::2], np.full((65, 3), (k, np.inf, k)))
    assert np.isnan(got[1::2]).all()


def test_strides_of_the_others(any_size):
    """The small operand and the result may have any."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-3, 4, (150, 133)).astype(np.int8), rng.integers(-3, 4, (133, 14)).astype(np.int8)[:, ::2]
    out = np.zeros((7, 300), np.int32)[:, ::2].T
    nv.matmul(a, b, out, target="sim")
    np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


def test_which_products():
    def taken(*sizes, dtype=nv.e4m3):
        return road(*sizes, "nt", dtype=dtype).function is residues.matmul

    assert taken(20_000, 100, 5001) and taken(100, 20_000, 5001)
    assert taken(30_000, 2, 3001, dtype=nv.bf16) and taken(2019, 98, 30892, dtype=nv.bf16)
    assert not taken(20_000, 100, 5008), "TMA reads both"
    assert not taken(20_000, 300, 5001), "that is no small operand"
    assert not taken(5000, 150, 5001), "copies of it are nearly as large as the other one"
    assert not taken(2000, 10, 5001) and not taken(100_000, 10, 501), "a copy takes as little"
    assert residues.period(5001, 1) == 16 and residues.period(5002, 2) == 4 and residues.period(5008, 1) == 1


def test_tiles_that_take_fewer_rounds():
    high = lambda m, n, turns: residues.config(m, n, nv.e4m3, turns, 132).tile_m  # noqa: E731
    assert high(19041, 140, 2) == high(22376, 176, 16) == 192, "150 and 176 tiles of 128 rows, 100 and 128 of 192"
    assert high(29321, 100, 16) == 128, "240 and 160: two rounds either way"
    assert high(14141, 150, 16) == 128, "112: one round"
    assert high(31676, 24, 16) == 128, "narrow ones have two blocks on an SM"


@pytest.mark.parametrize("dtype", [nv.e4m3, nv.bf16])
@pytest.mark.parametrize(
    ("m", "n"), sample([(22_376, 170), (20_000, 24), (20_000, 60), (20_000, 100), (20_000, 170)], 1)
)
def test_no_spill(m, n, dtype):
    strict = nv.jit(residues.matmul.__wrapped__, strict=True)
    found = dataclasses.replace(road(m, n, 5001, "nt", dtype=dtype), function=strict)
    arguments = [nv.ShapeDtype(x.spec.shape, x.spec.dtype, x.spec.strides) for _, x in found.slots]
    for kernel in strict._find(found.call(strict._described(tuple(arguments), {})), None).kernels.values():
        assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
