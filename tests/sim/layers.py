"""nv.mlp beside layers computed one by one, for the simulator and the device."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

import nvdsl as nv

TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 1.6e-2}

ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / np.sqrt(2))),
}


def layers_of(x, weights, biases, inner, last):
    """In f64, rounded to the type of ``x`` between layers."""
    dtype = x.dtype
    for i, weight in enumerate(weights):
        bias = 0 if biases is None or biases[i] is None else biases[i].astype(np.float64)
        sums = x.astype(np.float64) @ weight.astype(np.float64).swapaxes(-1, -2) + bias
        x = ACTIVATIONS[inner if i + 1 < len(weights) else last](sums).astype(dtype)
    return x.astype(np.float64)


def parameters(width, layers, dtype, seed=0):
    rng = np.random.default_rng((seed, width, layers))
    weights = (rng.standard_normal((layers, width, width)) * np.sqrt(1.5 / width)).astype(dtype)
    return weights, rng.standard_normal((layers, width)).astype(np.float32)


def check(shape, layers, dtype=np.float16, inner="relu", last=None, stacked=True, bias=True, **options):
    rng = np.random.default_rng((*shape, layers))
    x = rng.standard_normal(shape).astype(dtype)
    weights, biases = parameters(shape[-1], layers, dtype)
    given = weights if stacked else list(weights)
    added = None if not bias else biases if stacked else [None if i == 1 else row for i, row in enumerate(biases)]
    found = nv.mlp(x, given, added, activation=inner, output_activation=last, **options)
    close(found, layers_of(x, weights, added, inner, last), dtype)


def close(found, expected, dtype):
    assert found.dtype == dtype and found.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-3)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=TOLERANCE[dtype] * scale)
