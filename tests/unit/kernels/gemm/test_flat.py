"""Products of a short K whose operands lie row behind row."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.gemm import flat, short
from nvdsl.kernels.gemm.problem import Matrix
from tests.exhaustive import sample
from tests.unit.kernels.gemm.test_dynamic import road
from tests.unit.kernels.gemm.test_gathered import check, check_bytes
from tests.unit.kernels.gemm.test_short import ANYWHERE

LEVELS = [sim.Options(), sim.Options(level="nvvm", delivery="random", order="random", seed=3)]
extents = st.one_of(st.sampled_from([2, 8, 63, 64, 65, 130]), st.integers(2, 70))


pytestmark = pytest.mark.usefixtures("every_k_is_short")


@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
@given(extents, extents, st.sampled_from([1, 2, 9, 15, 16, 17, 31, 33, 62, 65, 126, 127]))
@settings(max_examples=4)
def test_any_size(options, m, n, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.Options, "from_environment", lambda: options)
        assert road(m, n, k, "nt").function is flat.matmul
        check(m, n, k, "nt")


@pytest.mark.parametrize(("m", "n", "out"), sample(ANYWHERE, 1))
def test_long_rows_that_start_anywhere(m, n, out):
    check(m, n, 20, "nt", out_dtype=out, batch=(2,))


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_a_column_beside_a_row(layout):
    """Of every layout."""
    assert road(65, 131, 1, layout).function is flat.matmul
    check(65, 131, 1, layout)


def test_batches_and_an_epilogue():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((3, 40, 24), (3, 50, 24)))
    bias = rng.integers(-3, 4, 50).astype(np.float16)
    got = nv.matmul(a, b.swapaxes(1, 2), bias=bias, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.swapaxes(1, 2).astype(np.float32) + bias)


@pytest.mark.parametrize(
    ("dtype", "k"), sample([("e4m3", 33), ("e4m3", 36), ("e5m2", 62), ("i8", 20), ("i8", 127)], 2)
)
def test_bytes(dtype, k):
    assert road(70, 130, k, "nt", dtype=getattr(nv, dtype)).function is flat.matmul
    check_bytes(70, 130, k, dtype)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("k", [30, 33, 75])
def test_no_row_enters_another(k, which):
    """The elements behind K are the next row's, whatever they are."""
    operands = [np.ones((66, k), np.float16), np.ones((5, k), np.float16)]
    operands[which][::2] = np.nan
    got = nv.matmul(operands[0], operands[1].T, out_dtype=nv.f32, target="sim")
    expected = np.full((66, 5), k, np.float32)
    (expected if which == 0 else expected.T)[::2] = np.nan
    np.testing.assert_array_equal(got, expected)


def test_which_products():
    given = {"a": (36, 1), "b": (1, 36)}
    of = lambda **strides: flat.fits(*(  # noqa: E731
        Matrix(nv.f16, (40, 36), step, True) for step in (given | strides).values()
    ))  # fmt: skip
    assert not of(b=(1, 40)) and not of(a=(38, 1)) and of(b=(36, 1))
    assert road(40, 50, 127, "nt").function is flat.matmul
    assert road(40, 50, 129, "nt").function is road(40, 50, 64, "nt").function is short.matmul
    assert road(40, 50, 36, "nn").function is road(40, 50, 36, "tt").function is short.matmul


@pytest.mark.parametrize("dtype", sample(["f16", "e4m3", "i8"], 2))
@pytest.mark.parametrize(("n", "k"), [(1000, 34), (1001, 33)])
def test_no_spill(n, k, dtype):
    strict = nv.jit(flat.matmul.__wrapped__, strict=True)
    found = dataclasses.replace(road(1000, n, k, "nt", dtype=getattr(nv, dtype)), function=strict)
    slots = dict(found.slots)
    arguments = [nv.ShapeDtype(x.shape, x.dtype, x.strides) for x in (slots[name].spec for name in found.order)]
    (kernel,) = strict._find(found.call(strict._described(tuple(arguments), {})), None).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
