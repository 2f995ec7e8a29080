"""``nv.attention`` in the simulator."""

import functools
import itertools
import math
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention import attention as module
from nvdsl.kernels.attention import tuned
from nvdsl.kernels.attention.choose import choose
from nvdsl.kernels.attention.config import SIZES
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.tune import device
from tests.exhaustive import sample
from tests.unit.kernels.attending import compare, expected

F16 = np.float16
attention = functools.partial(nv.attention, target="sim")
"""The tests on the device put `nv.attention` in its place."""


def random(*shape, dtype=F16, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32).astype(dtype)


def heads(batch=1, queries=10, keys=20, heads=2, kv_heads=1, size=64, value_size=64, dtype=F16):
    return [
        random(batch, queries, heads, size, dtype=dtype),
        random(batch, keys, kv_heads, size, dtype=dtype, seed=1),
        random(batch, keys, kv_heads, value_size, dtype=dtype, seed=2),
    ]


def check(q, k, v, **options):
    compare(attention(q, k, v, return_lse=True, **options), expected(q, k, v, **options))


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
            ({"size": 24, "value_size": 32, "queries": 140, "keys": 140}, {"causal": True}),
            ({"size": 112, "value_size": 104}, {"causal": True}),
            ({"size": 160, "value_size": 152, "queries": 70}, {}),
            ({"size": 216, "value_size": 216}, {"causal": True}),
        ],
        6,
    ),
)
def test_beside_numpy(shape, options):
    check(*heads(**shape), **options)


