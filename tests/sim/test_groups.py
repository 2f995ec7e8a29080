"""nv.warp, nv.warpgroup, nv.block and nv.cluster: the numbers of every collective, of every type and size."""

import dataclasses

import numpy as np
import pytest

from nvdsl import sim
from tests.exhaustive import sample
from tests.sim import group_kernels as kernels
from tests.sim.group_kernels import CASES, each, numbers
from tests.sim.simulate import SCHEDULES, run, traced, verdict


@pytest.mark.parametrize(("group", "operation", "dtype"), sample(CASES, 16))
def test_numbers(group, operation, dtype):
    kernels.check(run, group, operation, dtype)


def _scanned(a, b):
    """The compositions of x -> a x + b from the first on, in 32 bits."""
    composed = [(int(a[0]), int(b[0]))]
    for p, q in zip(a[1:].tolist(), b[1:].tolist(), strict=True):
        composed.append((composed[-1][0] * p, composed[-1][1] * p + q))
    return np.array([[x % 2**32 for x in pair] for pair in composed], np.uint32).T


@pytest.mark.parametrize(("group", "block", "cluster"), [("warp", 32, 1), ("block", 96, 1), ("block", 320, 1),
                                                         ("cluster", 96, 3), ("cluster", 320, 4)])  # fmt: skip
def test_an_operation_that_does_not_commute_is_done_in_the_order_of_the_threads(group, block, cluster):
    count = block * cluster
    rng = np.random.default_rng(0)
    a, b = (2 * rng.integers(0, 5, count) + 1).astype(np.uint32), rng.integers(0, 99, count).astype(np.uint32)
    outs = [np.zeros(count, np.uint32) for _ in range(6)]
    run(kernels.composed, a, b, *outs, group=group, block=block, cluster=cluster)
    want_a, want_b = _scanned(a, b)
    np.testing.assert_array_equal(outs[0], want_a)
    np.testing.assert_array_equal(outs[1], want_b)
    assert set(zip(*(out.tolist() for out in outs[2:4]), strict=True)) == {(want_a[-1], want_b[-1])}
    np.testing.assert_array_equal(outs[4][1:], want_a[:-1] * np.uint32(3))
    np.testing.assert_array_equal(outs[5][1:], want_b[:-1] + want_a[:-1] * 7)
    assert (outs[4][0], outs[5][0]) == (3, 7)


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
@pytest.mark.parametrize("group", ["warp", "block"])
def test_numbers_win_over_nan_and_of_equal_ones_the_first_does(group, dtype):
    block = 32 if group == "warp" else 96
    x = np.zeros((5, block), numbers(dtype, 1).dtype)
    x[1] = np.nan
    x[2, ::2], x[2, 7::9] = np.nan, 4
    x[3] = np.arange(block) % 5
    x[4, 3], x[4, 4] = -0.0, np.inf
    x[4, 9] = np.inf
    value, index = np.zeros_like(x).reshape(-1), np.zeros(x.size, np.int32)

    def best(group, x):
        (value, _), index = group.argmax((x, 7)), group.argmax(x)
        return value, index

    run(each, x.reshape(-1), value, index, group=group, do=best, block=block)
    np.testing.assert_array_equal(value.reshape(x.shape)[:, 1], [0, np.nan, 4, 4, np.inf])
    np.testing.assert_array_equal(index.reshape(x.shape)[:, 1], [0, 0, 7, 4, 4])


def test_mean_and_variance_by_an_operation_of_three_values():
    x = (1e4 + np.random.default_rng(0).standard_normal(352)).astype(np.float32)
    mean, variance = np.zeros_like(x), np.zeros_like(x)

    def merged(a, b):
        count = a[0] + b[0]
        delta = b[1] - a[1]
        return count, a[1] + delta * (b[0] / count), a[2] + b[2] + delta * delta * (a[0] * b[0] / count)

    def moments(group, x):
        count, mean, squares = group.reduce((x * 0.0 + 1.0, x, x * 0.0), merged)
        return mean, squares / count

    run(each, x, mean, variance, group="block", do=moments, block=352)
    exact = x.astype(np.float64)
    assert len(set(mean.tolist())) == len(set(variance.tolist())) == 1
    np.testing.assert_allclose(mean, exact.mean(), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var(), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["f16", "f32", "i8", "f64"])
def test_vectors_are_combined_element_by_element(dtype):
    x = numbers(dtype, 64 * 2)
    outs = [np.zeros_like(x) for _ in range(3)]
    run(kernels.vectors, x, *outs)
    each_thread = x.reshape(64, 2)
    np.testing.assert_array_equal(outs[0].reshape(64, 2), np.tile(each_thread.sum(0, dtype=x.dtype), (64, 1)))
    highest = each_thread.reshape(16, 4, 2).max(1, keepdims=True)
    np.testing.assert_array_equal(outs[1].reshape(16, 4, 2), highest.repeat(4, 1))
    np.testing.assert_array_equal(outs[2].reshape(64, 2), each_thread.cumsum(0).astype(x.dtype))


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("kernel", [kernels.rounds, kernels.rounds_of_parts, kernels.rounds_of_a_cluster])
def test_any_number_of_uses_in_any_order_of_the_warps(kernel, level):
    x = numbers("f32", 256)
    out = np.zeros_like(x)
    program = traced(kernel, x, out)
    for options in SCHEDULES[::9]:
        out.fill(np.nan)
        program.run(dataclasses.replace(options, level=level))
        np.testing.assert_array_equal(out, kernels.EXPECTED[kernel.__name__](x))


def kind(kernel, *arrays, **constants):
    """The kinds of reports, over some schedules."""
    found = {getattr(verdict(kernel, *arrays, options=options, **constants), "kind", None) for options in SCHEDULES[:4]}
    return found


@pytest.mark.parametrize("group", ["warp", "block", "warpgroup", "cluster"])
def test_a_call_that_a_part_of_the_threads_reaches_is_reported(group):
    x, n = numbers("f32", 512), np.array([16], np.int32)
    assert kind(kernels.divided, x, n, group=group) <= {"divergent-collective", "divergent-barrier", "deadlock"}
    assert kind(kernels.divided, x, np.array([256], np.int32), group=group) == {None}


def test_a_mask_that_leaves_lanes_out_is_reported():
    x, n = numbers("f32", 512), np.array([16], np.int32)
    assert kind(kernels.divided, x, n, group="warp", where=(("width", 8), ("mask", 0xFFFF))) == {None}
    found = kind(kernels.divided, x, n, group="warp", where=(("width", 8), ("mask", 0xFF)))
    assert found == {"divergent-collective"}
