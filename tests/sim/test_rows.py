"""The kernels over rows, in the simulator: lengths, types, special values, schedules."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.rows import argument, beside, choose
from nvdsl.kernels.rows.config import RowsConfig, shared_by
from nvdsl.kernels.rows.cross_entropy_kernels import cross_entropy
from nvdsl.kernels.rows.norm_kernels import norm
from nvdsl.kernels.rows.softmax_kernels import softmax
from tests.exhaustive import sample
from tests.sim.programs import layer_norm_of, softmax_of
from tests.sim.rows import TOLERANCE, check, close
from tests.sim.simulate import SCHEDULES, traced

SHAPES = [(1,), (3, 1), (17, 8), (5, 64), (2, 3, 100), (4, 777), (3, 1024), (2, 2056), (2, 5000), (2, 9000),
          (1, 20_000)]  # fmt: skip
CASES = [(shape, dtype) for shape in SHAPES for dtype in TOLERANCE]


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


@pytest.mark.parametrize(("shape", "dtype"), sample(CASES, 5))
def test_rows_of_any_length(shape, dtype):
    check(shape, dtype, parameters=np.float32 if sum(shape) % 2 else dtype)


@pytest.mark.parametrize(
    ("shape", "dtype", "room"),
    sample([((5, 777), np.float16, 96_000), ((3, 514), np.float32, 96_000), ((5, 779), ml_dtypes.bfloat16, 13_000),
            ((5, 781), np.float16, 13_000), ((5, 781), np.float16, 7_000), ((3, 1024), np.float16, 96_000)], 3),
)  # fmt: skip
def test_weights_that_are_copied_for_rows_that_begin_anywhere(shape, dtype, room, monkeypatch):
    monkeypatch.setattr(argument, "_MANY", 1)
    monkeypatch.setattr(argument, "_MANY_WIDE", 1)
    monkeypatch.setattr(choose, "_LATER_BYTES", 2000)  # so that L2 is asked for some of these few rows
    monkeypatch.setattr(beside, "_SHARED_BY_BLOCKS", room)  # of L1: for copies read by 8 or 4 bytes
    check(shape, dtype, parameters=np.float32 if dtype is np.float16 else dtype)


@pytest.mark.parametrize("pad", [1, 4])
def test_rows_that_lie_apart(pad):
    check((5, 96), np.float16, pad=pad)


APART = [(softmax, 777, 778, 1), (norm, 777, 784, 2), (cross_entropy, 784, 777, 2), (cross_entropy, 779, 777, 1),
         (softmax, 1802, 1801, 1), (norm, 1803, 1801, 1)]  # fmt: skip


def _program(function, x, y, values, label, config):
    """Of softmax, LayerNorm, or cross entropy's gradient, from ``x`` to ``y``; and what is expected of ``values``."""
    rows, cols = values.shape
    expected = softmax_of(values)
    if function is softmax:
        return traced(function, x, y, config=config), expected
    if function is norm:
        weight = np.random.default_rng(cols).standard_normal(cols).astype(np.float32)
        program = traced(function, x, y, weight, *[None] * 6, 1e-5, centered=True, config=config)
        return program, layer_norm_of(values, weight, np.float64(0))
    given = x, label, np.zeros(rows, np.float32), None, None, y, -100, 0.0, 0.0
    program = traced(function, *given, smooth=False, mean=False, config=config)
    return program, np.where(label[:, None] < 0, 0, expected - (label[:, None] == np.arange(cols)))


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize(("function", "read", "written", "cluster"), sample(APART, 1))
def test_rows_that_are_written_elsewhere_behind_16_bytes_than_they_are_read(function, read, written, cluster, level):
    cols, rows, label = 777 if read < 1000 else 1801, 9, np.array([0, 776, 5, -100, 384, 400, 7, 8, 9])
    rng = np.random.default_rng(read)
    x = np.full((rows, read), np.nan, np.float16)[:, :cols]
    x[...] = rng.standard_normal(x.shape)
    memory = np.full((rows, written), np.nan, np.float16)
    y = memory[:, :cols]
    made = RowsConfig(8, 64 // cluster, cluster, 0, 0, "shared", alone=True, frame=8, grain=1, apart=True)
    config = shared_by(cols, made)
    program, expected = _program(function, x, y, x, label, config)
    for options in SCHEDULES[::45]:
        memory.fill(np.nan)
        program.run(dataclasses.replace(options, level=level))
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=2e-3, atol=2e-3)
        assert np.isnan(memory[:, cols:]).all()


WARPS = [(softmax, 510, 2), (norm, 511, 1), (cross_entropy, 509, 1), (softmax, 505, 1), (norm, 300, 2),
         (cross_entropy, 300, 4)]  # fmt: skip


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize(("function", "cols", "grain"), sample(WARPS, 1))
def test_rows_of_a_warp_that_begin_anywhere_are_replaced_by_results(function, cols, grain, level):
    """Each reads its neighbours' elements, too, while they are written: rows that fill all accesses are wrapped."""
    rows, label = 9, np.array([0, cols - 1, 5, -100, cols - 2, 255, 256, 8, cols - 1])
    rng, wrapped = np.random.default_rng(cols), cols > 500
    memory = np.full(rows * cols + 16, np.nan, np.float16)
    x = memory[: rows * cols].reshape(rows, cols)
    start = rng.standard_normal(x.shape).astype(np.float16)
    config = shared_by(cols, RowsConfig(8, 32, 1, 0, 0, alone=True, frame=8, grain=grain, wrapped=wrapped))
    program, expected = _program(function, x, x, start, label, config)
    for options in SCHEDULES[::45]:
        x[...] = start
        program.run(dataclasses.replace(options, level=level))
        np.testing.assert_allclose(x.astype(np.float64), expected, rtol=2e-3, atol=2e-3)
        assert np.isnan(memory[rows * cols :]).all()


