"""``nv.matmul`` in the simulator: types, layouts, batches, ragged sizes, errors.

Small integers, whose sums are exact in every type, are compared bit by bit.
"""

from __future__ import annotations

import itertools
import sys

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.kernels import Config
from nvdsl.kernels.gemm import simple
from tests.exhaustive import sample
from tests.unit.kernels import array
from tests.unit.kernels.products import CONFIGS, SMALL, made, product

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8]


def check(a, b, out_dtype=nv.f32, **options):
    out_dtype = None if a.dtype == np.int8 else out_dtype
    got = nv.matmul(a, b, out_dtype=out_dtype, target="sim", **{"config": SMALL, **options})
    expected = product(a, b)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def by_columns(x):
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    sample(itertools.product(TYPES, ["nn", "nt", "tn", "tt"]), 9),
    ids=lambda x: x if isinstance(x, str) else np.dtype(x).name,
)
def test_each_type_in_each_layout(dtype, layout):
    a, b = made(72, 48, dtype=dtype), made(48, 80, dtype=dtype, seed=1)
    check(*(x if kind == "n" else by_columns(x) for x, kind in zip((a, b), layout, strict=True)))


def test_8_bit_floats_of_two_kinds():
    check(made(64, 32, dtype=ml_dtypes.float8_e4m3fn), made(32, 64, dtype=ml_dtypes.float8_e5m2))


def test_doubles():
    a, b = made(7, 9, dtype=np.float64) / 3, made(9, 5, dtype=np.float64) / 7
    np.testing.assert_allclose(nv.matmul(a, b, target="sim"), a @ b, rtol=1e-15)


@pytest.mark.parametrize(
    ("config", "shape"),
    sample(itertools.product(CONFIGS, [(1, 1, 1), (1, 96, 40), (96, 1, 40), (65, 66, 67), (130, 8, 200)]), 7),
    ids=lambda x: str(x) if isinstance(x, tuple) else x.schedule,
)
def test_ragged_sizes(config, shape):
    m, n, k = shape
    check(made(m, k), made(k, n), config=config)


BATCHES = [
    ((3, 72, 40), (3, 40, 16)),
    ((3, 72, 40), (40, 16)),  # one B for all: rows of one product
    ((72, 40), (3, 40, 16)),
    ((2, 1, 9, 40), (1, 3, 40, 16)),
    ((2, 3, 9, 7), (2, 3, 7, 5)),
    ((40,), (40, 16)),
    ((72, 40), (40,)),
    ((40,), (40,)),
]


@pytest.mark.parametrize(
    ("config", "a", "b"),
    sample([(config, a, b) for config in CONFIGS for a, b in BATCHES], 7),
    ids=lambda x: str(x) if isinstance(x, tuple) else x.schedule,
)
def test_batches_and_vectors(config, a, b):
    check(made(*a), made(*b), config=config)


@hypothesis.given(st.tuples(*[st.integers(1, 20)] * 3), st.sampled_from(TYPES), st.integers(0, 3), st.booleans())
@hypothesis.settings(max_examples=20)
def test_any_size_and_layout(shape, dtype, turned, chosen):
    m, n, k = shape
    a, b = made(m, k, dtype=dtype), made(k, n, dtype=dtype)
    a, b = by_columns(a) if turned & 1 else a, by_columns(b) if turned & 2 else b
    check(a, b, config=SMALL if chosen else None)


def test_one_factor_that_numpy_has_by_columns_serves_all_batches():
    """Its staged copy is packed, and its batches are still one."""
    a, b = made(2, 6, 3, dtype=np.int8), made(3, 4, dtype=np.int8, seed=1)
    check(by_columns(a), by_columns(b), config=None)


@pytest.mark.parametrize(("a", "b", "name"), [((5, 8), (8,), "bias"), ((8,), (3, 8, 6), "c"), ((8,), (8,), "c")])
def test_what_is_added_to_a_vector_has_its_shape(a, b, name):
    a, b = made(*a, dtype=np.float16), made(*b, dtype=np.float16, seed=1)
    expected = product(a, b)
    added = np.arange(expected.size, dtype=np.float32).reshape(expected.shape)
    got = nv.matmul(a, b, target="sim", out_dtype=nv.f32, **{name: added})
    np.testing.assert_array_equal(got, expected + added)


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0)])
def test_what_is_empty(shape):
    m, n, k = shape
    check(made(m, k), made(k, n), config=None)


@pytest.mark.parametrize("rows", [0, 3])
def test_scales_of_columns_where_there_are_none(rows):
    """(1, 0) is also the shape of block scales for no columns."""
    scales = {"scale_a": np.ones((rows, 1), np.float32), "scale_b": np.ones((1, 0), np.float32)}
    result = nv.matmul(made(rows, 7), made(7, 0), bias=np.zeros(0, np.float32), target="sim", **scales)
    assert result.shape == (rows, 0)


