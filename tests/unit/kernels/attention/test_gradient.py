"""``nv.attention_backward`` in the simulator."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.errors import ArgumentError
from tests.exhaustive import sample
from tests.unit.kernels.backpropagating import Case, compare, expected, given_and_expected, inputs, seen, starts


def check(case, **options):
    arrays, gradients = given_and_expected(case, options.get("scale"))
    options |= {"softcap": case.softcap, "deterministic": case.ordered}
    found = nv.attention_backward(*arrays, window=case.window, target="sim", **options)
    compare(found, gradients, case.dtype)


@pytest.mark.parametrize(
    ("case", "options"),
    sample(
        [
            (Case(1, 1, dtype=np.float16), {}),
            (Case(70, 20, heads=4, kv_heads=2, window=(None, 0), dtype=np.float16), {"causal": True}),
            (Case(1, 150, size=96), {"scale": 0.3}),
            (Case(130, 1, size=8, value_size=72), {}),
            (Case(40, 140, heads=2, size=136, value_size=16, window=(5, 60)), {}),
            (Case(20, 30, size=64, batch=3, window=(0, 0)), {}),
            (Case(20, 30, heads=2, size=128, softcap=1.5, ordered=True), {}),
            (Case(190, 200, heads=4, kv_heads=2, size=64, window=(None, 0), ordered=True), {"causal": True}),
        ],
        3,
    ),
    ids=str,
)
def test_beside_numpy(case, options):
    check(case, **options)


@pytest.mark.parametrize(
    "case", [Case(0, 20), Case(20, 0), Case(5, 5, batch=0), Case(3, 4, heads=0, kv_heads=0)], ids=str
)
def test_nothing_to_do(case):
    dout, q, k, v = inputs(case)
    arrays = [dout, q, k, v, dout, np.zeros((case.batch, case.heads, case.rows), np.float32)]
    found = nv.attention_backward(*arrays, target="sim")
    assert [x.shape for x in found] == [x.shape for x in arrays[1:4]] and not any(x.any() for x in found)


@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 2), st.integers(0, 200), st.integers(0, 300), st.integers(1, 2), st.integers(1, 3),
    st.integers(1, 32), st.integers(1, 32), *[st.none() | st.integers(0, 300)] * 2,
    st.sampled_from([np.float16, ml_dtypes.bfloat16]),
)  # fmt: skip
def test_any_shape(batch, rows, keys, kv_heads, group, size, value_size, left, right, dtype):
    check(Case(rows, keys, kv_heads * group, kv_heads, 8 * size, 128, (left, right), batch, 8 * value_size, dtype))


def test_strides_and_given_results():
    case = Case(40, 50, dtype=np.float16)
    arrays, gradients = given_and_expected(case)
    turned = [np.ascontiguousarray(x.T).T for x in arrays]
    wide = [np.zeros((*x.shape[:3], 100), np.float16) for x in arrays[1:4]]
    into = dict(zip(("dq", "dk", "dv"), [x[..., 3:67] for x in wide], strict=True))
    found = nv.attention_backward(*turned, target="sim", **into)
    assert all(a is b for a, b in zip(found, into.values(), strict=True))
    compare(found, gradients, np.float16)
    assert not any(x[..., :3].any() or x[..., 67:].any() for x in wide)


def test_queries_that_see_nothing():
    """They get zeros, whatever is in their rows of dout."""
    case = Case(30, 20, window=(None, 0), dtype=np.float16)
    arrays, _ = given_and_expected(case)
    dq, dk, dv = nv.attention_backward(*arrays, causal=True, target="sim")
    assert not dq[0, :10].any() and dq[0, 11:].any() and all(np.isfinite(x).all() for x in (dk, dv))


def test_after_attention():
    """The contract between both: what attention returns is what its gradients take."""
    case = Case(40, 50, heads=2, window=(None, 0), dtype=np.float16)
    arrays, gradients = given_and_expected(case)
    out, lse = nv.attention(*arrays[1:4], causal=True, return_lse=True, target="sim")
    found = nv.attention_backward(*arrays[:4], out, lse, causal=True, target="sim")
    compare(found, gradients, np.float16)


def wrong(**changes):
    arrays, _ = given_and_expected(Case(8, 8, dtype=np.float16))
    named = dict(zip(("dout", "q", "k", "v", "out", "lse"), arrays, strict=True))
    return named | {name: change(named) for name, change in changes.items()}


def _zeros(named):
    return np.zeros((8, 8), np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dout": lambda a: a["dout"][:, :4]}, "dout has the shape"),
        ({"out": lambda a: a["out"].astype(np.float32)}, "of f32"),
        ({"lse": lambda a: a["lse"].transpose(0, 2, 1)}, "lse has the shape"),
        ({"dq": lambda a: a["q"]}, "dq"),
        ({"dk": lambda a: np.zeros((1, 8, 1, 64), np.float32)}, "dk is of f32"),
        ({"dv": lambda a: np.zeros((1, 9, 1, 64), np.float16)}, "dv has the shape"),
        ({"dv": lambda a: a["v"]}, "dv"),
        ({"softcap": lambda a: -1.0}, "softcap"),
        ({"seqused_k": lambda a: np.int32([8])}, "seqused_k.*\n.*no gradients"),
        ({"page_table": lambda a: np.int32([[0]])}, "page_table"),
        ({"dbias": lambda a: True}, "dbias without bias"),
        ({"bias": _zeros, "dbias": lambda a: True, "softcap": lambda a: 2.0}, "without a softcap"),
        (
            {"bias": lambda a: _zeros(a)[:1], "dbias": lambda a: True, "deterministic": lambda a: True},
            "add its gradient up yourself",
        ),
        ({"bias": _zeros, "dbias": lambda a: np.zeros((8, 8), np.float16)}, "dbias is of f16"),
        ({"bias": _zeros, "dbias": lambda a: np.zeros((1, 8), np.float32)}, "dbias has the shape"),
        ({"window": lambda a: (-1, 0)}, "window"),
        ({"q": lambda a: a["q"][0]}, "q is"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(ArgumentError, match=message):
        nv.attention_backward(**wrong(**changes), target="sim")


@pytest.mark.parametrize(("size", "window"), sample([(64, (None, 0)), (136, (20, 3)), (104, (None, None))], 1))
def test_packed_sequences(size, window):
    """Each sequence by itself, some without queries, without keys, or without both."""
    lengths = (5, 7), (0, 3), (70, 140), (9, 0), (0, 0), (1, 1)
    case = Case(0, 0, 2, 1, size, window=window, dtype=np.float16, packed=lengths)
    arrays, gradients = given_and_expected(case)
    q_starts, k_starts = starts(case)
    packed = (x[0] for x in arrays)
    found = nv.attention_backward(*packed, window=window, cu_seqlens_q=q_starts, cu_seqlens_k=k_starts, target="sim")
    compare(found, [x[0] for x in gradients], np.float16)


@pytest.mark.parametrize(("first", "lengths"), sample([(150, [3, 70]), (0, []), (2, [0])], 1))
def test_rows_of_no_sequence(first, lengths):
    """They are left in given arrays, and zeros in new ones."""
    starts = np.cumsum([first, *lengths], dtype=np.int32)
    case = Case(starts[-1] + 3, starts[-1] + 3, dtype=np.float16)
    (dout, q, k, v, *_), _ = given_and_expected(case)
    packed = {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "target": "sim"}
    arrays = [x[0] for x in (dout, q, k, v)]
    arrays += nv.attention(*arrays[1:], **packed, return_lse=True)
    given = [np.full_like(x, 7.0) for x in arrays[1:4]]
    nv.attention_backward(*arrays, **packed, **dict(zip(("dq", "dk", "dv"), given, strict=True)))
    inside = slice(first, starts[-1])
    for old, new in zip(given, nv.attention_backward(*arrays, **packed), strict=True):
        assert (old[inside] == new[inside]).all()
        old[inside] = new[inside] = 0.0
        assert (old[:first] == 7.0).all() and (old[starts[-1] :] == 7.0).all() and not new.any()


def biased(size, seed=1):
    """Arrays of a call with a bias for each head and query, and the gradients."""
    case = Case(30, 70, heads=2, kv_heads=1, size=size, dtype=np.float16)
    dout, q, k, v = inputs(case)
    bias = np.random.default_rng(seed).standard_normal((1, 2, 30, 70), np.float32)
    return case, (dout, q, k, v), bias


def given_scores(arrays, bias, softcap=0.0):
    """out, lse and the gradients where ``bias``, with -infinity for keys that are not seen, is added to the scores."""
    scale = 1 / math.sqrt(arrays[1].shape[3])
    out, lse, *gradients = expected(True, scale, *arrays, softcap, bias)
    return out.astype(arrays[1].dtype), lse.astype(np.float32), gradients


LEAST = float(np.finfo(np.float32).min)
BIASED = [(64, 0.0), (128, 0.0), (136, 0.0), (64, 2.0), (72, 2.0), (256, 2.0)]


@pytest.mark.parametrize(("size", "softcap"), sample(BIASED, 1))
def test_bias(size, softcap):
    """Where the least of all numbers hides all keys of a row, each weighs the same, and the row's logarithm does not
    tell how many they are."""
    case, arrays, bias = biased(size)
    bias[:, :, :9], bias[:, 1, :, 40:] = LEAST, LEAST
    out, lse, gradients = given_scores(arrays, bias, softcap)
    assert np.isfinite(lse).all()
    found = nv.attention_backward(*arrays, out, lse, bias=bias, softcap=softcap, target="sim")
    compare(found, gradients, case.dtype)


def of_bias(arrays, out, bias):
    """The bias's gradient, in f64."""
    dout, q, k, v = (x.astype(np.float64) for x in arrays)
    group = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, group, axis=2) for x in (k, v))
    s = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[3]) + bias
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    sums = (dout * out.astype(np.float64)).sum(-1).transpose(0, 2, 1)[..., None]
    ds = p * (np.einsum("bihd,bjhd->bhij", dout, v) - sums)
    axes = tuple(i for i, n in enumerate((1,) * (4 - bias.ndim) + bias.shape) if n == 1)
    return ds.sum(axes, keepdims=True).reshape(bias.shape)