@pytest.mark.parametrize(("size", "value_size"), [(136, 200), (256, 192)])
def test_wide_heads_of_two_sizes(size, value_size):
    """Their results have shared memory of their own, which takes more than was left."""
    check(*heads(queries=70, keys=20, heads=1, size=size, value_size=value_size))
    q, k, v = (x[0] for x in heads(queries=75, keys=20, heads=1, size=size, value_size=value_size))
    starts = np.array([0, 5, 75], np.int32)
    out, lse = attention(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts // 4, return_lse=True)
    for a, b in itertools.pairwise(starts):
        wanted = expected(q[None, a:b], k[None, a // 4 : b // 4], v[None, a // 4 : b // 4])
        compare((out[None, a:b], lse[None, :, a:b]), wanted)


FITTING = {n: [*itertools.product([n], sizes, sizes)] for n, sizes in SIZES.items()}


@pytest.mark.parametrize(("itemsize", "size", "value_size"), sample(FITTING[2], 25) + sample(FITTING[1], 5))
def test_what_is_chosen_fits(itemsize, size, value_size):
    shapes = itertools.product((1, 33, 100, 3000), (1, 2, 8), (1, 300, 5000), (False, True), (False, True), (1, 64))
    for queries, group, keys, told, bounded, batch in shapes:
        config, _ = choose(
            size, value_size, batch, queries, 2 * group, 2, keys, bounded=bounded, packed=False, page=0, told=told,
            splits=None, sms=132, itemsize=itemsize,
        )  # fmt: skip
        assert config.fits or config.cluster > 1, config


def chosen(batch, queries, heads, kv_heads, keys, size=128, **options):
    options = {"bounded": False, "packed": False, "page": 0, "told": False, "splits": None, "sms": 132, **options}
    return choose(size, size, batch, queries, heads, kv_heads, keys, **options)


@pytest.mark.parametrize(
    ("batch", "keys", "cluster", "parts"),
    [(4, 65536, 1, 4), (2, 8192, 1, 8), (1, 65536, 1, 16), (8, 8192, 2, 1), (1, 8192, 16, 1), (32, 8192, 1, 1)],
)
def test_how_decoding_shares_keys(batch, keys, cluster, parts):
    """64 heads of q on 8: parts for all SMs where keys are many, but for two blocks; else a cluster."""
    config, found = chosen(batch, 1, 64, 8, keys)
    assert (config.cluster, found) == (cluster, parts)


def test_a_window_is_taken_as_the_keys_that_it_shows():
    for size, windowed, whole in ((256, (64, 128), (80, 0)), (64, 2, 3)):
        short, long = (chosen(2, 8192, 16, 16, 8192, size, bounded=True, seen=n)[0] for n in (513, None))
        told = [(x.tile_n, x.o_columns) if size == 256 else x.consumers for x in (short, long)]
        assert told == [windowed, whole]


@pytest.mark.parametrize(
    ("size", "length", "bounded", "seen", "keys"),
    [(192, 512, False, None, 96), (224, 1000, True, None, 64), (160, 4000, True, 300, 96), (160, 512, False, None, 0),
     (192, 2048, True, None, 0)],
)  # fmt: skip
def test_results_of_short_sequences_leave_by_themselves(size, length, bounded, seen, keys):
    config, _ = chosen(16, length, 16, 16, length, size, bounded=bounded, left=seen is not None, seen=seen)
    assert (config.tile_n if config.o_columns else 0) == keys


def test_heads_of_packed_sequences_are_packed():
    """Where that saves 2 % of the tiles: each sequence leaves half a tile empty."""
    for queries, heads, kv_heads, packs in ((900, 8, 2, 4), (4000, 8, 2, 1), (400, 5, 1, 1)):
        assert chosen(64, queries, heads, kv_heads, queries, bounded=True, packed=True, ragged=True)[0].pack == packs


@pytest.mark.parametrize("shape", [{"keys": 0}, {"queries": 0}, {"batch": 0}])
def test_nothing_to_do(shape):
    check(*heads(**shape))


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3), st.integers(0, 200), st.integers(0, 300), st.integers(1, 3), st.integers(1, 5),
    st.integers(1, 32), st.integers(1, 32), st.booleans(), *[st.none() | st.integers(0, 300)] * 2,
    st.sampled_from([3, 132]), st.booleans(),
)  # fmt: skip
def test_any_shape(
    batch, queries, keys, kv_heads, group, size, value_size, causal, left, right, sms, eight_bits
):  # fmt: skip
    """With few SMs blocks stay, and draw their tiles; no call here has more tiles than an H200 has SMs."""
    dtype, unit = (ml_dtypes.float8_e4m3fn, 16) if eight_bits else (F16, 8)
    sizes = (unit * -(-8 * n // unit) for n in (size, value_size))
    q, k, v = heads(batch, queries, keys, kv_heads * group, kv_heads, *sizes, dtype=dtype)
    options = {"causal": causal, "window": (left, right)}
    with mock.patch.object(module, "sms", lambda target=None: sms):
        found = attention(q, k, v, return_lse=True, **options)
    compare(found, expected(q, k, v, **options), *((100.0, 0.04) if eight_bits else ()))


def test_strides_and_a_given_result():
    q, k, v = heads()
    turned = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for x in (q, k, v)]
    wide = np.zeros((1, 10, 2, 200), F16)
    assert attention(*turned, wide[..., 3:67]) is not None
    compare((wide[..., 3:67], np.zeros(1)), (expected(q, k, v)[0], np.zeros(1)))
    assert not wide[..., :3].any() and not wide[..., 67:].any()


def test_numbers_that_are_none():
    """NaN and infinity in a key are those of the queries that see it."""
    q, k, v = heads(queries=8, keys=8, heads=1)
    k[0, 5, 0, 3], v[0, 6, 0, 1] = np.nan, np.inf
    out, lse = attention(q, k, v, causal=True, return_lse=True)
    with np.errstate(invalid="ignore"):
        assert np.isnan(lse[0, 0, 5:]).all() and np.isfinite(lse[0, 0, :5]).all()
        assert np.isnan(out[0, 5:]).all()
    many = np.full((1, 8, 1, 64), -np.inf, F16)
    ones = np.ones((1, 8, 1, 64), F16)
    out, lse = attention(ones, many, v[:, :, :, :8].clip(-1, 1), return_lse=True)
    assert not out.any() and (lse == -np.inf).all()


def alibi(s, batch, head, query, key):
    return s - 0.1 * nv.f32(head) * nv.f32(nv.abs(query + 50 - key))


def same_document(s, batch, head, query, key, documents):
    return nv.where(documents[query + 50] == documents[key], s, -math.inf)


@pytest.mark.parametrize("splits", sample([2, 1], 1))
def test_a_mask_of_the_least_number(splits):
    """It hides keys where others are seen. All keys of a query are alike where it hides all."""
    q, k, v = heads(1, 20, 90, 2, 1)
    bias = np.zeros((20, 90), np.float32)
    bias[:, 3:70] = bias[7] = np.finfo(np.float32).min
    bias[9] = -1e30
    compare(attention(q, k, v, bias=bias, splits=splits, return_lse=True), expected(q, k, v, bias=bias))


@pytest.mark.parametrize("what", sample(["documents", "scale", "softcap", "bias", "broadcast", "alibi"], 1))
def test_scores(what):
    q, k, v = heads(2, 40, 90, 4, 2)
    batch, head, i, j = np.indices((2, 4, 40, 90))
    if what == "scale":
        check(q, k, v, scale=-0.2)
        check(q, k, v, scale=0.0, causal=True)
    elif what == "softcap":
        found = attention(q, k, v, softcap=2.0, causal=True, return_lse=True)
        compare(found, expected(q, k, v, softcap=2.0, causal=True), spread=200)  # tanh.approx
    elif what == "bias":
        check(q, k, v, bias=random(1, 4, 1, 90, dtype=np.float32))
    elif what == "broadcast":
        check(q, k, v, bias=random(2, 1, 40, 90), causal=True)
    else:
        documents = np.sort(np.random.default_rng(0).integers(0, 3, 90)).astype(np.int32)
        by_hand = {
            "alibi": ((alibi, []), -0.1 * head * abs(i + 50 - j)),
            "documents": ((same_document, [documents]), np.where(documents[i + 50] == documents[j], 0, -np.inf)),
        }
        (score, operands), added = by_hand[what]
        found = attention(q, k, v, score=score, operands=operands, return_lse=True)
        compare(found, expected(q, k, v, bias=added))


@pytest.mark.parametrize("group", sample([3, 5, 6], 1))
def test_scores_of_heads_that_fill_no_tile(group):
    """Rows of a tile that belong to no head are told the last one: the caller's array has no more."""
    q, k, v = heads(1, 7, 30, 2 * group, 2)
    slopes = random(2 * group, dtype=np.float32)
    _, head, i, j = np.indices((1, 2 * group, 7, 30))
    score = lambda s, batch, head, query, key, slopes: s + slopes[head] * nv.f32(key - query)  # noqa: E731
    found = attention(q, k, v, score=score, operands=[slopes], return_lse=True)
    compare(found, expected(q, k, v, bias=slopes[head] * (j - i)))


@pytest.mark.parametrize("splits", sample([3, None, 2, 7], 1))
def test_parts_of_the_keys(splits):
    q, k, v = heads(1, 1, 400, 4, 1, value_size=72)
    found = attention(q, k, v, splits=splits, return_lse=True)
    compare(found, expected(q, k, v))
    q, k, v = heads(1, 20, 150, 2, 1)
    check_all = attention(q, k, v, splits=splits, window=(20, 0), return_lse=True)
    compare(check_all, expected(q, k, v, window=(20, 0)))


def check_sequences(queries, keys, used=None, page=0, count=4, size=64, dtype=F16, within=(), **options):
    """Packed sequences, each beside `expected`. What lies beyond a sequence's keys is NaN."""
    rng = np.random.default_rng(sum(queries) + page)
    at, start = np.cumsum([0, *queries]), np.cumsum([0, *keys])
    shapes = (at[-1], count, size), (start[-1], 2, size), (start[-1], 2, size)
    q, k, v = (random(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes))
    used = keys if used is None else used
    own = [[x[a : a + n].copy() for a, n in zip(start[:-1], used, strict=True)] for x in (k, v)]
    lengths = np.array(used, np.int32)
    if page:
        most = max(-(-max(used) // page), 1)
        table = np.zeros((len(keys), most), np.int32)
        pages = iter(rng.permutation(len(keys) * most + 2))
        k, v = (np.full((len(keys) * most + 2, page, 2, size), np.nan, dtype) for _ in "kv")
        for i, n in enumerate(used):
            for p in range(-(-n // page)):
                table[i, p] = next(pages)
                for paged, one in zip((k, v), own, strict=True):
                    part = one[i][p * page : (p + 1) * page]
                    paged[table[i, p], : len(part)] = part
        given = {"page_table": table, "seqused_k": lengths}
    else:
        for x in (k, v):
            for a, b, n in zip(start[:-1], start[1:], used, strict=True):
                x[a + n : b] = np.nan
        given = {"cu_seqlens_k": start} | ({"seqused_k": lengths} if used != keys else {})
    out, lse = attention(q, k, v, cu_seqlens_q=at, return_lse=True, **given, **options)
    options.pop("splits", None)
    for i, (a, b) in enumerate(zip(at[:-1], at[1:], strict=True)):
        if b > a:
            wanted = expected(q[None, a:b], own[0][i][None], own[1][i][None], **options)
            compare((out[None, a:b], lse[None, :, a:b]), wanted, *within)


SEQUENCES = [
    ([5, 0, 130, 1], [70, 20, 200, 0], {"causal": True}),
    ([5, 140, 13], [70, 90, 20], {"used": [3, 90, 0], "causal": True}),
    ([5, 140, 13], [70, 90, 20], {"page": 16, "causal": True}),
    ([5, 3], [70, 300], {"page": 256}),
    ([1, 3], [70, 300], {"page": 64, "count": 8, "splits": 3}),
    ([1, 1, 1], [70, 300, 0], {"count": 8, "splits": 3}),
    ([40, 30], [80, 30], {"window": (20, 5), "size": 128}),
    ([0, 0], [8, 0], {}),
    ([1], [20], {"page": 40, "splits": 3}),
    ([5], [170], {"page": 72}),
]


@pytest.mark.parametrize(
    ("queries", "keys", "options"),
    sample(SEQUENCES, 2),
)
def test_sequences(queries, keys, options):
    check_sequences(queries, keys, **options)


def test_functions_are_asked_of_no_row_before_the_first():
    """A sequence without keys has a tile all the same, whose keys are all hidden."""
    q, k, v = random(7, 2, 64), random(5, 2, 64, seed=1), random(5, 2, 64, seed=2)
    documents = np.zeros(60, np.int32)
    starts = {"cu_seqlens_q": np.array([0, 4, 7], np.int32), "cu_seqlens_k": np.array([0, 0, 5], np.int32)}
    out, lse = attention(q, k, v, score=same_document, operands=[documents], return_lse=True, **starts)
    assert not out[:4].any()
    compare((out[None, 4:], lse[None, :, 4:]), expected(q[None, 4:], k[None], v[None]))


@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 200), st.floats(0, 1)), min_size=1, max_size=4),
    st.sampled_from([0, 0, 8, 16, 24, 64, 128, 256]), st.booleans(), st.sampled_from([None, 1, 2, 3]),
    st.none() | st.integers(0, 100),
)  # fmt: skip
def test_any_sequences(lengths, page, causal, splits, left):
    queries, keys, share = zip(*lengths, strict=True)
    used = [int(n * part) for n, part in zip(keys, share, strict=True)]
    check_sequences(list(queries), list(keys), used, page, causal=causal, splits=splits, window=(left, None))


@pytest.mark.parametrize(
    ("first", "lengths", "splits", "turned"),
    sample([(9, [4, 2], 3, False), (150, [3, 70], None, False), (0, [], None, False), (2, [0], 2, False),
            (0, [5], None, True)], 2),
)  # fmt: skip
def test_rows_of_no_sequence(first, lengths, splits, turned):
    """Those before the first sequence and behind the last one are left in a given array, and zeros in a new one."""
    starts = np.cumsum([first, *lengths])
    rows = starts[-1] + 3
    q, k, v = (random(rows, heads, 64) for heads in (2, 1, 1))
    out = np.full(q.shape[::-1], 7.0, q.dtype).T if turned else np.full_like(q, 7.0)
    outside = np.r_[0:first, starts[-1] : rows]
    for result, wanted in ((out, 7.0), (None, 0.0)):
        options = {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "splits": splits, "return_lse": True}
        found, lse = attention(q, k, v, result, **options)
        assert (found[outside] == wanted).all() and (lse[:, outside] == -np.inf).all()
        for a, b in zip(starts[:-1], starts[1:], strict=True):
            if b > a:
                own = (x[None, a:b] for x in (q, k, v))
                compare((found[None, a:b], lse[None, :, a:b]), expected(*own))


def test_pages_of_a_batch():
    q, k, v = random(2, 3, 4, 64), random(6, 32, 2, 64, seed=1), random(6, 32, 2, 64, seed=2)
    table, used = np.array([[3, 1, 0], [2, 5, 4]]), np.array([70, 96])
    found = attention(q, k, v, page_table=table, seqused_k=used, causal=True, return_lse=True)
    for i, n in enumerate(used):
        own = [x[table[i]].reshape(1, 96, 2, 64)[:, :n] for x in (k, v)]
        compare(tuple(x[i : i + 1] for x in found), expected(q[i : i + 1], *own, causal=True))


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
        ({"softcap": -1.0}, ["softcap=-1.0", "0 or more"]),
        ({"window": (True, 0)}, ["window=(True, 0)"]),
        ({"causal": "no"}, ["causal='no'", "True or False"]),
        ({"return_lse": 2}, ["return_lse=2"]),
        ({"splits": 0}, ["splits=0"]),
        ({"splits": True}, ["splits=True"]),
        ({"splits": 10**9}, ["1 to 1024"]),
        ({"score": 3}, ["score=3"]),
        ({"score": lambda s, key: s}, ["score: too many", "5 arguments: s, batch"]),
        ({"score": lambda s, b, h, i, j: s, "operands": [random(3)]}, ["6 arguments", "operand0"]),
        ({"score": lambda s, b, h, i, j: j <= i}, ["score returned a condition", "nv.where(condition"]),
        ({"score": lambda s, b, h, i, j: None}, ["score returned None"]),
        ({"operands": [random(3)]}, ["operands without score"]),
        ({"score": lambda s, b, h, i, j, x: s, "operands": random(3)}, ["operands is a ndarray", "operands=(x,)"]),
        ({"score": lambda s, b, h, i, j, x: s, "operands": ([1.0],)}, ["list among the operands"]),
        ({"bias": random(1, 3, 10, 20)}, ["(1, 3, 10, 20)", "(1, 2, 10, 20)"]),
        ({"cu_seqlens_q": np.array([0, 10])}, ["beside cu_seqlens_q"]),
        ({"q": random(10, 2, 64)} | {"cu_seqlens_q": np.array([0, 2**32])}, ["to 4294967296", "i32"]),
        ({"q": random(10, 2, 64)} | {"cu_seqlens_q": np.array([0, 11])}, ["from 0 to 11", "10 rows"]),
        ({"q": random(10, 2, 64)} | {"cu_seqlens_q": np.array([0, 7, 5])}, ["ascending"]),
        ({"q": random(10, 2, 64)} | {"cu_seqlens_q": np.array([0.0, 7.0])}, ["f64", "i32"]),
        ({"q": random(10, 2, 64)} | {"cu_seqlens_q": np.array([0, 5, 10])}, ["1 in k", "2 in cu_seqlens_q"]),
        ({"seqused_k": np.array([-1])}, ["seqused_k has entries from -1", "0 or more"]),
        ({"page_table": np.array([[1]])}, ["less than 1"]),
        ({"page_table": np.array([[-1]])}, ["page_table[0, :1] has entries below 0"]),
        ({"seqused_k": np.array([21])}, ["21 keys", "20 keys at most"]),
        ({"page_table": np.array([[0]])}, ["pages of 20 keys", "multiple of 8"]),
        ({"page_table": np.array([[0]]), "bias": random(1, 1, 10, 20)}, ["packed or paged"]),
    ],
)
def test_errors(changes, words):
    with pytest.raises(ArgumentError) as error:
        attention(**arguments(**changes))
    assert all(word in str(error.value) for word in words), error.value