def test_empty_sums_have_an_epilogue():
    bias = made(7)
    np.testing.assert_array_equal(nv.matmul(made(5, 0), made(0, 7), bias=bias, target="sim"), np.tile(bias, (5, 1)))


def test_nan_and_inf_stay_in_their_rows():
    a, b = made(20, 16), np.ones((16, 24), np.float16)
    a[3, 5], a[7, 1] = np.nan, np.inf
    got = nv.matmul(a, b, target="sim", config=SMALL)
    assert np.isnan(got[3]).all() and np.isposinf(got[7]).all()
    assert np.isfinite(np.delete(got, [3, 7], axis=0)).all()


ROADS = pytest.mark.parametrize(
    ("columns", "config"), [(24, SMALL), (24, None), (1, None)], ids=["tensor cores", "simple", "one column"]
)


@ROADS
@pytest.mark.parametrize(
    "out", sample([nv.f16, nv.f32, nv.f64, nv.bf16, nv.e4m3, nv.e5m2, nv.i32], 4), ids=lambda t: t.name
)
def test_types_of_results(out, columns, config):
    a, b = made(20, 4), made(4, columns)
    got = nv.matmul(a, b, out_dtype=out, target="sim", config=config)
    assert got.dtype == out.numpy
    np.testing.assert_array_equal(got, product(a, b).astype(out.numpy))


@ROADS
@pytest.mark.parametrize(("alpha", "expected"), [(-0.3, [-1, 1]), (1e30, [2**31 - 1, -(2**31)])])
def test_an_epilogue_of_integers_cuts_towards_zero(columns, config, alpha, expected):
    a, b = np.array([[6, 0], [-6, 0]], np.int8), np.ones((2, columns), np.int8)
    got = nv.matmul(a, b, alpha=alpha, target="sim", config=config)
    np.testing.assert_array_equal(got, np.tile(np.array(expected)[:, None], columns))


@ROADS
@pytest.mark.parametrize(
    ("out", "expected"),
    [(nv.e4m3, [448, -448, np.nan]), (nv.e5m2, [57344, -57344, np.nan]), (nv.f16, [np.inf, -np.inf, np.nan])],
    ids=lambda x: x.name if isinstance(x, nv.DType) else "",
)
def test_what_is_too_large_for_the_result(out, expected, columns, config):
    """8-bit floats end at their largest number, whatever is beyond; the others at infinity."""
    a, b = np.full((3, 4), 600, np.float16), np.full((4, columns), 300, np.float16)
    a[1], a[2, 3] = -np.inf, np.nan
    got = nv.matmul(a, b, out_dtype=out, target="sim", config=config)
    np.testing.assert_array_equal(got.astype(np.float32), np.tile(np.array(expected, np.float32)[:, None], columns))


@pytest.mark.parametrize("tile_n", [16, 48, 176])
def test_results_of_8_bits_whose_tiles_end_in_a_piece_of_16_bytes(tile_n):
    a, b = made(64, 16), made(16, 2 * tile_n, seed=1)
    got = nv.matmul(a, b, out_dtype=nv.e4m3, config=Config(64, tile_n, stages=2, consumers=1), target="sim")
    np.testing.assert_array_equal(got, product(a, b).astype(ml_dtypes.float8_e4m3fn))


def test_sums_of_16_bits():
    check(made(64, 64), made(64, 64), nv.f16, acc_dtype=nv.f16)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("shape", [(40, 24), (41, 25)])
def test_a_result_of_the_callers(shape, columns):
    a, b = made(shape[0], 16), made(16, shape[1])
    memory = np.full(shape[::-1] if columns else shape, np.nan, np.float32)
    out = memory.T if columns else memory
    assert nv.matmul(a, b, out, target="sim", config=SMALL) is out
    np.testing.assert_array_equal(out, product(a, b))


