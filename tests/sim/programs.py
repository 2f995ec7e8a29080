"""Every kernel of the repository at a small shape: how to call it, and what must come out."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nvdsl.thin import ThinFunction
from tests.sim.simulate import Program, traced

ROOT = Path(__file__).parents[2]


@cache
def load(path: str, **constants: int) -> Any:
    """The module of a file of the repository, by path; ``constants``: globals of it, changed (a smaller problem)."""
    name = "_".join(["sim", *path.removesuffix(".py").split("/"), *(f"{k}{v}" for k, v in constants.items())])
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    vars(module).update(constants)
    return module


@dataclass
class Case:
    """``program``: traced, with its arrays. ``check``: raises unless the results are right. ``reset``: the arrays as
    they were."""

    program: Program
    check: Callable[[], None]
    reset: Callable[[], None]


def _case(function: Any, arrays: list[Any], scalars: list[Any], expected: Any, **constants: Any) -> Case:
    """The last array is the result."""
    result, start = arrays[-1], arrays[-1].copy()
    program = traced(function, *arrays, *scalars, **constants)

    def check() -> None:
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)

    def reset() -> None:
        result[...] = start

    return Case(program, check, reset)


def _saxpy(function: Any, shape: tuple[int, ...]) -> Case:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    return _case(function, [x, y], [2.0], 2.0 * x + y)


def softmax_of(x: Any) -> Any:
    """In f64."""
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _softmax(function: Any, shape: tuple[int, ...], **constants: Any) -> Case:
    x = 20 * np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return _case(function, [x, np.full_like(x, np.nan)], [], softmax_of(x), **constants)


def _histogram(function: Any, n: int, **constants: Any) -> Case:
    x, bins = np.random.default_rng(0).integers(0, 20, n).astype(np.uint8), np.zeros(20, np.int32)
    counts = np.bincount(x, minlength=20)
    program = traced(function, x, bins, **constants)
    return Case(program, lambda: np.testing.assert_array_equal(bins, counts), lambda: bins.fill(0))


def _layer_norm(function: Any, shape: tuple[int, int], **constants: Any) -> Case:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(s).astype(np.float32) for s in (shape, shape[1], shape[1]))
    x += 1e4
    return _case(function, [x, weight, bias, np.full_like(x, np.nan)], [], layer_norm_of(x, weight, bias), **constants)


def _layer_norm_of_layouts(function: Any, shape: tuple[int, int], **constants: Any) -> Case:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(s).astype(np.float32) for s in (shape, (1, shape[1]), (1, shape[1])))
    return _case(function, [x, weight, bias, np.full_like(x, np.nan)], [], layer_norm_of(x, weight, bias), **constants)


def layer_norm_of(x: Any, weight: Any, bias: Any, epsilon: float = 1e-5) -> Any:
    """In f64."""
    x = x.astype(np.float64)
    deviations = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((deviations**2).mean(axis=1, keepdims=True) + epsilon)
    return deviations * scale * weight.astype(np.float64) + bias.astype(np.float64)


def _transpose(function: Any, shape: tuple[int, int], **constants: Any) -> Case:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return _case(function, [x, np.full(shape[::-1], np.nan, np.float32)], [], x.T, **constants)


def _cluster_sum(function: Any, shape: tuple[int, int, int], **constants: Any) -> Case:
    rng = np.random.default_rng(0)
    a, weights = (rng.integers(-4, 5, s).astype(np.float32) for s in (shape, shape[1:]))
    return _case(function, [a, weights, np.full(shape[1:], np.nan, np.float32)], [], (a * weights).sum(0), **constants)


def _column_sums(function: Any, shape: tuple[int, int], **constants: Any) -> Case:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    return _case(function, [x, np.full(shape[1], np.nan, np.float32)], [], x.sum(0), **constants)


def _recurrent(function: Any, steps: int, m: int, n: int, **constants: Any) -> Case:
    """An LSTM of the inputs' part of its gates, whose h of all steps, after that at first, is the result."""
    rng = np.random.default_rng(0)
    x, r = (rng.standard_normal(s).astype(np.float16) / 2 for s in ((steps, 4, m, n), (4, n, n)))
    y, h, c = np.full((steps + 1, m, n), np.nan, np.float16), np.zeros((steps + 1, m, n)), np.zeros((m, n))
    for t in range(steps):
        i, f, g, o = x[t].astype(np.float64) + h[t] @ r.astype(np.float64).swapaxes(1, 2)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h[t + 1] = np.tanh(c) / (1 + np.exp(-o))

    def reset() -> None:
        y.fill(np.nan)
        y[0] = 0

    reset()
    return Case(traced(function, x, r, y, **constants), lambda: np.testing.assert_allclose(y, h, atol=4e-3), reset)


def gemm_case(function: Any, m: int, n: int, k: int, out: Any = np.float32, **constants: Any) -> Case:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    d = np.full((m, n), np.nan, out)
    return _case(function, [a, b, d], [], a.astype(np.float32) @ b.astype(np.float32), **constants)


def _product_of_rows(function: Any, m: int, n: int, k: int) -> Case:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (n, k)))
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return _case(function, [a, b, np.full((m, n), np.nan, np.float32)], [], expected)


def _thin(path: str, **constants: int) -> ThinFunction:
    return next(x for x in vars(load(path, **constants)).values() if isinstance(x, ThinFunction))


