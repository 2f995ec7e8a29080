"""Options of the norms, and the gradients of all functions over rows, in the simulator."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.rows import choose_persistent, cross_entropy_kernels, norm_kernels
from nvdsl.kernels.rows.config import RowsConfig, shared_by
from nvdsl.kernels.rows.norm_backward_kernels import norm_backward
from tests.exhaustive import exhaustive, sample
from tests.sim import row_references as reference
from tests.sim.rows import TOLERANCE
from tests.sim.simulate import SCHEDULES, traced

SHAPES = [(2, 3, 100), (1,), (3, 1), (17, 8), (5, 777), (2, 2056), (1, 9000)]
CASES = [(shape, dtype) for shape in SHAPES for dtype in TOLERANCE]


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


def close(found, expected, dtype, scale=1.0):
    """``scale``: of the numbers that were added up."""
    tolerance = 4 * TOLERANCE[dtype]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance * scale)


def some(shape, *dtypes):
    rng = np.random.default_rng(shape)
    return [rng.standard_normal(shape).astype(dtype) for dtype in dtypes]


@pytest.mark.parametrize(("shape", "dtype"), sample(CASES, 2))
@pytest.mark.parametrize("centered", [True, False])
def test_residual_statistics_and_mixed_types(shape, dtype, centered):
    x, residual = some(shape, dtype, np.float32)
    weight, bias = some(shape[-1:], np.float16, np.float32)
    if centered:
        found = nv.layer_norm(x, weight, bias, residual=residual, residual_out=True, mean=True, rstd=True)
    else:
        found = nv.rms_norm(x, weight, 1e-3, bias=bias, residual=residual, residual_out=True, rstd=True)
    eps = 1e-5 if centered else 1e-3
    y, h, mean, rstd = reference.norm(x, weight, bias, residual, centered=centered, eps=eps)
    expected = [y, h, mean, rstd] if centered else [y, h, rstd]
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        close(one, other, one.dtype.type)
    assert found[0].dtype == dtype and {one.dtype.type for one in found[1:]} == {np.float32}


def test_results_go_where_the_caller_says():
    x, residual = some((6, 40), np.float16, np.float16)
    expected = reference.norm(x, residual=residual, centered=True, eps=1e-5)
    mean, rstd, out = np.zeros((6, 2), np.float32)[:, 0], np.zeros(6, np.float32), np.zeros((40, 6), np.float16).T
    found = nv.layer_norm(x, out=out, residual=residual, residual_out=residual, mean=mean, rstd=rstd)
    assert found[0] is out and found[1] is residual and found[2] is mean and found[3] is rstd
    for one, other in zip(found, expected, strict=True):
        close(one, other, np.float16)


@pytest.mark.parametrize(("shape",), sample([((4, 100),), ((5, 1),), ((2, 2056),)], 1))
def test_e4m3_with_a_scale_for_each_row(shape):
    (x,), (weight,) = some(shape, ml_dtypes.bfloat16), some(shape[-1:], np.float32)
    x[0] *= 0
    q, scale = nv.rms_norm(x, weight, out_dtype=nv.e4m3)
    expected = reference.norm(x, weight, centered=False, eps=1e-6)[0]
    assert q.dtype == ml_dtypes.float8_e4m3fn and scale.shape == shape[:-1]
    found = q.astype(np.float64) * scale[:, None]
    step = np.abs(expected) / 16 + np.abs(expected).max(-1, keepdims=True) / 448 / 512  # half of the last place
    assert (np.abs(found - expected) <= 1.01 * step + 1e-30).all()
    assert scale[0] == 1 and (np.abs(q[1:].astype(np.float64)).max(-1) == 448).all()
    into = np.zeros(shape, ml_dtypes.float8_e4m3fn)
    assert nv.layer_norm(x, out=into)[0] is into


@pytest.mark.parametrize(("shape", "dtype"), sample(CASES, 2))
def test_gradients_of_softmax(shape, dtype):
    x, dy = some(shape, np.float32, dtype)
    for y, backward, expected in (
        (nv.softmax(x), nv.softmax_backward, lambda y, d: y * (d - (d * y).sum(-1, keepdims=True))),
        (nv.log_softmax(x), nv.log_softmax_backward, lambda y, d: d - np.exp(y) * d.sum(-1, keepdims=True)),
    ):
        y = y.astype(dtype)
        right = expected(*reference.wide(y, dy))
        close(backward(dy, y), right, dtype, scale=shape[-1] ** 0.5)
        assert backward(dy, y, y) is y
        close(y, right, dtype, scale=shape[-1] ** 0.5)


@pytest.mark.parametrize(("shape", "dtype"), sample(CASES, 2))
@pytest.mark.parametrize("centered", [True, False])
def test_gradients_of_norms(shape, dtype, centered):
    dy, x, dresidual = some(shape, dtype, np.float32, dtype)
    (weight,) = some(shape[-1:], np.float32)
    x += 3
    *_, mean, rstd = nv.layer_norm(x, mean=True, rstd=True) if centered else nv.rms_norm(x, rstd=True) * 2
    eps = 1e-5 if centered else 1e-6
    expected = reference.norm_backward(dy, x, weight, dresidual, centered=centered, eps=eps)
    if centered:
        found = nv.layer_norm_backward(dy, x, mean, rstd, weight, dresidual=dresidual)
    else:
        found = nv.rms_norm_backward(dy, x, rstd, weight, dresidual=dresidual, dbias=True)
    for one, other in zip(found, expected, strict=True):
        close(one, other, np.float32, scale=10 * x.size**0.5)
    plain = nv.rms_norm_backward(dy, x, rstd, dweight=False) if not centered else None
    if plain is not None:
        close(plain, reference.norm_backward(dy, x, centered=False, eps=eps)[0], np.float32, scale=10)


def test_an_only_column_has_no_gradient_but_its_bias():
    (dy,), (weight,) = some((40, 1), np.float32), some((1,), np.float32)
    x = np.full((40, 1), 7.3, np.float32)
    dx, dweight, dbias = nv.layer_norm_backward(dy, x, x[:, 0], np.full(40, 316.2, np.float32), weight)
    assert not dx.any() and not dweight.any() and abs(dbias - dy.sum()) < 1e-4


def test_gradients_of_weights_do_not_depend_on_how_rows_are_shared():
    dy, x = some((300, 8), np.float32, np.float32)  # more rows than groups of threads
    _, rstd = nv.rms_norm(x, rstd=True)
    dx, dweight = nv.rms_norm_backward(dy, x, rstd)
    expected = reference.norm_backward(dy, x, centered=False, eps=1e-6)
    close(dx, expected[0], np.float32)
    close(dweight, expected[1], np.float32, scale=50)
    again = nv.rms_norm_backward(dy, x, rstd)[1]
    np.testing.assert_array_equal(dweight, again)


@pytest.mark.parametrize(
    ("cols", "lanes", "frame", "grain", "cluster"),
    sample(
        [(301, 32, 8, 1, 1), (600, 64, 64, 8, 1), (602, 64, 16, 2, 1), (1301, 64, 8, 1, 2), (1801, 64, 8, 1, 3)], 2
    ),
)
def test_rows_of_a_block_begin_as_far_behind_a_multiple_of_the_frame(cols, lanes, frame, grain, cluster):
    """So each thread has the same columns of all of them, whose sums it keeps."""
    made = RowsConfig(8, lanes, cluster, 0, 0, "shared", slots=3, alone=True, frame=frame, grain=grain, weights=True)
    made = shared_by(cols, made)
    blocks = frame // grain
    dy, x = some((2 * blocks + 3, cols), np.float16, np.float16)
    (weight,) = some((cols,), np.float16)
    *_, mean, rstd = reference.norm(x, centered=True, eps=1e-5)
    dx, sums = np.full_like(x, np.nan), [np.full(cols, np.nan, np.float32) for _ in range(2)]
    numbers = [one.astype(np.float32) for one in (mean, rstd)]
    program = traced(norm_backward, dy, x, dx, *numbers, weight, None, *sums, blocks=blocks, config=made)
    program.run()
    expected = reference.norm_backward(dy, x, weight, centered=True, eps=1e-5)
    for found, other in zip((dx, *sums), expected, strict=True):
        close(found, other, np.float16, scale=10)


@pytest.mark.parametrize("cols", [600, 601])
def test_rows_too_long_for_sums_in_registers(cols, monkeypatch):
    monkeypatch.setattr(choose_persistent, "_SUMS_BYTES", 8)
    monkeypatch.setattr(choose_persistent, "_CLUSTERS", (1,))
    monkeypatch.setattr(choose_persistent, "MOST_LANES", 128)
    dy, x = some((5, cols), np.float32, np.float32)
    *_, mean, rstd = nv.layer_norm(x, mean=True, rstd=True)
    expected = reference.norm_backward(dy, x, centered=True, eps=1e-5)
    _, dweight, dbias = nv.layer_norm_backward(dy, x, mean, rstd, dx=dy)
    close(dy, expected[0], np.float32)
    close(dweight, expected[1], np.float32, scale=10)
    close(dbias, expected[2], np.float32, scale=10)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (norm_kernels.norm, lambda x, n: nv.layer_norm(x, n, mean=True)),
        (norm_backward, lambda x, n: nv.rms_norm_backward(x, x, np.ones(len(x), np.float32))),
        (cross_entropy_kernels.cross_entropy, lambda x, n: nv.cross_entropy(x, np.zeros(len(x), int), grad=True)),
    ],
    ids=["norm", "gradient", "cross entropy"],
)
def test_one_kernel_serves_many_numbers_of_rows_and_columns(function, call, monkeypatch):
    made, make = [], function._make
    monkeypatch.setattr(function, "_make", lambda *args: made.append(args) or make(*args))
    for rows, cols in ((3, 856), (7, 888), (1, 872)):
        (x,) = some((rows, cols), np.float16)
        call(x, np.ones(cols, np.float32))
    assert len(made) == 1


def test_no_rows():
    x, rstd = np.zeros((0, 12), np.float32), np.zeros(0, np.float32)
    dx, dweight = nv.rms_norm_backward(x, x, rstd)
    assert dx.shape == (0, 12) and (dweight == 0).all()
    assert nv.softmax_backward(x, x).shape == (0, 12)
    assert nv.softmax(np.zeros((2, 3, 0, 12), np.float32).transpose(0, 2, 1, 3)).shape == (2, 0, 3, 12)
    assert [y.shape for y in nv.layer_norm(x, mean=True, rstd=True)] == [(0, 12), (0,), (0,)]


CONFIGS = [RowsConfig(4, 8, 1, 2, 1), RowsConfig(1, 64, 1, 2, 1), RowsConfig(2, 128, 2, 1, 0),
           RowsConfig(4, 16, 1, 2, 0, "memory"), RowsConfig(4, 32, 1, 2, 1, "shared", slots=2),
           RowsConfig(4, 16, 1, 2, 0, "shared", slots=3), RowsConfig(4, 128, 2, 1, 0, "shared", slots=2),
           RowsConfig(4, 128, 1, 2, 1, "shared", slots=3)]  # fmt: skip


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("config", sample(CONFIGS, 1), ids=str)
def test_under_all_schedules(config, level):
    cols = config.full * config.width + (12 if config.cluster == 1 else 76)
    dy, x = some((9, cols), np.float32, np.float32)
    (weight,) = some((cols,), np.float32)
    _, _, mean, rstd = reference.norm(x, centered=True, eps=1e-5)
    dx, dweight, dbias = np.zeros_like(x), np.zeros(cols, np.float32), np.zeros(cols, np.float32)
    numbers = mean.astype(np.float32), rstd.astype(np.float32)
    arrays = dy, x, dx, *numbers, weight, None, dweight, dbias
    program = traced(norm_backward, *arrays, blocks=2, config=config)
    expected = reference.norm_backward(dy, x, weight, centered=True, eps=1e-5)
    for options in SCHEDULES[::13]:
        for out in (dx, dweight, dbias):
            out.fill(np.nan)
        program.run(dataclasses.replace(options, level=level))
        for one, other in zip((dx, dweight, dbias), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@exhaustive
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9), st.integers(1, 400), st.integers(0, 3), st.sampled_from(list(TOLERANCE)))
def test_any_rows_of_any_columns(rows, columns, gap, dtype):
    memory = np.random.default_rng(columns).standard_normal((rows, columns + gap)).astype(dtype)
    x, dy = memory[:, :columns], np.ones((rows, columns), dtype)
    y, mean, rstd = nv.layer_norm(x, mean=True, rstd=True)
    close(y, reference.norm(x, centered=True, eps=1e-5)[0], dtype)
    dx, _, dbias = nv.layer_norm_backward(dy, x, mean, rstd)
    close(dx, reference.norm_backward(dy, x, centered=True, eps=1e-5)[0], dtype, scale=100)
    close(dbias, np.full(columns, rows), dtype)
