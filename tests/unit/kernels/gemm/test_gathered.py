"""Products of operands that TMA can't read, loaded by threads."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.call.extents import Stride
from nvdsl.call.launches import Launches
from nvdsl.kernels.gemm import dispatch, gathered, matmul
from tests.exhaustive import sample
from tests.unit.kernels.gemm.test_dynamic import road

extents = st.one_of(st.sampled_from([1, 2, 63, 64, 65, 129]), st.integers(1, 150))


@pytest.fixture(autouse=True, scope="module")
def nothing_is_small():
    """What is would have a kernel of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "SIMULATED_WORK", -1)
        patch.setattr(matmul, "_bound", {})
        patch.setattr(matmul, "_launches", Launches())
        yield


def stored(x, letter):
    return x if letter == "n" else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def check(m, n, k, layout="nt", dtype=np.float16, batch=(), out_dtype=nv.f32, **options):
    rng = np.random.default_rng((m, n, k))
    a, b = (rng.integers(-3, 4, (*batch, *shape)).astype(dtype) for shape in ((m, k), (k, n)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    got = nv.matmul(stored(a, layout[0]), stored(b, layout[1]), out_dtype=out_dtype, target="sim", **options)
    np.testing.assert_array_equal(got, expected)


def check_bytes(m, n, k, dtype):
    """Sums of integers beyond what a float has, and an epilogue."""
    rng, kind = np.random.default_rng((m, n, k)), getattr(nv, dtype)
    most, sums = (128, np.int32) if dtype == "i8" else (4, np.float32)
    a, b = (rng.integers(-most, most, shape).astype(kind.numpy) for shape in ((m, k), (n, k)))
    product = a.astype(sums) @ b.astype(sums).T
    out = np.zeros((m, n), sums)
    nv.matmul(a, b.T, out, target="sim")
    np.testing.assert_array_equal(out, product)
    bias = rng.integers(-3, 4, n).astype(np.float32)
    got = nv.matmul(a, b.T, bias=bias, activation="relu", out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, np.maximum(product.astype(np.float32) + bias, 0))


def check_gaps_and_an_epilogue(k):
    """Rows that start anywhere, every other element of one, and a result whose columns are contiguous."""
    rng = np.random.default_rng(0)
    x, w, bias = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((30, 300), (32, 300), (10, 1)))
    a, b = x[1:11, 3 : 3 + 2 * k : 2], w[2:22, 5 : 5 + k]
    got = nv.matmul(a, b.T, bias=bias, activation="relu", alpha=0.5, out_dtype=nv.f32, target="sim")
    product = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(got, np.maximum(0.5 * product + bias, 0))
    out = np.zeros((20, 10), np.float32).T
    nv.matmul(a, b.T, out, target="sim")
    np.testing.assert_array_equal(out, product)


def check_nothing_beyond(k):
    """What lies behind a row's K elements is NaN."""
    rows = np.full((5, 160), np.nan, np.float16)
    rows[:, :k] = 1
    got = nv.matmul(rows[:, :k], rows[:3, :k].T, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, np.full((5, 3), k, np.float32))


@pytest.mark.parametrize("layout", sample(["nn", "nt", "tn", "tt"], 1))
@given(extents, st.integers(1, 16), st.integers(67, 600).filter(lambda k: k % 8), st.booleans())
@settings(max_examples=3)
def test_any_size(layout, m, n, k, swap):
    check(*((n, m) if swap else (m, n)), k, layout)


@pytest.mark.parametrize(("m", "n", "layout"), sample([(66, 10, "nt"), (6, 130, "nn"), (70, 34, "tt")], 1))
def test_rows_at_multiples_of_four_bytes(m, n, layout):
    """Asked for several slices ahead (cp.async), by slots that are used again."""
    found = road(m, n, 530, layout)
    strides = [spec.dynamic.strides for name, spec in found.slots if name in "ab"]
    assert found.function is gathered.matmul and all(x in ((Stride(2), 1), (1, Stride(2))) for x in strides)
    check(m, n, 530, layout)


def test_batches_offsets_and_gaps():
    check(33, 9, 131, "nn", batch=(2,))
    x = np.arange(70 * 300, dtype=np.float16).reshape(70, 300) % 7
    a, b = x[1:60, 3:260:2], x[2:40, 5:134]  # gaps, and rows that start anywhere
    got = nv.matmul(a, b.T, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.T.astype(np.float32))


def test_an_epilogue():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((40, 131), (131, 37)))
    bias = rng.integers(-3, 4, 37).astype(np.float16)
    got = nv.matmul(a, b, bias=bias, activation="relu", out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0))


def test_nothing_beyond_k_enters():
    """What lies behind the last column of a row is not multiplied, whatever it is."""
    rows = np.full((5, 140), np.nan, np.float16)
    rows[:, :131] = 1
    got = nv.matmul(rows[:, :131], rows[:3, :131].T, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, np.full((5, 3), 131, np.float32))


def test_which_products():
    of = lambda *shape, **more: road(*shape, "nt", **more)  # noqa: E731
    assert of(5000, 16, 3001).function is of(5000, 64, 3002).function is gathered.matmul
    assert of(5000, 64, 3001).packs and of(5000, 65, 3002).packs, "as much is loaded of few columns as of the rows"
    assert not of(5000, 16, 3000).packs, "TMA reads them"
    assert of(5000, 16, 3001, dtype=nv.e4m3).packs
    for m, n in ((10, 5000), (5000, 10)):
        assert of(m, n, 3002).sizes["m"] == 5000, "the larger operand is A"
    few, many = (road(m, 10, 4000, "nn") for m in (400, 4000))
    assert few.function is gathered.matmul and set(many.packs) == {"b"}, "TMA reads the larger one"


KERNELS = [(5001, 11, 3001, "nt")]
KERNELS += [(5002, n, 3002, layout) for n in (10, 60) for layout in ("nt", "nn", "tn", "tt")]


@pytest.mark.parametrize(("m", "n", "k", "layout"), sample(KERNELS, 2))
def test_no_spill(m, n, k, layout):
    strict = nv.jit(gathered.matmul.__wrapped__, strict=True)
    found = dataclasses.replace(road(m, n, k, layout), function=strict)
    slots = dict(found.slots)
    specs = [slots[name].spec for name in found.order]
    arguments = [nv.ShapeDtype(spec.shape, spec.dtype, spec.strides) for spec in specs]
    (kernel,) = strict._find(found.call(strict._described(tuple(arguments), {})), None).kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
