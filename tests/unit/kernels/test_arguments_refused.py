"""Options of finished kernels that are none are refused at the caller's line, and nothing is cut to fit."""

import functools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError, NvdslError

X = np.ones((4, 64), np.float32)
LABELS = np.array([0, 1, 2, 2])
A, B = np.ones((8, 64), np.float16), np.ones((64, 64), np.float16)
Q = np.ones((1, 8, 2, 64), np.float16)
EACH = np.ones(4, np.float32)
GATES = [np.ones((64, 8), np.float16), np.ones((64, 16), np.float16)]


def _weight():
    return nv.QuantizedWeight.quantize(B)


REFUSED = {
    "a label with a fraction": (lambda: nv.cross_entropy(X, LABELS, ignore_index=2.5), "ignore_index=2.5"),
    "a label as a string": (lambda: nv.cross_entropy(X, LABELS, ignore_index="2"), "ignore_index='2'"),
    "a label beyond 64 bits": (lambda: nv.cross_entropy(X, LABELS, ignore_index=2**63), "64 bits"),
    "an infinite label": (lambda: nv.cross_entropy(X, LABELS, ignore_index=np.inf), "ignore_index=inf"),
    "a complex smoothing": (lambda: nv.cross_entropy(X, LABELS, label_smoothing=np.complex64(0)), "label_smoothing"),
    "a loss factor as a string": (lambda: nv.cross_entropy(X, LABELS, z_loss="1"), "z_loss='1'"),
    "an array as reduction": (lambda: nv.cross_entropy(X, LABELS, reduction=np.array([])), "mean, sum, none"),
    "an activation of nothing": (lambda: nv.matmul(A, B, activation=lambda: 1), "1 argument: x"),
    "an activation of two": (lambda: nv.matmul(A, B, activation=lambda x, y: x), "1 argument: x"),
    "an activation of two, of layers": (lambda: nv.mlp(A, [B], activation=lambda x, y: x), "1 argument: x"),
    "an activation of two, of packed weights": (
        lambda: nv.quantized_matmul(A, _weight(), activation=lambda x, y: x), "1 argument: x",
    ),
    "a type as a function of scores": (lambda: nv.attention(Q, Q, Q, score=nv.f16), "5 arguments: s, batch"),
    "a target that is a list": (lambda: nv.attention(Q, Q, Q, target=[]), "target=\\[\\]"),
    "a target of layers that is a list": (lambda: nv.mlp(A, [B], target=[]), "target=\\[\\]"),
    "an activation without a result": (
        lambda: nv.quantized_matmul(A, _weight(), activation=lambda x: None), "returned None",
    ),
    "an activation of layers without a result": (lambda: nv.mlp(A, [B], activation=lambda x: None), "returned None"),
    "a class of Python's": (lambda: nv.matmul(A, B, activation=int), "int\\(\\) of a traced value"),
    "a function of NumPy's": (lambda: nv.matmul(A, B, activation=np.tanh), "np.tanh of a traced value"),
    "a score of Python's": (lambda: nv.attention(Q, Q, Q, score=int), "score: int"),
    "an array as switch": (lambda: nv.attention(Q, Q, Q, causal=np.array([])), "causal is True or False"),
    "an array as another switch": (lambda: nv.attention(Q, Q, Q, return_lse=np.array([])), "return_lse is True"),
    "a list as configuration": (lambda: nv.quantized_matmul(A, _weight(), config=[]), "config=\\[\\]"),
    "a switch of words": (lambda: nv.QuantizedWeight.quantize(B, symmetric="no"), "symmetric is True or False"),
    "a group beyond memory": (lambda: nv.QuantizedWeight.quantize(B, group=2**40), "a group is 32"),
    "scales of integers": (lambda: nv.QuantizedWeight.quantize(B, dtype=int), "scales are f16, bf16 or f32"),
    "scales of no type": (lambda: nv.QuantizedWeight.quantize(B, dtype=2.5), "dtype=2.5"),
    "masked weights": (lambda: nv.QuantizedWeight.quantize(np.ma.masked_array(B, mask=True)), "masked array"),
    "no rstd": (lambda: nv.rms_norm_backward(X, X, None), "rstd is a NoneType"),
    "no mean": (lambda: nv.layer_norm_backward(X, X, None, EACH), "mean is a NoneType"),
    "False as a weight": (lambda: nv.layer_norm(X, False, mean=True), "weight is a bool"),
    "one number as weights": (lambda: nv.lstm(np.ones((3, 2, 8), np.float16), np.array(1.0)), "weights is a ndarray"),
    "a nonlinearity of NumPy's": (
        lambda: nv.rnn(np.ones((3, 2, 8), np.float16), GATES, nonlinearity=np.array([])), "tanh, relu",
    ),
    "a seed with a fraction": (lambda: nv.dropout(X, 0.5, 1.5), "seed=1.5"),
    "True as a probability": (lambda: nv.dropout(X, True, 1), "p=True"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_the_callers_line(name):
    call, words = REFUSED[name]
    with pytest.raises(NvdslError, match=words) as caught:
        call()
    assert caught.value.where is not None and caught.value.where.file == __file__
    assert caught.value.rule


def test_order_of_calls_decides_nothing():
    """A gradient without means, kept of a call of the other norm, is not launched again."""
    nv.rms_norm_backward(X, X, EACH, dbias=True)
    with pytest.raises(ArgumentError, match="mean is a NoneType"):
        nv.layer_norm_backward(X, X, None, EACH)


@pytest.mark.parametrize("seed", [7, np.int64(7), np.uint8(7)])
def test_integers_of_numpy(seed):
    np.testing.assert_array_equal(nv.dropout(X, np.float32(0.5), seed), nv.dropout(X, 0.5, 7))


def test_activation_with_a_default():
    """One that can be called with one number is called so."""
    scaled = functools.partial(lambda x, by: x * by, by=2.0)
    np.testing.assert_array_equal(nv.matmul(A, B, activation=lambda x, by=2.0: x * by), 2 * (A @ B))
    np.testing.assert_array_equal(nv.mlp(A / 64, [B], activation=None, output_activation=scaled), 2 * (A / 64 @ B))


def test_activation_that_is_a_type():
    rounded = nv.mlp(A, [B], activation=None, output_activation=nv.i32)
    assert (rounded == 64).all()