def _thin_gemm(path: str, m: int, n: int, k: int, **constants: Any) -> Case:
    return gemm_case(_thin(path, M=m, N=n, K=k), m, n, k, **constants)


CASES: dict[str, Callable[[], Case]] = {
    "ch1": lambda: _saxpy(load("chapters/ch1_saxpy.py").saxpy, (300,)),
    "ch2": lambda: _saxpy(load("chapters/ch2_tma_saxpy.py").saxpy, (16, 128)),
    "ch3": lambda: gemm_case(load("chapters/ch3_wgmma_tile.py").gemm_tile, 128, 128, 64),
    "ch4": lambda: gemm_case(load("chapters/ch4_multistage_gemm.py").gemm, 128, 128, 320),
    "ch4 one step": lambda: gemm_case(load("chapters/ch4_multistage_gemm.py").gemm, 128, 128, 64, stages=4),
    "ch4 tail": lambda: gemm_case(load("chapters/ch4_multistage_gemm.py").gemm, 128, 128, 72, stages=2),
    "ch5": lambda: gemm_case(load("chapters/ch5_warp_specialized_gemm.py").gemm, 128, 256, 320),
    "ch5 narrow": lambda: gemm_case(
        load("chapters/ch5_warp_specialized_gemm.py").gemm, 128, 128, 256, stages=2, tile=(128, 128, 64)
    ),
    "ch6": lambda: gemm_case(
        load("chapters/ch6_tma_store_gemm.py").gemm, 128, 256, 192, np.float16, stages=2, tile=(128, 256, 64)
    ),
    "ch7": lambda: gemm_case(
        load("chapters/ch7_persistent_gemm.py").gemm, 256, 128, 192, np.float16, stages=2, tile=(128, 128, 64), blocks=1
    ),
    "ch8": lambda: gemm_case(
        load("chapters/ch8_cluster_gemm.py").gemm, 256, 256, 192, np.float16, stages=2, tile=(128, 128, 64), blocks=2
    ),
    "ch9": lambda: gemm_case(
        load("chapters/ch9_pingpong_gemm.py").gemm, 512, 64, 192, np.float16, stages=2, tile=(128, 64, 64), blocks=1
    ),
    "ch9 idle blocks": lambda: gemm_case(
        load("chapters/ch9_pingpong_gemm.py").gemm, 128, 64, 64, np.float16, stages=2, tile=(128, 64, 64), blocks=4
    ),
    "ch11": lambda: _softmax(load("chapters/ch11_row_softmax.py").softmax, (5, 200), threads=64),
    "ch11 block": lambda: _softmax(load("chapters/ch11_row_softmax.py").softmax, (3, 130), threads=96, lanes=96),
    "ch17": lambda: _layer_norm_of_layouts(
        load("chapters/ch17_layer_norm.py").layer_norm, (32, 32), threads=64, lanes=4
    ),
    "ch13": lambda: _histogram(load("chapters/ch13_histogram.py").histogram, 500, threads=64, blocks=3),
    "ch15": lambda: gemm_case(
        load("chapters/ch15_dynamic_shapes.py").gemm, 70, 72, 200, np.float16, stages=2, tile=(64, 64, 64)
    ),
    "ch15 one step": lambda: gemm_case(load("chapters/ch15_dynamic_shapes.py").gemm, 1, 8, 8, np.float16),
    "ch12": lambda: _transpose(load("chapters/ch12_transpose.py").transpose, (70, 36), threads=64),
    "ch19": lambda: _recurrent(load("chapters/ch19_recurrent.py").lstm, 2, 64, 64, units=32),
    "cluster sum": lambda: _cluster_sum(load("tests/programs/cluster_sum.py").cluster_sum, (2, 16, 64)),
    "column sums": lambda: _column_sums(load("tests/programs/cp_async_rows.py").column_sums, (37, 64)),
    "layer norm": lambda: _layer_norm(load("tests/programs/layer_norm.py").layer_norm, (3, 300), threads=64),
    "loading warp": lambda: _product_of_rows(load("tests/programs/loading_warp.py").loading_warp, 128, 64, 320),
    "cluster softmax": lambda: _softmax(
        load("tests/programs/cluster_softmax.py").cluster_softmax, (2, 600), threads=64, cluster=2
    ),
    "compat ch1": lambda: _saxpy(_thin("tests/compat/ch1_saxpy.py"), (64, 32)),
    "compat ch2": lambda: _saxpy(_thin("tests/compat/ch2_tma_saxpy.py"), (64, 32)),
    "compat ch3": lambda: gemm_case(_thin("tests/compat/ch3_wgmma_tile.py"), 128, 128, 64),
    "compat ch4": lambda: _thin_gemm("tests/compat/ch4_multistage_gemm.py", 128, 128, 384, num_stages=3),
    "compat ch5": lambda: _thin_gemm("tests/compat/ch5_warp_specialized_gemm.py", 128, 128, 384, num_stages=3),
    "compat ch4 whole": lambda: _thin_gemm("tests/compat/ch4_multistage_gemm.py", 256, 256, 512, num_stages=4),
    "compat ch5 whole": lambda: _thin_gemm("tests/compat/ch5_warp_specialized_gemm.py", 256, 256, 512, num_stages=4),
}


@cache
def case(name: str) -> Case:
    return CASES[name]()
