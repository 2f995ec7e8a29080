"""The correct kernels that are mutated: chapters 2 to 9, LLVM style twins of 2 to 5, and the GEMMs of nvdsl/kernels.

One entry a kernel: a name, and a function that makes a `tests.sim.programs.Case` with small inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from nvdsl.kernels import matmul_blockscaled, matmul_cooperative, matmul_pingpong, matmul_splitk, matmul_streamk
from nvdsl.kernels.config import Config
from nvdsl.kernels.reduction import workspace_shapes
from tests.sim.mutants.judge import Subject, Verdict
from tests.sim.programs import CASES, Case, gemm_case
from tests.sim.simulate import traced

_CHAPTERS = (
    "ch2", "ch3", "ch4", "ch5 narrow", "ch6", "ch7", "ch8", "ch9", "compat ch2", "compat ch3", "compat ch4",
    "compat ch5",
)  # fmt: skip


def _matmul(module: Any, m: int, n: int, k: int, blocks: int, out: Any = np.float32, **config: Any) -> Case:
    """A GEMM of nvdsl/kernels of ``blocks`` blocks."""
    return gemm_case(module.matmul, m, n, k, out, config=Config(**config), blocks=blocks)


def _streamk(m: int, n: int, k: int, blocks: int, **config: Any) -> Case:
    """Stream-K, with its workspace."""
    chosen = Config(schedule="streamk", **config)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    sums, flags = workspace_shapes(blocks, 2, chosen.rows, chosen.tile_n)
    arrays = [a, b, np.full((m, n), np.nan, np.float32), np.zeros(sums, np.float32), np.zeros(flags, np.int32)]
    expected = a.astype(np.float32) @ b.astype(np.float32)

    def check() -> None:
        np.testing.assert_array_equal(arrays[2], expected)
        assert not arrays[4].any()

    def reset() -> None:
        arrays[2][...], arrays[3][...], arrays[4][...] = np.nan, 0, 0

    return Case(traced(matmul_streamk.matmul, *arrays, config=chosen, blocks=blocks), check, reset)


def _blockscaled(m: int, n: int, k: int, **config: Any) -> Case:
    """e4m3 with a scale for each block: powers of two, so that all sums are exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((m, k), (n, k)))
    blocks = k // 128
    scale_a, scale_b = (2.0 ** rng.integers(-1, 2, shape).astype(np.float32) for shape in ((m, blocks), (blocks, 1)))
    out = np.full((m, n), np.nan, np.float32)
    scaled_a = a.astype(np.float32) * np.repeat(scale_a, 128, axis=1)
    expected = scaled_a @ (b.astype(np.float32) * np.repeat(scale_b[:, 0], 128)).T
    chosen = Config(tile_k=128, **config)
    return Case(
        traced(matmul_blockscaled.matmul, a, b, out, scale_a, scale_b, config=chosen, blocks=1),
        lambda: np.testing.assert_array_equal(out, expected),
        lambda: out.fill(np.nan),
    )


_TILE = {"tile_m": 128, "tile_n": 64, "stages": 2}

SUBJECTS: dict[str, Callable[[], Case]] = {
    **{name: CASES[name] for name in _CHAPTERS},
    "cooperative": lambda: _matmul(matmul_cooperative, 128, 256, 192, 1, **{**_TILE, "tile_n": 128}),
    "cooperative, f16": lambda: _matmul(matmul_cooperative, 128, 128, 192, 1, np.float16, **_TILE),
    "cooperative, cluster": lambda: _matmul(matmul_cooperative, 256, 128, 192, 2, cluster_m=2, **_TILE),
    "pingpong": lambda: _matmul(matmul_pingpong, 256, 64, 192, 1, schedule="pingpong", **{**_TILE, "tile_m": 64}),
    "pingpong, cluster": lambda: _matmul(
        matmul_pingpong, 128, 256, 192, 2, np.float16, schedule="pingpong", cluster_n=2, **{**_TILE, "tile_m": 64}
    ),
    "stream-K": lambda: _streamk(320, 64, 192, 2, **{**_TILE, "tile_m": 64}),
    "block scales": lambda: _blockscaled(256, 64, 512, **{**_TILE, "stages": 3}),
    "split-K": lambda: gemm_case(
        matmul_splitk.matmul, 128, 64, 384, config=Config(schedule="splitk", split=2, **_TILE)
    ),
}


@cache
def subject(name: str) -> Subject:
    return Subject(name, SUBJECTS[name]())


def judged(name: str, part: int, parts: int) -> tuple[str, dict[int, Verdict]]:
    """The verdicts by number of every ``parts``-th mutant of a kernel from number ``part`` on."""
    one = subject(name)
    return name, {i: one.judge(m) for i, m in enumerate(one.mutants) if i % parts == part}
