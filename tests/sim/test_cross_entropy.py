"""nv.cross_entropy in the simulator: reductions, options, gradients, special values, schedules."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.rows import cross_entropy_kernels as kernels
from nvdsl.kernels.rows.config import RowsConfig
from tests.exhaustive import exhaustive, sample
from tests.sim import row_references as reference
from tests.sim.rows import TOLERANCE
from tests.sim.simulate import SCHEDULES, traced

CASES = [(shape, dtype) for shape in ((2, 3, 100), (1,), (3, 1), (9, 10), (4, 777), (2, 5000)) for dtype in TOLERANCE]
OPTIONS = [{}, {"label_smoothing": 0.1}, {"z_loss": 1e-2}, {"label_smoothing": 1.0, "z_loss": 0.1, "ignore_index": 0}]

CONFIGS = [RowsConfig(4, 128, 1, 1, 0, "shared", later=300), RowsConfig(4, 8, 1, 2, 1), RowsConfig(2, 128, 2, 1, 0)]


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


def _problem(shape, dtype):
    rng = np.random.default_rng(shape)
    labels = np.array(rng.integers(0, shape[-1], shape[:-1]))
    if labels.size > 2:
        labels.flat[1] = -100
    return (4 * rng.standard_normal(shape)).astype(dtype), labels


@pytest.mark.parametrize(("shape", "dtype"), sample(CASES, 2))
@pytest.mark.parametrize("options", sample(OPTIONS, 2), ids=str)
def test_losses_and_gradients(shape, dtype, options):
    x, labels = _problem(shape, dtype)
    if options.get("ignore_index") == 0:
        labels[labels == -100] = 0
    losses, gradient, lse = reference.cross_entropy(x, labels, **options)
    kept = np.sum(labels != options.get("ignore_index", -100))
    for reduction, loss, factor in (("none", losses, 1.0), ("sum", losses.sum(), 1.0),
                                    ("mean", losses.sum() / max(kept, 1), 1.0 / max(kept, 1))):  # fmt: skip
        if reduction == "mean" and not kept:
            assert np.isnan(nv.cross_entropy(x, labels, **options))
            continue
        found, slope, logarithm = nv.cross_entropy(x, labels, reduction=reduction, grad=True, lse=True, **options)
        np.testing.assert_allclose(found, loss, rtol=2e-5, atol=1e-5)
        np.testing.assert_allclose(logarithm, lse, rtol=1e-5, atol=1e-5)
        tolerance = {"rtol": 3 * TOLERANCE[dtype], "atol": 3 * TOLERANCE[dtype] * factor}
        np.testing.assert_allclose(slope.astype(np.float64), gradient * factor, **tolerance)
        assert slope.dtype == dtype and found.dtype == np.float32 and found.shape == loss.shape
        dloss = np.full(loss.shape, 2.0, np.float32)
        later = nv.cross_entropy_backward(dloss, x, labels, logarithm, reduction=reduction, **options)
        np.testing.assert_allclose(later.astype(np.float64), 2 * gradient * factor, **tolerance)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_the_gradient_may_take_the_place_of_the_logits(kind):
    x, labels = _problem((6, 300), np.float32)
    _, gradient, lse = reference.cross_entropy(x, labels)
    loss, slope = nv.cross_entropy(x, labels.astype(kind), reduction="sum", grad=x)
    assert slope is x
    np.testing.assert_allclose(x, gradient, rtol=1e-4, atol=1e-6)


def test_special_values():
    x = np.zeros((6, 50), np.float32)
    x[0, 3], x[1, 3], x[2], x[3, 4], x[4, 7] = np.nan, np.inf, -np.inf, 1e4, -np.inf
    labels = np.array([1, 1, 1, 4, 7, 50])
    losses, slope = nv.cross_entropy(x, labels, reduction="none", grad=True)
    assert np.isnan(losses[[0, 1, 2]]).all()
    assert losses[3] == 0 and losses[4] == np.inf
    assert np.isnan(losses[5]) and np.isnan(slope[5]).all(), "there is no such class"
    assert nv.cross_entropy(x[4:5], labels[4:5], label_smoothing=0.1) == np.inf
    labels[:] = -100
    losses, slope = nv.cross_entropy(x, labels, reduction="none", grad=True)
    assert (losses == 0).all() and (slope == 0).all(), "an ignored row counts for nothing, whatever it is"
    none = np.zeros((0, 5), np.float32), np.zeros(0, np.int64)
    assert nv.cross_entropy(*none, reduction="sum") == 0 and np.isnan(nv.cross_entropy(*none))
    assert nv.cross_entropy(*none, reduction="none").shape == (0,)


@pytest.mark.parametrize("ignored", [-(2**63), 2**63 - 1, -(2**31), 2**31])
def test_any_number_of_64_bits_may_be_ignored(ignored):
    x, labels = _problem((3, 40), np.float32)
    labels[1] = ignored
    losses = nv.cross_entropy(x, labels, ignore_index=ignored, reduction="none")
    assert losses[1] == 0 and np.isfinite(losses).all()


def test_logits_far_from_zero_lose_no_digits():
    x, labels = np.random.default_rng(1).standard_normal((3, 40)).astype(np.float32), np.array([0, 20, 39])
    x += 10_000
    losses, gradient = nv.cross_entropy(x, labels, reduction="none", grad=True)
    expected, slopes, _ = reference.cross_entropy(x, labels)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("config", sample(CONFIGS, 1), ids=str)
def test_in_place_under_all_schedules(config, level):
    cols = config.full * config.width + (12 if config.cluster == 1 else 76)
    x, labels = _problem((5, cols), np.float32)
    start, losses = x.copy(), np.zeros(5, np.float32)
    arrays = x, labels, losses, None, None, x
    program = traced(
        kernels.cross_entropy, *arrays, -100, 0.25, 0.0, smooth=True, mean=False, config=config
    )
    expected, gradient, _ = reference.cross_entropy(start, labels, label_smoothing=0.25)
    for options in SCHEDULES[::13]:
        x[...] = start
        program.run(dataclasses.replace(options, level=level))
        np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(x, gradient, rtol=1e-4, atol=1e-6)


@exhaustive
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9), st.integers(1, 300), st.integers(0, 3), st.floats(0, 1), st.floats(0, 1))
def test_any_rows_of_any_classes(rows, classes, gap, smoothing, z_loss):
    memory, labels = np.zeros((rows, classes + gap), ml_dtypes.bfloat16), np.arange(rows) * 7 % classes
    memory[:] = np.random.default_rng(classes).standard_normal(memory.shape)
    x = memory[:, :classes]
    options = {"label_smoothing": smoothing, "z_loss": z_loss}
    losses, gradient, _ = reference.cross_entropy(x, labels, **options)
    found, slope = nv.cross_entropy(x, labels, reduction="none", grad=True, **options)
    np.testing.assert_allclose(found, losses, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(slope.astype(np.float64), gradient, rtol=1e-2, atol=1e-2)
