"""Results of one column, and of one row."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import gemv, gemv_words
from nvdsl.kernels.gemm.dispatch import find
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from tests.exhaustive import sample
from tests.unit.kernels.gemm.test_dynamic import road
from tests.unit.kernels.gemm.test_gathered import check

LAYOUTS = ("nn", "nt", "tn", "tt")
extents = st.one_of(st.sampled_from([1, 2, 7, 8, 256, 257]), st.integers(1, 600))


@pytest.mark.parametrize("layout", sample(LAYOUTS, 1))
@given(extents, extents, st.booleans())
@settings(max_examples=2)
def test_any_size(layout, m, k, is_row):
    assert road(*((1, m) if is_row else (m, 1)), k, layout).function in (gemv.rows, gemv.columns, gemv_words.rows)
    check(*((1, m) if is_row else (m, 1)), k, layout)


@pytest.mark.parametrize(
    "dtype", sample([ml_dtypes.bfloat16, np.float32, np.float64, ml_dtypes.float8_e4m3fn, np.int8], 3)
)
def test_types(dtype):
    for layout in ("nt", "tn"):
        check(32, 1, 70, layout, dtype)


@pytest.mark.parametrize(("m", "layout"), sample([(1, "nt"), (3, "nn"), (8, "tn"), (72, "tn"), (5, "tt")], 1))
def test_blocks_share_k(m, layout):
    check(m, 1, 70000 if layout[0] == "n" else 5000, layout)


WORDS = [(nv.bf16, 257), (nv.f16, 262), (nv.f32, 99), (nv.i8, 403), (nv.e4m3, 262), (nv.f64, 37), (nv.bf16, 3)]


@pytest.mark.parametrize(("dtype", "k"), sample(WORDS, 3))
@given(m=st.integers(2, 40))
@settings(max_examples=2)
def test_rows_off_the_grid_are_read_by_vectors(dtype, k, m):
    assert road(m, 1, k, "nt", dtype=dtype).function is gemv_words.rows
    check(m, 1, k, "nt", dtype.numpy)
    check(1, m, k, "nt", dtype.numpy)


@pytest.mark.parametrize("k", sample([16387, 16401, 17409], 1))
def test_blocks_share_k_of_rows_off_the_grid(k):
    rng = np.random.default_rng(k)
    a, b, out = rng.integers(-3, 4, (1, 3, k)) / 1.0, rng.integers(-3, 4, (1, 1, k)) / 1.0, np.zeros((1, 3, 1))
    words = [x.reshape(-1)[: x.size // 2 * 2].view(np.int32)[None, None] for x in (a, b)]
    gemv_words.rows(a, words[0], b, words[1], out, sms=3, acc_dtype=nv.f64, target="sim")
    np.testing.assert_array_equal(out[0], a[0] @ b[0].T)


def test_which_rows_are_read_by_vectors():
    def kernel(k, pitch=None, step=1, aligned=True):
        given = {"a": Matrix(nv.f16, (70, k), (pitch or k, 1), aligned), "b": Matrix(nv.f16, (k, 1), (step, 1))}
        return find(GemmProblem.of(given, None, None), LinearCombination(), None, "sim").function

    assert kernel(301) is kernel(298) is kernel(3) is gemv_words.rows
    assert kernel(296) is gemv.rows, "whole vectors"
    assert kernel(301, aligned=False) is kernel(301, step=2) is gemv.rows
    assert kernel(301, pitch=303) is gemv.rows, "what lies between rows may be anybody's"


def test_neighbours_of_rows_off_the_grid_do_not_count():
    """A row's first and last vectors have elements of other rows."""
    a = np.ones((40, 261), np.float16)
    a[::3] = np.nan
    a[1, 260] = np.inf
    got = nv.matmul(a, np.ones((261, 1), np.float16), out_dtype=nv.f32, target="sim")[:, 0]
    expected = np.full(40, 261, np.float32)
    expected[::3], expected[1] = np.nan, np.inf
    np.testing.assert_array_equal(got, expected)


