"""Configurations that a search tries, as data, ordered by a model of waves before anything is compiled."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from benchmarks.problems import BYTES, Problem

SMS = 132
PING = {"schedule": "pingpong"}

# What `nvdsl.kernels.choice` lacks: (tile_m, tile_n), what goes with it, and the speed of its main loop beside the best
# one's, by experience. It decides only what is tried.
FURTHER: tuple[tuple[tuple[int, int], dict[str, Any], float], ...] = (
    ((128, 192), {**PING, "group": 12}, 1.02),
    ((128, 192), {**PING, "group": 8}, 1.02),
    ((128, 256), {"group": 8}, 1.00),
    ((192, 192), {"stages": 3, "consumers": 3, "group": 10}, 0.99),
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
    ((64, 32), {"consumers": 1, "stages": 12, "store_buffers": 1}, 0.50),
    ((64, 16), {"consumers": 1, "stages": 14, "store_buffers": 1}, 0.40),
    ((128, 192), {"schedule": "streamk", "group": 12}, 0.96),
    ((192, 128), {"schedule": "streamk", "group": 8}, 0.95),
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
    found: dict[str, tuple[float, dict[str, Any]]] = {}
    for config, speed in _family(problem.acc):
        config = config | {"tile_k": 128 // BYTES[problem.dtype]}
        if can_run(config, problem):
            share = efficiency(problem, config["tile_m"], config["tile_n"], config["schedule"])
            found.setdefault(words(shorter(config)), (speed * share, shorter(config)))
    order = sorted(found.values(), key=lambda pair: -pair[0])
    return [config for _, config in order][:top]


def _family(acc: str) -> list[tuple[dict[str, Any], float]]:
    """All fields of each configuration, and its speed: nvdsl's own candidates, and further ones."""
    from nvdsl.kernels.choice import EFFICIENCY
    from nvdsl.kernels.config import Config

    family = [(asdict(config), speed) for config, speed in EFFICIENCY.items()]
    for (tile_m, tile_n), others, speed in (WIDE_SUMS_OF_F16 if acc == "f16" else ()) + FURTHER:
        family.append((asdict(Config(tile_m, tile_n, **others)), speed))
    return family


def can_run(config: dict[str, Any], problem: Problem) -> bool:
    """Whether the hardware and the kernels can run it for these types."""
    import nvdsl as nv
    from nvdsl.kernels.config import Config

    dtypes = [getattr(nv, "f32" if name == "tf32" else name) for name in (problem.dtype, problem.out, problem.acc)]
    return not Config(**config).problems(*dtypes)


def efficiency(problem: Problem, tile_m: int, tile_n: int, schedule: str) -> float:
    """The share of the SMs' time that goes into elements of the result."""
    tiles = -(-problem.m // tile_m) * -(-problem.n // tile_n)
    rounds = tiles / SMS if schedule == "streamk" else -(-tiles // SMS)
    return problem.m * problem.n / (rounds * SMS * tile_m * tile_n)


def shorter(config: dict[str, Any]) -> dict[str, Any]:
    """Without what is Config's default anyway."""
    from nvdsl.kernels.config import Config

    defaults = {f.name: f.default for f in fields(Config)}
    return {name: value for name, value in config.items() if defaults.get(name, ...) != value}


def words(config: dict[str, Any] | None) -> str:
    """A configuration in a few words: pingpong 128x192x64, group=12."""
    from nvdsl.kernels.config import Config

    if config is None:
        return "its own choice"
    full = Config(**config)
    shown = ("tile_m", "tile_n", "tile_k", "schedule")
    others = [f"{name}={value}" for name, value in config.items() if name not in shown]
    return ", ".join([f"{full.schedule} {full.tile_m}x{full.tile_n}x{full.tile_k}", *others])
