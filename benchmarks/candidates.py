"""Configurations that a search tries, as data, ordered by nvdsl's model of their time before anything is compiled."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import nvdsl as nv
from benchmarks.problems import Problem
from nvdsl.hopper import arch
from nvdsl.kernels.gemm.config import Config

PING = {"schedule": "pingpong"}
SPLIT = {"schedule": "splitk", "split": 2, "store_buffers": 1}

# What `nvdsl.kernels.gemm.choose` lacks: (tile_m, tile_n), what goes with it, and its rate there, a guess. It decides
# only what is tried.
FURTHER: tuple[tuple[tuple[int, int], dict[str, Any], float], ...] = (
    ((128, 192), {**PING, "group": 12}, 1.02),
    ((128, 192), {**PING, "group": 8}, 1.02),
    ((128, 256), {"group": 8}, 1.00),
    ((192, 128), {"consumers": 3, "group": 10}, 0.97),
    ((256, 160), {"stages": 3, "group": 8}, 0.95),
    ((128, 144), {**PING, "group": 12}, 0.93),
    ((64, 256), {**PING, "group": 16}, 0.92),
    ((128, 112), {**PING, "group": 12, "stages": 6}, 0.90),
    ((64, 192), {**PING, "group": 16, "stages": 5}, 0.86),
    ((64, 128), {**PING, "group": 16, "stages": 8}, 0.80),
    ((128, 96), {"group": 12, "stages": 6}, 0.85),
    ((64, 192), {"consumers": 1, "stages": 6, "store_buffers": 3}, 0.82),
    ((64, 96), {"consumers": 1, "stages": 8}, 0.70),
    ((64, 64), {"consumers": 1, "stages": 10}, 0.60),
    ((128, 208), {"group": 12}, 0.95),
    ((192, 112), {"consumers": 3, "stages": 5, "store_buffers": 1}, 0.90),
    ((192, 144), {"consumers": 3, "store_buffers": 1}, 0.93),
    ((256, 144), {"stages": 3, "group": 8}, 0.94),
    ((64, 48), {"consumers": 1, "stages": 13, "store_buffers": 1}, 0.50),
    ((64, 32), {"consumers": 1, "stages": 13, "store_buffers": 1}, 0.50),
    ((128, 64), {"consumers": 1, "stages": 8, "store_buffers": 1}, 0.75),
    ((128, 112), {"consumers": 1, "stages": 6, "store_buffers": 1}, 0.80),
    ((128, 128), {"consumers": 1, "stages": 6}, 0.90),
    ((64, 32), {**SPLIT, "consumers": 1, "stages": 7}, 0.30),
    ((64, 64), {**SPLIT, "consumers": 1, "stages": 11}, 0.40),
    ((64, 96), {**SPLIT, "consumers": 1, "stages": 8}, 0.40),
    ((64, 256), {**SPLIT, "consumers": 1, "stages": 3}, 0.40),
    ((64, 128), {**SPLIT, "split": 4, "consumers": 1, "stages": 7}, 0.40),
    ((128, 64), {**SPLIT, "consumers": 1, "stages": 7}, 0.60),
    ((128, 128), {**SPLIT, "consumers": 1}, 0.70),
)  # fmt: skip

WIDE_SUMS_OF_F16: tuple[tuple[tuple[int, int], dict[str, Any], float], ...] = (
    ((256, 256), {"stages": 3, "group": 8}, 1.10),
    ((256, 192), {"stages": 3, "group": 8}, 1.05),
    ((128, 256), {**PING, "group": 12}, 1.05),
    ((256, 128), {**PING, "group": 8}, 1.05),
)
"""Sums of f16 take half the registers: tiles of twice the size fit."""


def ranked(problem: Problem, top: int | None = None) -> list[dict[str, Any]]:
    """Configurations that can run, the most promising first: fields of `nvdsl.kernels.Config` that differ from its
    defaults. ``top``: how many."""
    from nvdsl.kernels.gemm import choose

    dtype, out, acc = _dtypes(problem)
    majors = "k" if problem.layout[1] == "T" else "mn", "mn" if problem.layout[0] == "T" else "k"
    found = {}
    for rate, config in family(problem.acc):
        fitted = choose.fit(config, dtype)
        if not fitted.problems(dtype, out, acc):
            time = choose.time(fitted, rate, problem.m, problem.n, problem.k, dtype, out, 1, arch.SMS, *majors)
            found.setdefault(fitted, time)
    return [shorter(asdict(config)) for config in sorted(found, key=found.__getitem__)][:top]


def family(acc: str) -> list[tuple[float, Config]]:
    """nvdsl's own candidates with their rates, and further ones."""
    from nvdsl.kernels.gemm.choose import CANDIDATES

    further = (WIDE_SUMS_OF_F16 if acc == "f16" else ()) + FURTHER
    return [*CANDIDATES, *((rate, Config(tile_m, tile_n, **others)) for (tile_m, tile_n), others, rate in further)]


def can_run(config: dict[str, Any], problem: Problem) -> bool:
    """Whether the hardware and the kernels can run it for these types."""
    return not Config(**config).problems(*_dtypes(problem))


def _dtypes(problem: Problem) -> list[nv.DType]:
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
