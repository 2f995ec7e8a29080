"""``nv.attention`` of e4m3 in the simulator."""

import functools
import itertools

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention.choose import choose
from nvdsl.kernels.attention.forward import attention as kernel
from tests.exhaustive import sample
from tests.sim.simulate import run
from tests.unit.kernels.attending import compare, expected, signature
from tests.unit.kernels.attention import test_attention as sixteen
from tests.unit.kernels.attention.test_forward import overlapping
from tests.unit.kernels.sass import loops

E4M3 = ml_dtypes.float8_e4m3fn
attention = functools.partial(nv.attention, target="sim")
"""The tests on the device put `nv.attention` in its place."""
SUMS = 100.0
"""Tensor cores sum products of 8 bits with fewer bits than f32 has."""


def rounded(q, k, v, causal=False, lift=5.0, scale=None):
    """What weights of e4m3, ``2**lift`` times as large, give with sums in float64."""
    (_, queries, heads, size), (_, keys, kv_heads, _) = q.shape, k.shape
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, heads // kv_heads, axis=2) for x in (k, v))
    s = np.einsum("bihd,bjhd->bhij", q, k) * (size**-0.5 if scale is None else scale)
    s = np.where(np.tri(queries, keys, keys - queries, dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True)) * 2**lift
    o = np.einsum("bhij,bjhd->bihd", p.astype(E4M3).astype(np.float64), v)
    return o / p.sum(-1).transpose(0, 2, 1)[..., None]


def heads(batch=1, queries=10, keys=20, heads=2, kv_heads=1, size=64, value_size=64, dtype=E4M3):
    return sixteen.heads(batch, queries, keys, heads, kv_heads, size, value_size, dtype)


def error(found, wanted):
    return np.linalg.norm(np.asarray(found, np.float64) - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("shape", "options"),
    sample(
        [
            ({"queries": 20, "keys": 300}, {"causal": True}),
            ({"queries": 150, "keys": 200, "size": 128, "value_size": 128}, {"causal": True}),
            ({"batch": 2, "queries": 1, "keys": 400, "heads": 8, "size": 128, "value_size": 64}, {}),
            ({"queries": 100, "keys": 150, "size": 96, "value_size": 192}, {}),
            ({"queries": 130, "keys": 230, "size": 256, "value_size": 256}, {"causal": True}),
            ({"queries": 64, "keys": 64, "size": 80, "value_size": 16}, {}),
        ],
        1,
    ),
)
def test_no_worse_than_rounded_weights(shape, options):
    q, k, v = heads(**shape)
    out, lse = attention(q, k, v, return_lse=True, **options)
    wanted, logs = expected(q, k, v, **options)
    assert out.dtype == ml_dtypes.bfloat16
    assert error(out, wanted) < 1.1 * error(rounded(q, k, v, **options), wanted) + 2e-3
    compare((out, lse), (wanted, logs), SUMS, tolerance=0.04)


def test_a_scale_for_each_head():
    q, k, v = heads(2, 2, 20, 4, 2)
    scales = [np.array(x, np.float32) for x in ([[0.5, 2.0], [1.0, 0.0]], [0.25, 4.0], [[3.0], [0.125]])]
    out = np.empty(q.shape, np.float16)
    names = ("q_scale", "k_scale", "v_scale")
    assert attention(q, k, v, out, return_lse=True, **dict(zip(names, scales, strict=True)))[0] is out
    of_q, of_k, of_v = (np.broadcast_to(x, (2, 2))[:, None, :, None] for x in scales)
    whole = (x.astype(np.float32) * s for x, s in zip((q, k, v), (of_q.repeat(2, 2), of_k, of_v), strict=True))
    compare((out, np.zeros(1)), (expected(*whole)[0], np.zeros(1)), tolerance=0.04)
    attention(q, k, v, out, return_lse=True, q_scale=0.5, k_scale=1, v_scale=2.0)
    assert error(out, expected(q.astype(np.float32) / 2, k, v.astype(np.float32) * 2)[0]) < 0.04


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["softcap", "bias", "alibi", "window", "splits", "clusters"])
def test_options(what):
    q, k, v = heads(2, 40, 90, 4, 2)
    batch, head, i, j = np.indices((2, 4, 40, 90))
    given, wanted = {
        "softcap": ({"softcap": 2.0}, {"softcap": 2.0}),
        "bias": (2 * [{"bias": sixteen.random(1, 4, 1, 90, dtype=np.float32)}]),
        "alibi": ({"score": sixteen.alibi}, {"bias": -0.1 * head * abs(i + 50 - j)}),
        "window": (2 * [{"window": (30, 5)}]),
        "splits": ({"splits": 3}, {}),
        "clusters": ({"splits": 4}, {}),
    }[what]
    compare(attention(q, k, v, return_lse=True, **given), expected(q, k, v, **wanted), spread=200, tolerance=0.04)


