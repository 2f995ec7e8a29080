"""nv.mlp in the simulator: widths, types, rows, how weights are stored, schedules."""

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import relu
from nvdsl.kernels.mlp import forward
from nvdsl.kernels.mlp.config import MlpConfig
from tests.exhaustive import sample
from tests.sim.layers import check, close, layers_of, parameters
from tests.sim.simulate import SCHEDULES, traced
from tests.unit.kernels.strided import strided

BF16 = ml_dtypes.bfloat16


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


CASES = [
    ((5, 64), 3, BF16, "relu", None, False), ((2, 33, 64), 2, np.float16, "silu", "silu", True),
    ((1, 128), 2, BF16, "gelu", None, True), ((3, 256), 2, np.float16, "relu", "gelu", False),
    ((64,), 1, np.float16, "relu", "relu", True), ((0, 64), 2, np.float16, None, None, True),
    ((70, 64), 32, np.float16, "relu", None, True),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "layers", "dtype", "inner", "last", "stacked"), sample(CASES, 3))
def test_layers(shape, layers, dtype, inner, last, stacked):
    check(shape, layers, dtype, inner, last, stacked, bias=layers != 2)


def test_values_between_layers_overflow_as_their_type_does():
    x = np.zeros((3, 64), np.float16)
    x[0], x[1, 0] = 60_000, np.nan
    weights = np.stack([np.full((64, 64), 1.0), np.eye(64)]).astype(np.float16)
    found = nv.mlp(x, weights)
    assert np.isnan(found[:2]).all()  # 64 * 60,000 is infinite, which times 0 is NaN
    assert (found[2] == 0).all()


def test_in_place_and_stored_the_other_way():
    weights, biases = parameters(64, 2, np.float16)
    x = np.random.default_rng(1).standard_normal((9, 64)).astype(np.float16)
    expected = layers_of(x, weights, biases, "relu", None)
    turned = np.ascontiguousarray(weights.swapaxes(1, 2)).swapaxes(1, 2)
    close(nv.mlp(x, turned, biases), expected, np.float16)
    wide = np.zeros((9, 80), np.float16)
    assert nv.mlp(x.T.copy().T, weights, biases, wide[:, 3:67]).base is wide
    close(wide[:, 3:67], expected, np.float16)
    assert nv.mlp(x, weights, biases, x) is x
    close(x, expected, np.float16)


@nv.jit
def _anyhow(flat: nv.Array, out: nv.Array, *parameters: nv.Array, major: str, config: MlpConfig) -> None:
    """Rows at distances of 70 elements, none of which TMA can read; and a result by columns."""
    x, y = strided(flat, (70, 64), (70, 1), 3), strided(out, (70, 64), (1, 75))
    forward.mlp.__wrapped__(
        x, y, *parameters, config=config, blocks=2, major=major, weights=1, activation=relu, output_activation=None,
        copied=True, turned_x=False, turned_out=True,
    )  # fmt: skip


def test_arrays_that_tma_cannot_read():
    weights, biases = parameters(64, 2, np.float16)
    flat = np.random.default_rng(2).standard_normal(80 * 70).astype(np.float16)
    out = np.zeros(64 * 75, np.float16)
    _anyhow(flat, out, weights, biases, major="k", config=MlpConfig(1, 1, 3, 1))
    x = np.lib.stride_tricks.as_strided(flat[3:], (70, 64), (140, 2))
    close(out.reshape(64, 75)[:, :70].T, layers_of(x, weights, biases, "relu", None), np.float16)


CONFIGS = [
    (64, MlpConfig(1, 1, 2, 1, halves=2)), (64, MlpConfig(2, 1, 2, 2, halves=2)), (64, MlpConfig(4, 1, 3, 1)),
    (128, MlpConfig(2, 2, 2, 2, turns=True)), (128, MlpConfig(1, 2, 3, 2, halves=2)),
    (256, MlpConfig(2, 2, 4, 1)), (64, MlpConfig(2, 1, 2, 1, turns=True)),
]  # fmt: skip


EVERY = [(*config, major) for major in ("k", "mn") for config in CONFIGS]


@pytest.mark.parametrize(("width", "config", "major"), sample(EVERY, 1))
def test_every_configuration_under_every_schedule(width, config, major):
    """Tiles that follow each other in a block, with a last one that is not full."""
    weights, biases = parameters(width, 3, np.float16)
    rows = 3 * config.rows * config.cluster - 40
    x = np.random.default_rng(rows).standard_normal((rows, width)).astype(np.float16)
    out, stored = np.empty_like(x), weights if major == "k" else np.ascontiguousarray(weights.swapaxes(1, 2))
    program = traced(
        forward.mlp, x, out, stored, biases, config=config, blocks=2, major=major, weights=1, activation=relu,
        output_activation=None,
    )  # fmt: skip
    for options in SCHEDULES[:: len(SCHEDULES) // 2]:
        out.fill(np.nan)
        program.run(options)
        close(out, layers_of(x, weights, biases, "relu", None), np.float16)