def test_a_repeated_call_looks_its_road_up(monkeypatch):
    a, b = made(8, 16), made(16, 8)
    nv.matmul(a, b, target="sim")
    monkeypatch.setattr(sys.modules["nvdsl.kernels.gemm.matmul"], "find", None)  # calling it would fail
    np.testing.assert_array_equal(nv.matmul(a, b, target="sim"), product(a, b))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"b": made(17, 8)}, "K is a's last axis"),
        ({"b": made(16, 8, dtype=np.float32)}, "a product of f16 and f32"),
        ({"a": [[1.0]]}, "a is a list"),
        ({"beta": 1.0}, "without c"),
        ({"activation": "swish"}, "one of relu"),
        ({"bias": made(16)}, "bias of shape"),
        ({"out": np.zeros((8, 9), np.float16)}, "out of shape"),
        ({"out": np.zeros((8, 8), np.float16), "out_dtype": nv.f32}, "pass one of the two"),
        ({"out": np.broadcast_to(np.float16(0), (8, 8))}, "out is read-only"),
        ({"acc_dtype": nv.i32}, "sums of f16 in i32"),
        ({"out_dtype": nv.i8}, "a result of i8"),
        ({"config": Config(stages=9)}, "bytes of shared memory"),
        ({"stream": "x"}, "stream='x'"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_wrong_is_said_at_the_callers_line(options, said):
    with pytest.raises(nv.ArgumentError, match=said) as caught:
        nv.matmul(**{"a": made(8, 16), "b": made(16, 8), "target": "sim", **options})
    assert caught.value.where is not None and caught.value.where.file == __file__


@pytest.mark.parametrize(
    ("dtype", "out", "said"),
    [(np.float64, np.ones((8, 8)), "nothing to tune"), (np.float16, np.ones((8, 9), np.float16), "out of shape"),
     (np.float16, None, "pass an array as out")],
)  # fmt: skip
def test_what_can_not_be_tuned_is_said_at_the_callers_line(dtype, out, said):
    with pytest.raises(nv.ArgumentError, match=said) as caught:
        nv.matmul.tune(made(8, 16, dtype=dtype), made(16, 8, dtype=dtype), out, target="sim")
    assert caught.value.where.file == __file__


def test_a_tuning_shows_what_was_asked_for():
    bias = made(640)
    with pytest.warns(nv.TuneWarning, match="^matmul can't be tuned here"):
        out = made(640, 640)
        found = nv.matmul.tune(made(640, 320), made(640, 320).T, out, bias=bias, activation="relu", acc_dtype=nv.f32)
    asked = "a 640x320 f16, b 320x640 f16, strides (1, 320), bias 640 f16, out 640x640 f16, activation='relu', "
    asked += "acc_dtype=nv.f32"
    assert str(found).startswith(f"matmul({asked}): ")


def test_the_simple_kernel_sums_in_the_order_of_k():
    a, b = np.array([[[1e8, 1.0, -1e8]]], np.float32), np.ones((1, 3, 1), np.float32)
    out = np.zeros((1, 1, 1), np.float32)
    simple.matmul(a, b, out, sms=1, target="sim")
    assert out[0, 0, 0] == np.float32(np.float32(1e8) + np.float32(1)) - np.float32(1e8)


def test_the_simple_kernel_takes_tile_after_tile_of_each_batch():
    a, b = made(3, 20, 5), made(1, 5, 70)
    out = np.zeros((3, 20, 70), np.float32)
    simple.matmul(a, b, out, sms=1, target="sim")
    np.testing.assert_array_equal(out, product(a, b))


@pytest.mark.parametrize(("batches", "m", "n", "k"), [(1, 2, 3, 1000), (3, 5, 7, 66), (2, 1, 1, 3), (1, 1, 1, 2049)])
@pytest.mark.parametrize("sms", [1, 3])
def test_threads_share_elements_of_few(batches, m, n, k, sms):
    """1 to 256 threads an element, more than one warp of them, too; elements that no block is filled by."""
    a, b = made(batches, m, k, dtype=np.int8), made(1, n, k, dtype=np.int8).swapaxes(1, 2)
    out = np.zeros((batches, m, n), np.int32)
    simple.matmul(a, b, out, sms=sms, acc_dtype=nv.i32, target="sim")
    np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(
    ("batches", "m", "n", "blocks"),
    [(1, 524_281, 8, 65_536), (65_536, 1, 40, 2 * 65_536), (1, 1, 32 * 65_536, 65_536)],
    ids=["rows", "batches", "columns"],
)
def test_the_simple_kernel_has_more_tiles_than_a_grid_has_blocks_along_y_or_z(batches, m, n, blocks):
    shapes = [(batches, m, 3), (batches, 3, n), (batches, m, n)]
    arrays = [array(nv.f64, *shape) for shape in shapes]
    for module in (simple.matmul.trace(*arrays, sms=132), simple.empty_sums.trace(arrays[-1])):
        (launch,) = find(module, "gpu.launch")
        assert [constant(x) for x in list(launch.operands)[:3]] == [blocks, 1, 1]


def test_activations_that_look_alike_are_in_states_of_their_own():
    def made(by):
        def activation(x):
            return x * by

        def change(new):
            nonlocal by
            by = new

        return activation, change

    (first, change), (second, _) = made(2.0), made(2.0)
    one = np.eye(8)

    def scale(activation):
        return nv.matmul(one, one, activation=activation, target="sim")[0, 0]

    assert (scale(first), scale(second)) == (2.0, 2.0)
    change(3.0)
    assert (scale(second), scale(first), scale(second)) == (2.0, 3.0, 2.0)


def test_a_tile_wider_than_a_result_that_is_its_own_operand():
    """What lies beyond the edge is not read: the last elements are on their way out by then."""
    rng = np.random.default_rng(0)
    a, b, out = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 64), (64, 24), (64, 24)))
    expected = a.astype(np.float32) @ b + 2 * out.astype(np.float32)
    nv.matmul(a, b, out, c=out, beta=2.0, config=Config(128, 256), target="sim")
    np.testing.assert_array_equal(out, expected)