def test_the_result_is_no_operand():
    q, k, v = heads(heads=1)
    with pytest.raises(ArgumentError, match="out and q overlap"):
        attention(q, k, v, q)


def test_what_a_search_tries():
    """Near the model's choice, and only what the kernel has."""
    config, _ = choose(
        128, 128, 1, 8192, 16, 16, 8192, bounded=True, packed=False, page=0, told=False, splits=None, sms=132
    )
    known = {"config": config, "scores": ScoreKind(), "table": None, "q_starts": None}
    tried = [dict(found["changes"]) for found, broken in tuned.SPACE.sift(known) if broken is None]
    assert {} in tried and {"tile_n": 96} in tried and {"pingpong": False} in tried and {"cluster": 2} not in tried
    tried = [dict(found["changes"]) for found, why in tuned.SPACE.sift(known | {"table": 1}) if why is None]
    assert {"blocks": 0, "queue": False} in tried and not any(changes.get("blocks") for changes in tried)
    known["config"], _ = chosen(1, 8192, 16, 16, 8192, bounded=True, itemsize=1)
    tried = [dict(found["changes"]) for found, broken in tuned.SPACE.sift(known) if broken is None]
    assert {"pingpong": True} in tried and {"q_columns": 0} in tried and {"k_stages": 4} in tried


def test_nothing_is_searched_without_a_gpu(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "no GPU")
    q, k, v = heads(heads=1)
    with pytest.warns(nv.TuneWarning):
        found = nv.attention.tune(q, k, v, np.empty_like(q), causal=True)
    assert found.config["changes"] == ()
    with pytest.raises(ArgumentError, match="nothing to tune"):
        nv.attention.tune(q, k, v, np.empty_like(q), splits=3)