@pytest.mark.parametrize(
    ("size", "shape", "ordered"),
    sample([(64, (2, 1, 1, 70), False), (136, (1, 2, 30, 70), False), (64, (2, 2, 30, 70), True)], 1),
)
def test_the_gradient_of_a_bias(size, shape, ordered):
    arrays = inputs(Case(30, 70, heads=2, kv_heads=1, size=size, batch=2, dtype=np.float16))
    bias = np.random.default_rng(1).standard_normal(shape, np.float32)
    out, lse, gradients = given_scores(arrays, bias)
    given = np.full(shape, np.nan, np.float32)
    options = {"bias": bias, "dbias": given, "deterministic": ordered, "target": "sim"}
    *found, dbias = nv.attention_backward(*arrays, out, lse, **options)
    compare(found, gradients, np.float16)
    expected = of_bias(arrays, out, bias)
    assert dbias is given and np.linalg.norm(given - expected) < 1e-5 * np.linalg.norm(expected)


def slopes(s, batch, head, query, key):
    return s - nv.f32(head + 1) * 0.01 * nv.f32(nv.abs(query + 40 - key))


def documents(s, batch, head, query, key, document):
    return nv.where(document[query + 40] == document[key], s, -math.inf)


def branches(s, batch, head, query, key):
    if query > 10:
        s = s + 0.5
    return s if key > 3 else -math.inf