def test_special_values():
    x = np.zeros((6, 70), np.float32)
    x[0], x[1, 3], x[2, 60], x[3, 5:] = -np.inf, np.inf, np.nan, -np.inf
    x[4], x[5] = 3e38, 1e-30
    found = nv.softmax(x)
    assert np.isnan(found[:3]).all()
    np.testing.assert_array_equal(found[3], np.array([0.2] * 5 + [0.0] * 65, np.float32))
    np.testing.assert_allclose(found[4:], 1 / 70, rtol=1e-6)
    constant = nv.layer_norm(np.full((2, 300), 12_345.678, np.float32))
    assert (np.abs(constant) < 1).all()  # epsilon is all that there is to divide by
    assert (nv.rms_norm(np.zeros((2, 40), np.float16)) == 0).all()
    assert nv.softmax(np.zeros((0, 7), np.float32)).shape == (0, 7)


@pytest.mark.parametrize(("cols", "of_block"), [(70, 65_536), (1000, 1024)])
def test_exponentials_of_two_bytes_far_from_zero(cols, of_block, monkeypatch):
    """One multiply-add makes them; what its product's rounding leaves is taken off logarithms."""
    monkeypatch.setattr(choose, "_BLOCK_BYTES", of_block)  # a cluster shares a longer row
    lowest = ml_dtypes.finfo(ml_dtypes.bfloat16).min
    x = np.full((3, cols), lowest, ml_dtypes.bfloat16)
    x[1, 7:], x[2] = 3e38, 1e20
    np.testing.assert_allclose(nv.softmax(x)[[0, 2]].astype(float), 1 / cols, rtol=4e-3)
    np.testing.assert_allclose(nv.softmax(x)[1, 7:].astype(float), 1 / (cols - 7), rtol=4e-3)
    assert not nv.softmax(x)[1, :7].any()
    x = np.full((2, cols), 60_000, np.float16)
    x[1, ::3] = -np.inf
    expected = -np.log(np.isfinite(x).sum(1))
    found = nv.log_softmax(x, np.empty(x.shape, np.float32))
    np.testing.assert_allclose(found.max(1), expected, rtol=1e-6)


def test_one_kernel_serves_many_numbers_of_rows_and_columns(monkeypatch):
    made, make = [], softmax._make
    monkeypatch.setattr(softmax, "_make", lambda *args: made.append(args) or make(*args))
    for rows, cols in ((3, 872), (40, 872), (7, 952), (1, 968), (2, 776)):
        x = np.random.default_rng(cols).standard_normal((rows, cols)).astype(np.float16)
        close(nv.softmax(x), softmax_of(x), np.float16)
    assert len(made) == 1


CONFIGS = [
    RowsConfig(4, 8, 1, 2, 1),
    RowsConfig(2, 128, 1, 1, 0),
    RowsConfig(1, 64, 1, 2, 1),
    RowsConfig(2, 128, 2, 1, 0),
    RowsConfig(4, 16, 1, 2, 0, "memory"),
    RowsConfig(4, 8, 1, 2, 0, "shared"),
    RowsConfig(4, 64, 1, 2, 1, "shared", later=1),
    RowsConfig(4, 128, 2, 2, 0, "shared", arrivals=2, later=1000),
]


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("config", sample(CONFIGS, 4), ids=str)
def test_under_all_schedules(config, level):
    cols = config.full * config.width + (12 if config.cluster == 1 else 76)
    rng = np.random.default_rng(cols)
    x, weight, bias = (rng.standard_normal(s).astype(np.float32) for s in ((7, cols), cols, cols))
    y = np.full_like(x, np.nan)
    program = traced(norm, x, y, weight, bias, *[None] * 5, 1e-5, centered=True, config=config)
    for options in SCHEDULES[::9]:
        y.fill(np.nan)
        program.run(dataclasses.replace(options, level=level))
        np.testing.assert_allclose(y, layer_norm_of(x, weight, bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("cols", [76, 2048])
def test_a_cluster_merges_the_moments_of_its_warps(cols, level):
    """Of 16 bits: some warps have no elements, and rows may be far from zero, constant, not finite, or far from what
    their warps read first."""
    config = RowsConfig(4, 128, 2, 2, 2 if cols == 2048 else 0, "shared")
    rng = np.random.default_rng(cols)
    x = (rng.standard_normal((6, cols)) + np.array([[0], [1000], [-3000], [0], [0], [0]])).astype(np.float16)
    x[0, :64], x[3], x[5, -1] = 2000, 1000, np.inf
    y, mean, rstd = np.zeros((6, cols), np.float32), np.zeros(6, np.float32), np.zeros(6, np.float32)
    arrays = x, y, None, None, None, None, mean, rstd, None
    program = traced(norm, *arrays, 1e-5, centered=True, config=config)
    for options in SCHEDULES[::45]:
        y.fill(0)
        program.run(dataclasses.replace(options, level=level))
        wide = x[:5].astype(np.float64)
        np.testing.assert_allclose(y[:3], layer_norm_of(wide[:3], np.float64(1), np.float64(0)), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(mean[:5], wide.mean(-1), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rstd[:5], (wide.var(-1) + 1e-5) ** -0.5, rtol=1e-5)
        assert not y[3].any() and np.isnan(y[5]).all()
