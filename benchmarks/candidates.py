"""Configurations that a search tries, ordered by nvdsl's model of their time before anything is compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields
from typing import Any

import nvdsl as nv
from benchmarks.problems import Workload
from nvdsl.kernels.gemm.config import Config


def ranked(problem: Workload, top: int | None = None, alike: int | None = None) -> list[dict[str, Any]]:
    """The configurations that nvdsl chooses from, the most promising first: fields of `nvdsl.kernels.Config` that
    differ from its defaults. ``top``: how many; ``alike``: and how many of one schedule, cluster and number of rows.
    """
    from nvdsl.kernels.gemm.model import Shape, cycles
    from nvdsl.kernels.gemm.tiles import legal

    dtype, out, acc = _dtypes(problem)
    majors = _majors(problem)
    shape = Shape(problem.m, problem.n, problem.k, dtype, out, acc, 1, *majors)
    found = sorted(legal(dtype, out, acc, False, *majors), key=lambda config: cycles(config, shape))
    families: Counter[Any] = Counter()
    kept = []
    for config in found:
        family = config.schedule, config.tile_m, config.cluster_m, config.cluster_n, config.parts > 1
        families[family] += 1
        if alike is None or families[family] <= alike:
            kept.append(shorter(asdict(config)))
    return kept[:top]


def can_run(config: dict[str, Any], problem: Workload) -> bool:
    """Whether the hardware and the kernels can run it for these types."""
    given = Config(**config)
    a_major, b_major = _majors(problem)
    return not given.problems(*_dtypes(problem), a_major if given.swap_ab else b_major)


def _majors(problem: Workload) -> tuple[str, str]:
    """Which axis of A, and of B, is contiguous."""
    return "mn" if problem.layout[0] == "T" else "k", "k" if problem.layout[1] == "T" else "mn"


def _dtypes(problem: Workload) -> list[nv.DType]:
    return [getattr(nv, "f32" if name == "tf32" else name) for name in (problem.dtype, problem.out, problem.acc)]


def shorter(config: dict[str, Any]) -> dict[str, Any]:
    """Without what is Config's default anyway."""
    defaults = {f.name: f.default for f in fields(Config)}
    return {name: value for name, value in config.items() if defaults.get(name, ...) != value}


def words(config: dict[str, Any] | None) -> str:
    """A configuration in a few words: pingpong 128x192x64, group=12."""
    if config is None:
        return "its own choice"
    full = Config(**config)
    shown = ("tile_m", "tile_n", "tile_k", "schedule")
    others = [f"{name}={value}" for name, value in config.items() if name not in shown]
    return ", ".join([f"{full.schedule} {full.tile_m}x{full.tile_n}x{full.tile_k}", *others])
