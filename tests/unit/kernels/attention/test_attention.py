"""``nv.attention`` in the simulator."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.errors import ArgumentError
from tests.exhaustive import sample
from tests.unit.kernels.attending import compare, expected

F16 = np.float16


def random(*shape, dtype=F16, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32).astype(dtype)


def heads(batch=1, queries=10, keys=20, heads=2, kv_heads=1, size=64, value_size=64, dtype=F16):
    return [
        random(batch, queries, heads, size, dtype=dtype),
        random(batch, keys, kv_heads, size, dtype=dtype, seed=1),
        random(batch, keys, kv_heads, value_size, dtype=dtype, seed=2),
    ]


def check(q, k, v, **options):
    compare(nv.attention(q, k, v, return_lse=True, target="sim", **options), expected(q, k, v, **options))


@pytest.mark.parametrize(
    ("shape", "options"),
    sample(
        [
            ({}, {}),
            ({"queries": 1, "keys": 1, "heads": 1}, {"causal": True}),
            ({"queries": 1, "keys": 70, "heads": 8}, {"scale": 0.3}),
            ({"queries": 150, "keys": 70, "dtype": ml_dtypes.bfloat16}, {"causal": True}),
            ({"batch": 2, "queries": 5, "heads": 6, "kv_heads": 2, "size": 72, "value_size": 16}, {"causal": True}),
            ({"size": 256, "value_size": 8}, {"window": (5, None)}),
            ({"size": 96, "value_size": 192}, {"window": (5, 3)}),
        ],
        4,
    ),
)
def test_beside_numpy(shape, options):
    check(*heads(**shape), **options)


@pytest.mark.parametrize("shape", [{"keys": 0}, {"queries": 0}, {"batch": 0}])
def test_nothing_to_do(shape):
    check(*heads(**shape))


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3), st.integers(0, 200), st.integers(0, 300), st.integers(1, 3), st.integers(1, 5),
    st.integers(1, 32), st.integers(1, 32), st.booleans(), *[st.none() | st.integers(0, 300)] * 2,
)  # fmt: skip
def test_any_shape(batch, queries, keys, kv_heads, group, size, value_size, causal, left, right):
    q, k, v = heads(batch, queries, keys, kv_heads * group, kv_heads, 8 * size, 8 * value_size)
    check(q, k, v, causal=causal, window=(left, right))


def test_strides_and_a_given_result():
    q, k, v = heads()
    turned = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for x in (q, k, v)]
    wide = np.zeros((1, 10, 2, 200), F16)
    assert nv.attention(*turned, wide[..., 3:67], target="sim") is not None
    compare((wide[..., 3:67], np.zeros(1)), (expected(q, k, v)[0], np.zeros(1)))
    assert not wide[..., :3].any() and not wide[..., 67:].any()


def test_numbers_that_are_none():
    """NaN and infinity in a key are those of the queries that see it."""
    q, k, v = heads(queries=8, keys=8, heads=1)
    k[0, 5, 0, 3], v[0, 6, 0, 1] = np.nan, np.inf
    out, lse = nv.attention(q, k, v, causal=True, return_lse=True, target="sim")
    with np.errstate(invalid="ignore"):
        assert np.isnan(lse[0, 0, 5:]).all() and np.isfinite(lse[0, 0, :5]).all()
        assert np.isnan(out[0, 5:]).all()
    many = np.full((1, 8, 1, 64), -np.inf, F16)
    ones = np.ones((1, 8, 1, 64), F16)
    out, lse = nv.attention(ones, many, v[:, :, :, :8].clip(-1, 1), return_lse=True, target="sim")
    assert not out.any() and (lse == -np.inf).all()


def arguments(**changes):
    q, k, v = heads()
    return {"q": q, "k": k, "v": v} | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": random(10, 2, 64)}, ["(10, 2, 64)", "(batch, queries, heads, size)"]),
        ({"k": random(1, 20, 1, 72)}, ["heads of one size"]),
        ({"v": random(1, 21, 1, 64)}, ["as many keys"]),
        ({"q": random(2, 10, 2, 64)}, ["one batch"]),
        ({"q": random(1, 10, 3, 64), "k": random(1, 20, 2, 64), "v": random(1, 20, 2, 64)}, ["3 heads of q and 2"]),
        ({"q": random(1, 10, 2, 20), "k": random(1, 20, 1, 20)}, ["size 20", "multiples of 8"]),
        ({"v": random(1, 20, 1, 264)}, ["size 264", "up to 256"]),
        ({"q": random(1, 10, 2, 64, dtype=np.float32)}, ["f32", "f16 or bf16"]),
        ({"k": random(1, 20, 1, 64, dtype=ml_dtypes.bfloat16)}, ["bf16", "one type"]),
        ({"out": random(1, 10, 2, 72)}, ["out has the shape", "(1, 10, 2, 64)"]),
        ({"out": random(1, 10, 2, 64, dtype=np.float32)}, ["out is of f32"]),
        ({"window": (-1, 0)}, ["window=(-1, 0)", "None for all"]),
        ({"window": 5}, ["window=5"]),
        ({"scale": float("nan")}, ["scale=nan", "finite"]),
        ({"q": [1.0]}, ["q is a list"]),
    ],
)
def test_errors(changes, words):
    with pytest.raises(ArgumentError) as error:
        nv.attention(**arguments(**changes), target="sim")
    assert all(word in str(error.value) for word in words), error.value


def test_the_result_is_no_operand():
    q, k, v = heads(heads=1)
    with pytest.raises(ArgumentError, match="out and q overlap"):
        nv.attention(q, k, v, q, target="sim")
