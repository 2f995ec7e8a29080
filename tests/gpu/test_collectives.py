"""The collectives of warps, warpgroups, blocks and clusters on the device, and programs made of them."""

import ml_dtypes
import numpy as np

from nvdsl.testing import in_child
from tests.sim import group_kernels as kernels
from tests.sim.group_kernels import CASES, EXPECTED, numbers
from tests.sim.programs import layer_norm_of, load, softmax_of

TOLERANCE = {np.float32: 1e-5, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}
SHAPES = (
    ((3, 1), {}),
    ((9, 50), {"lanes": 8}),
    ((1000, 1000), {}),
    ((133, 777), {"lanes": 128}),
    ((20, 100_000), {"lanes": 256}),
    ((5, 4099), {"threads": 1024, "lanes": 1024}),
)


def call(function, *arrays, **constants):
    function(*arrays, **constants)


@in_child(timeout=280)
def test_every_collective_of_every_group():
    for case in CASES:
        kernels.check(call, *case)


@in_child(timeout=60)
def test_any_number_of_uses():
    """100 times each: what is not ordered shows on some of them."""
    x = numbers("f32", 256)
    for kernel in (kernels.rounds, kernels.rounds_of_parts, kernels.rounds_of_a_cluster):
        expected = EXPECTED[kernel.__name__](x)
        for _ in range(100):
            out = np.full_like(x, np.nan)
            kernel(x, out)
            np.testing.assert_array_equal(out, expected)


@in_child(timeout=60)
def test_the_same_bits_each_time_and_in_all_threads():
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    for group, block, cluster in (("block", 1024, 1), ("cluster", 128, 8)):
        found = set()
        for _ in range(20):
            out = np.full_like(x, np.nan)
            kernels.each(x, out, group=group, do=lambda g, v: g.sum(v), block=block, cluster=cluster)
            found |= {*out.view(np.uint32).tolist()}
        assert len(found) == 1


@in_child(timeout=60)
def test_an_operation_that_does_not_commute():
    count = 1280
    rng = np.random.default_rng(0)
    a, b = (2 * rng.integers(0, 5, count) + 1).astype(np.uint32), rng.integers(0, 99, count).astype(np.uint32)
    outs = [np.zeros(count, np.uint32) for _ in range(6)]
    kernels.composed(a, b, *outs, group="cluster", block=320, cluster=4)
    p = q = None
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        p, q = (x, y) if p is None else (p * x % 2**32, (q * x + y) % 2**32)
        assert (outs[0][i], outs[1][i]) == (p, q)
    assert (outs[2] == p).all() and (outs[3] == q).all()


@in_child(timeout=120)
def test_softmax_of_rows():
    softmax = load("chapters/ch11_row_softmax.py").softmax
    for dtype, tolerance in TOLERANCE.items():
        for shape, options in SHAPES:
            _check_softmax(softmax, shape, dtype, tolerance, **options)


@in_child(timeout=120)
def test_softmax_of_rows_that_a_cluster_shares():
    softmax = load("tests/programs/cluster_softmax.py").cluster_softmax
    for dtype, tolerance in TOLERANCE.items():
        for shape, options in (((7, 20_000), {}), ((3, 99), {"cluster": 8}), ((300, 4096), {"cluster": 2})):
            _check_softmax(softmax, shape, dtype, tolerance, **options)


def _check_softmax(softmax, shape, dtype, tolerance, **options):
    x = (10 * np.random.default_rng(shape).standard_normal(shape)).astype(dtype)
    y = np.full_like(x, np.nan)
    softmax(x, y, **options)
    np.testing.assert_allclose(y.astype(np.float64), softmax_of(x), rtol=tolerance, atol=1e-7)


@in_child(timeout=120)
def test_layer_norm():
    layer_norm = load("tests/programs/layer_norm.py").layer_norm
    for dtype, tolerance in TOLERANCE.items():
        for rows, cols in ((3, 77), (1000, 1024), (40, 4104), (2, 9000)):
            rng = np.random.default_rng(cols)
            x = ((1e4 if dtype is np.float32 else 30) + rng.standard_normal((rows, cols))).astype(dtype)
            weight, bias = (rng.standard_normal(cols).astype(dtype) for _ in range(2))
            y = np.full_like(x, np.nan)
            layer_norm(x, weight, bias, y)
            expected = layer_norm_of(x, weight, bias)
            np.testing.assert_allclose(y.astype(np.float64), expected, rtol=3 * tolerance, atol=3 * tolerance)