def test_batches_gaps_and_repeated_operands():
    check(33, 1, 65, "nn", batch=(3,))
    x = np.arange(70 * 300, dtype=np.float16).reshape(70, 300) % 7
    for a, b in ((x[1:60, 3:260:2], x[5:6, 4:133]), (x[::-1, 8:72], x[2:3, 64:128]), (x[:, :64], x[:1, 100:164])):
        got = nv.matmul(a, b.T, out_dtype=nv.f32, target="sim")
        np.testing.assert_array_equal(got, a.astype(np.float32) @ b.T.astype(np.float32))
        turned = nv.matmul(b, a.T, out_dtype=nv.f32, target="sim")
        np.testing.assert_array_equal(turned, got.T)
    vectors = np.broadcast_to(x[0, :64], (4, 64)), x[1, :64]
    np.testing.assert_array_equal(nv.matmul(*vectors, out_dtype=nv.f32, target="sim"), [x[0, :64] @ x[1, :64]] * 4)


@pytest.mark.parametrize("k", [72, 261])
def test_an_epilogue_reads_the_place_of_each_element(k):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((40, k), (k, 1)))
    c, bias = rng.integers(-3, 4, (40, 1)).astype(np.float16), rng.integers(-3, 4, (40, 1)).astype(np.float16)
    expected = np.maximum(2 * (a.astype(np.float32) @ b) - c + bias, 0)
    options = {"alpha": 2.0, "beta": -1.0, "activation": "relu", "out_dtype": nv.f32, "target": "sim"}
    np.testing.assert_array_equal(nv.matmul(a, b, c=c, bias=bias, **options), expected)
    np.testing.assert_array_equal(nv.matmul(b.T, a.T, c=c.T, bias=bias.T, **options), expected.T)


def test_what_lies_beside_the_operands_does_not_count():
    """Rows of 70 in memory of 72 a row, NaN behind each; infinities stay what they are."""
    memory = np.full((5, 72), np.nan, np.float16)
    memory[:, :70] = 1
    memory[2, 69] = np.inf
    got = nv.matmul(memory[:, :70], memory[:1, :70].T, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, [[70], [70], [np.inf], [70], [70]])


@nv.jit
def counted(out: nv.Array) -> None:
    """How many places each part of a range has."""

    @nv.kernel(grid=out.shape[0], block=32)
    def kernel() -> None:
        begin, end = nv.block_id.x * 65, nv.min((nv.block_id.x + 1) * 65, 129)
        plus = lambda total, steps, exist: total + sum(nv.i32(x) for x in exist)  # noqa: E731
        lane = nv.thread_id.x & 7
        total = gemv.added_up(gemv.summed(plus, nv.i32(0), begin, end, lane, 3), 3, nv.i32)
        if nv.thread_id.x == 0:
            out[nv.block_id.x] = total

    kernel()


def test_a_part_that_begins_behind_the_end_is_empty():
    """K of 7,864 in 122 parts of 65 was such a case: what is before its begin was added once more."""
    out = np.full(4, -1, np.int32)
    counted(out, target="sim")
    assert out.tolist() == [65, 64, 0, 0]


@pytest.mark.parametrize("dtype", sample([nv.bf16, nv.f16, nv.f32, nv.f64, nv.i8, nv.e4m3], 1), ids=str)
def test_rows_off_the_grid_spill_nothing(dtype):
    strict = nv.jit(gemv_words.rows.__wrapped__, strict=True)
    found = replace(road(5286, 1, 16671, "nt", dtype=dtype), function=strict)
    specs = {name: view.spec for name, view in found.slots}
    arrays = [nv.ShapeDtype(specs[name].shape, specs[name].dtype, specs[name].strides) for name in found.order]
    compiled = strict._find(found.call(strict._described(tuple(arrays), {})), None)
    (kernel,) = compiled.kernels.values()
    used = kernel.resources
    assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0) and used.registers <= 128
