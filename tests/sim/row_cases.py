"""Kernels over rows with small inputs, to be mutated."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.kernels.rows import cross_entropy_kernels, norm_backward_kernels, norm_kernels, softmax_kernels
from nvdsl.kernels.rows.config import RowsConfig, shared_by
from tests.sim import row_references as reference
from tests.sim.programs import Case, layer_norm_of, softmax_of
from tests.sim.simulate import traced


def _floats(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def moments() -> Case:
    """LayerNorm of 16 bits, of rows of a cluster each, whose warps' moments are merged. Some warps have no elements."""
    x, weight, y = _floats(3, 300).astype(np.float16) + np.float16(5), _floats(300), np.zeros((3, 300), np.float32)
    config = RowsConfig(4, 128, 2, 1, 0, "shared")
    arrays = x, y, weight, None, None, None, None, None, None
    program = traced(norm_kernels.norm, *arrays, 1e-5, centered=True, config=config)
    expected = layer_norm_of(x, weight, np.zeros(300))

    def check() -> None:
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)

    return Case(program, check, lambda: y.fill(np.nan))


def ends() -> Case:
    """LayerNorm of rows that begin at any address, whose first and last accesses have a part of the row."""
    x, weight, y = _floats(9, 301).astype(np.float16), _floats(301), np.zeros((9, 301), np.float16)
    config = shared_by(301, RowsConfig(8, 32, 1, 0, 0, "shared", frame=8, grain=1, alone=True))
    arrays = x, y, weight, None, None, None, None, None, None
    program = traced(norm_kernels.norm, *arrays, 1e-5, centered=True, config=config)
    expected = layer_norm_of(x, weight, np.zeros(301))

    def check() -> None:
        np.testing.assert_allclose(y.astype(np.float64), expected, rtol=2e-3, atol=2e-3)

    return Case(program, check, lambda: y.fill(np.nan))


def ends_of_a_warp() -> Case:
    """Softmax of such rows in registers, in the place of what is read. They fill all accesses, so they are wrapped."""
    start, rows = _floats(9, 510).astype(np.float16), np.zeros((9, 510), np.float16)
    config = shared_by(510, RowsConfig(8, 32, 1, 0, 0, frame=8, grain=2, alone=True, wrapped=True))
    program = traced(softmax_kernels.softmax, rows, rows, config=config)

    def check() -> None:
        np.testing.assert_allclose(rows.astype(np.float64), softmax_of(start), rtol=2e-3, atol=2e-3)

    def reset() -> None:
        rows[...] = start

    return Case(program, check, reset)


def gradients() -> Case:
    """Of RMSNorm, by two blocks to whose rings rows come ahead of their turns."""
    return _gradients(9, 140, RowsConfig(4, 128, 1, 1, 0, "shared", slots=3))


def gradients_of_clusters() -> Case:
    """The same by clusters of two blocks, with the weight in shared memory."""
    return _gradients(11, 300, RowsConfig(4, 64, 2, 1, 0, "shared", slots=3, grain=4, weights=True))


def _gradients(rows: int, cols: int, config: RowsConfig) -> Case:
    dy, x, weight = _floats(rows, cols), _floats(rows, cols)[::-1].copy(), _floats(cols)
    *_, rstd = reference.norm(x, centered=False, eps=1e-6)
    dx, dweight = np.zeros_like(x), np.zeros(cols, np.float32)
    arrays = dy, x, dx, None, rstd.astype(np.float32), weight, None, dweight, None
    program = traced(norm_backward_kernels.norm_backward, *arrays, blocks=2, config=config)
    expected = reference.norm_backward(dy, x, weight, centered=False, eps=1e-6)

    def check() -> None:
        for one, other in zip((dx, dweight), expected, strict=False):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)

    def reset() -> None:
        dx.fill(np.nan)
        dweight.fill(np.nan)

    return Case(program, check, reset)


def cross_entropy() -> Case:
    """Rows of a cluster each, whose logits the gradient overwrites."""
    start, labels = 3 * _floats(3, 300), np.array([7, -100, 299])
    x, losses = start.copy(), np.zeros(3, np.float32)
    arrays = x, labels, losses, None, None, x, -100, 0.0, 0.0
    config = RowsConfig(1, 128, 2, 2, 1)
    program = traced(cross_entropy_kernels.cross_entropy, *arrays, smooth=False, mean=False, config=config)
    expected, gradient, _ = reference.cross_entropy(start, labels)

    def check() -> None:
        np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(x, gradient, rtol=1e-3, atol=1e-5)

    def reset() -> None:
        x[...] = start
        losses.fill(np.nan)

    return Case(program, check, reset)
