"""Attention's gradients on the device: what the simulator runs, and larger; the same bits where they are promised."""

import numpy as np

import nvdsl as nv
from nvdsl.testing import in_child
from tests.unit.kernels.attention import test_gradient as public
from tests.unit.kernels.backpropagating import CASES, Case, check, compare, inputs

LARGE = (
    *(Case(1000, 1000, 4, 4, size=d, tile_m=m, window=(None, r)) for d, m in ((64, 128), (128, 64)) for r in (None, 0)),
    Case(1000, 777, 2, 1, size=256, tile_m=0, window=(None, 0)),
    Case(2048, 2048, 8, 2, size=128, tile_m=64, window=(None, 0), dtype=np.float16),
    Case(600, 1500, 2, 2, size=64, tile_m=64, window=(300, 100), softcap=5.0, ordered=True),
    Case(1, 3000, 4, 1, size=96, tile_m=64),
    Case(3000, 1, 2, 1, size=64, tile_m=128, batch=2),
)


def call(function, *arrays, **constants):
    function(*arrays, **constants)


@in_child(timeout=280)
def test_the_simulators_cases():
    for case in CASES:
        check(call, case)


@in_child(timeout=280)
def test_larger_cases():
    for case in LARGE:
        check(call, case)


@in_child(timeout=120)
def test_the_same_bits_each_time():
    """dK and dV always; dQ where its sums have an order."""
    arrays, _ = public.given_and_expected(Case(1024, 1024, 4, 4, size=128, window=(None, 0)))
    found = {bits_of(nv.attention_backward(*arrays, causal=True, deterministic=True)) for _ in range(10)}
    assert len(found) == 1
    found = {bits_of(nv.attention_backward(*arrays, causal=True)[1:]) for _ in range(10)}
    assert len(found) == 1


@in_child(timeout=120)
def test_biases_and_functions_of_scores():
    for size in (64, 128, 192, 256):
        case, arrays, bias = public.biased(size)
        out, lse, gradients = public.given_scores(arrays, bias)
        compare(nv.attention_backward(*arrays, out, lse, bias=bias), gradients, case.dtype)
        head, query, key = np.indices((2, 30, 70))
        out, lse, gradients = public.given_scores(arrays, -(head + 1) * 0.01 * abs(query + 40 - key))
        compare(nv.attention_backward(*arrays, out, lse, score=public.slopes), gradients, case.dtype)


@in_child(timeout=120)
def test_the_gradient_of_a_bias():
    for size, shape in ((64, (1, 2, 300, 500)), (128, (2, 1, 1, 500)), (256, (2, 2, 300, 500))):
        arrays = inputs(Case(300, 500, heads=2, kv_heads=1, size=size, batch=2, dtype=np.float16))
        bias = np.random.default_rng(1).standard_normal(shape, np.float32)
        out, lse, gradients = public.given_scores(arrays, bias)
        *found, dbias = nv.attention_backward(*arrays, out, lse, bias=bias, dbias=True)
        compare(found, gradients, np.float16)
        expected = public.of_bias(arrays, out, bias)
        assert np.linalg.norm(dbias - expected) < 1e-3 * np.linalg.norm(expected), (size, shape)


def bits_of(arrays):
    return b"".join(x.tobytes() for x in arrays)
