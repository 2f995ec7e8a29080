"""nv.softmax, nv.layer_norm and nv.rms_norm beside f64, for the simulator and the device."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nvdsl as nv
from tests.sim.programs import layer_norm_of, softmax_of

TOLERANCE = {np.float32: 1e-5, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}


def rms_norm_of(x, weight=1.0, epsilon=1e-6):
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + epsilon) * weight


def check(shape, dtype, parameters=np.float32, far=True, pad=0, **options):
    """All three on rows of ``shape``, of which ``pad`` elements lie between. ``far``: the mean is far from zero."""
    rng = np.random.default_rng(shape)
    columns = shape[-1]
    memory = (3 * rng.standard_normal((*shape[:-1], columns + pad))).astype(dtype)
    x = memory[..., :columns]
    weight, bias = (rng.standard_normal(columns).astype(parameters) for _ in range(2))
    close(nv.softmax(x, **options), softmax_of(_rows(x)), dtype)
    logarithm = _rows(x).astype(np.float64) - _rows(x).max(axis=1, keepdims=True).astype(np.float64)
    close(nv.log_softmax(x, **options), logarithm - np.log(np.exp(logarithm).sum(axis=1, keepdims=True)), dtype)
    close(nv.rms_norm(x, weight, **options), rms_norm_of(_rows(x), weight.astype(np.float64)), dtype)
    close(nv.layer_norm(x, None, bias, **options), layer_norm_of(_rows(x), np.ones(columns), bias), dtype)
    if far:
        x = (x.astype(np.float64) + (1e4 if dtype is np.float32 else 30)).astype(dtype)
    into = np.full(shape, np.nan, dtype)
    assert nv.layer_norm(x, weight, bias, 1e-3, out=into, **options) is into
    close(into, layer_norm_of(_rows(x), weight, bias, 1e-3), dtype)
    nv.layer_norm(x, weight, bias, 1e-3, out=x, **options)
    np.testing.assert_array_equal(x, into)


def _rows(x):
    return x.reshape(-1, x.shape[-1])


def close(found, expected, dtype):
    assert found.dtype == dtype
    tolerance = 3 * TOLERANCE[dtype]
    np.testing.assert_allclose(_rows(found).astype(np.float64), expected, rtol=tolerance, atol=tolerance)