@pytest.mark.parametrize("size", sample([64, 256], 1))
def test_tiles_that_are_drawn(size):
    """By the blocks of a grid that stays: where tiles are more than SMs, which no call here has."""
    q, k, v = heads(queries=140, keys=70, heads=3, kv_heads=1, size=size, value_size=size)
    config, _ = choose(
        size, size, 1, 140, 3, 1, 70, bounded=True, packed=False, page=0, told=False, splits=None, sms=2, itemsize=1
    )
    assert config.queue and config.blocks == 2
    o, lse = np.full((1, 140, 1, 3, size), np.nan, ml_dtypes.bfloat16), np.full((1, 1, 3, 140), np.nan, np.float32)
    run(kernel, q[:, :, None], k, v, o, None, lse, size**-0.5, 0, 0, 1, 0.0, 0, *[None] * 8, config=config,
        bounded=(False, True))  # fmt: skip
    compare((o[:, :, 0], lse[0]), expected(q, k, v, causal=True), SUMS, tolerance=0.04)


SEQUENCES = [
    ([5, 20], [70, 200], {"used": [3, 180], "causal": True}),
    ([5, 0, 130, 1], [70, 20, 200, 0], {"causal": True, "size": 128}),
    ([5, 140, 13], [70, 90, 20], {"page": 16, "causal": True}),
    ([1, 3], [70, 300], {"page": 64, "count": 8, "splits": 3}),
]


@pytest.mark.parametrize(("queries", "keys", "options"), sample(SEQUENCES, 1))
def test_sequences(queries, keys, options):
    sixteen.check_sequences(queries, keys, dtype=E4M3, within=(SUMS, 0.04), **options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": sixteen.random(1, 10, 2, 64)}, ["k is of e4m3, and q of f16"]),
        ({"q": sixteen.random(1, 10, 2, 72, dtype=E4M3), "k": sixteen.random(1, 20, 1, 72, dtype=E4M3)}, ["of 16"]),
        ({"q_scale": np.ones(3, np.float32)}, ["(3,)", "(1, 1)"]),
        ({"v_scale": np.ones(1)}, ["f64", "f32"]),
        ({"k_scale": -1.0}, ["below 0"]),
        ({"out": sixteen.random(1, 10, 2, 64, dtype=np.float32)}, ["bf16 or f16"]),
        ({"page_table": np.array([[0]])}, ["pages of 20 keys", "multiple of 8"]),
    ],
)
def test_errors(changes, words):
    q, k, v = heads()
    with pytest.raises(ArgumentError) as raised:
        attention(**({"q": q, "k": k, "v": v} | changes))
    assert all(word in str(raised.value) for word in words), raised.value


def test_scales_are_those_of_8_bits():
    with pytest.raises(ArgumentError, match="q_scale of f16"):
        attention(*heads(dtype=np.float16), q_scale=2.0)


@pytest.mark.parametrize("dtype", sample([E4M3, ml_dtypes.bfloat16], 1))
def test_weights_that_would_be_infinite(dtype):
    """Scores grow by more than an exponent holds, in a tile after the first one; and then a key is NaN."""
    q, k, v = (x.astype(np.float32) for x in heads(queries=9, keys=256, heads=1, kv_heads=1))
    q *= 8
    k[:, :100] *= 60
    q, k, v = (x.clip(-448, 448).astype(dtype) for x in (q, k, v))
    out, lse = attention(q, k, v, return_lse=True)
    wanted, logs = expected(q, k, v)
    assert error(out, wanted) < 0.04 and np.allclose(lse, logs, rtol=1e-4)
    k[0, 5, 0, 0] = np.nan
    assert np.isnan(attention(q, k, v, return_lse=True)[0].astype(np.float32)).all()


@pytest.mark.parametrize(("bounded", "size"), sample(itertools.product((False, True), (64, 96, 128, 192, 256)), 1))
def test_the_main_loop(bounded, size):
    """Strictly compiled: a spill or a wgmma that is waited for is an error. The exponentials stand before the wait for
    the product before."""
    config, _ = choose(
        size, size, 1, 8192, 16, 16, 8192, bounded=bounded, packed=False, page=0, told=False, splits=None, sms=132,
        itemsize=1,
    )  # fmt: skip
    given = signature(config.sizes, nv.e4m3)
    given[3] = nv.ShapeDtype(given[3].shape, nv.bf16)
    (found,) = (
        nv.jit(kernel.__wrapped__, strict=True)
        .compile(*given, config=config, bounded=(False, bounded))
        .kernels.values()
    )
    every = loops(found.sass())
    while_multiplying = min((part for loop in every if (part := overlapping(loop))), key=len)
    assert while_multiplying.count("MUFU.EX2") == config.tile_n // 2 + 2 * (not config.lazy)
    loop = min(every, key=len)
    again = 32 if config.lazy and not bounded else 0  # keys that large sums are found of; of a mask's loop, none
    assert sum("QGMMA" in x for x in loop) == size // 32 + config.tile_n // 32
    assert sum("F2FP.SATFINITE" in x for x in loop) == (config.tile_n + again) // 4
    assert again or not any("PRMT" in x for x in loop)
    assert not any("BAR" in x.split() for x in loop)