@pytest.mark.parametrize("score", sample([slopes, documents, branches], 1))
def test_functions_of_scores(score):
    """In a window of two bounds."""
    case, arrays, _ = biased(64)
    head, query, key = np.indices((2, 30, 70))
    window = 30, 3
    document = np.repeat(np.int32([0, 1]), [45, 25])
    bias = {
        slopes: -(head + 1) * 0.01 * abs(query + 40 - key),
        documents: np.where(document[query + 40] == document[key], 0, -np.inf),
        branches: np.where(key > 3, 0.5 * (query > 10), -np.inf),
    }[score]
    out, lse, gradients = given_scores(arrays, np.where(seen(30, 70, window), bias, -np.inf))
    operands = [document] if score is documents else []
    found = nv.attention_backward(*arrays, out, lse, score=score, operands=operands, window=window, target="sim")
    compare(found, gradients, case.dtype)


@pytest.mark.parametrize(
    "score",
    [
        lambda s, batch, head, query, key: s * 2.0,
        lambda s, batch, head, query, key: nv.math.tanh_approx(s),
        lambda s, batch, head, query, key: nv.where(s > 0.0, s, -math.inf),
        lambda s, batch, head, query, key: nv.where(key > 3, s, -1e9),
        lambda s, batch, head, query, key: 1.0 - s,
    ],
)
def test_other_functions_of_scores_are_refused(score):
    _, arrays, bias = biased(64)
    with pytest.raises(ArgumentError, match="a function of scores has gradients where it returns the score"):
        nv.attention_backward(*arrays, *given_scores(arrays, bias)[:2], score=score, target="sim")
