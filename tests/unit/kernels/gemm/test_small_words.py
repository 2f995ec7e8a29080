"""Small products of rows off the grid of 16 bytes, by mma.sync."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.call.launches import Launches
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import dispatch, matmul, roads, small_words
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.residues import period
from nvdsl.kernels.gemm.small_words import slices, split, tiles
from tests.exhaustive import exhaustive, sample
from tests.unit.kernels.gemm.test_gathered import check
from tests.unit.kernels.gemm.test_small import LEVELS

extents = st.one_of(st.sampled_from([2, 8, 9, 16, 17, 33]), st.integers(2, 70))


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    monkeypatch.setattr(dispatch, "wanted", lambda *_: [roads.by_vectors])
    monkeypatch.setattr(matmul, "_bound", {})
    monkeypatch.setattr(matmul, "_launches", Launches())


def road(m, n, k, dtype=nv.f16, acc_dtype=None, **more):
    a, b = (Matrix(dtype, (rows, k), more.get("strides", (k, 1)), more.get("aligned", True)) for rows in (m, n))
    problem = GemmProblem.of({"a": a, "b": b.transposed}, acc_dtype, None)
    return roads.by_vectors(problem, LinearCombination(), dispatch.shared(problem, LinearCombination()), "sim")


@exhaustive
@pytest.mark.parametrize("dtype", [np.float16, nv.bf16.numpy], ids=["f16", "bf16"])
@pytest.mark.parametrize("level", LEVELS, ids=lambda x: x.level)
@given(extents, extents, st.integers(24, 300).filter(lambda k: k % 8))
@settings(max_examples=3)
def test_any_size(dtype, level, m, n, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.Options, "from_environment", lambda: level)
        check(m, n, k, dtype=dtype)


@pytest.mark.parametrize("k", sample([k for k in range(24, 40) if k % 8], 1))
def test_every_start_of_a_row(k):
    """Both ends of K, beside one vector and two."""
    check(19, 3, k)


@exhaustive
@pytest.mark.parametrize(("m", "n", "found"), [(5, 40, 8), (700, 9, 2), (9, 6000, 1)])
def test_clusters_share_a_long_k(m, n, found):
    assert road(m, n, 4122).options["split"] == found
    check(m, n, 4122)


def test_other_rows_do_not_count():
    """A row's first and last vectors have elements of other rows."""
    a, b = np.ones((40, 261), np.float16), np.ones((9, 261), np.float16)
    a[::3], a[1, 260], b[2] = np.nan, np.inf, np.nan
    expected = np.full((40, 9), 261, np.float32)
    expected[1] = np.inf
    expected[::3], expected[:, 2] = np.nan, np.nan
    np.testing.assert_array_equal(nv.matmul(a, b.T, out_dtype=nv.f32, target="sim"), expected)


@exhaustive
def test_an_epilogue_and_a_turned_result():
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((40, 99), (9, 99), (40, 9)))
    bias, out = rng.integers(-3, 4, 9).astype(np.float32), np.zeros((9, 40), np.float32).T
    nv.matmul(a, b.T, out, alpha=2.0, beta=-1.0, c=c, bias=bias, activation="relu", target="sim")
    np.testing.assert_array_equal(out, np.maximum(2 * (a.astype(np.float32) @ b.T.astype(np.float32)) - c + bias, 0))


def test_which_products():
    assert road(20, 90, 301).function is road(20, 90, 302, nv.bf16).function is small_words.matmul
    assert road(20, 90, 304) is None, "whole vectors"
    assert road(20, 90, 23) is None, "a row may have no vector that lies in it as a whole"
    assert road(20, 90, 301, nv.e4m3) is road(20, 90, 301, nv.f32) is None
    assert road(20, 90, 301, nv.f16, nv.f16) is None
    assert road(20, 90, 301, strides=(303, 1)) is None, "what lies between rows may be anybody's"
    assert road(20, 90, 301, strides=(1, 90)) is road(20, 90, 301, aligned=False) is None
    assert road(1 << 17, 4, (1 << 15) - 1) and road(1 << 17, 4, (1 << 15) + 1) is None, "words are counted in 31 bits"


def test_tiles_of_rows_that_begin_alike():
    assert [period(k, 2) for k in (301, 302, 300, 304)] == [8, 4, 2, 1]
    assert tiles(257, 8, 301) == 16 and tiles(256, 9, 301) == 16 and tiles(128, 65, 302) == 36
    assert [slices(k) for k in (25, 65, 84, 89)] == [2, 3, 3, 4]
    assert [split(m, 8, 25812, arch.SMS) for m in (400, 858, 3000, 9000)] == [8, 8, 2, 1]
    assert split(400, 8, 100, arch.SMS) == 1


@pytest.mark.parametrize(("m", "n", "k"), sample([(858, 4, 25812), (20, 4, 9001), (40, 20, 99), (90, 9, 9001)], 1))
def test_no_spill(m, n, k):
    found = dataclasses.replace(road(m, n, k), function=nv.jit(small_words.matmul.__wrapped__, strict=True))
    slots = dict(found.slots)
    specs = [slots[name].spec for name in found.order]
    arguments = tuple(nv.ShapeDtype(spec.shape, spec.dtype, spec.strides) for spec in specs)
    call = found.call(found.function._described(arguments, {}))
    (kernel,) = found.function._find(call, None).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
