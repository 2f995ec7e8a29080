"""Fit the constants of nv.matmul's model to measured times, and say what its choice loses.

    python benchmarks/search_matmul.py squares-f16 --top 40 --out times.json
    python benchmarks/fit_model.py times.json [more.json ...] [--only LOAD REQUEST]

Within a problem only ratios count: a chip's clock follows its power. What is far from a problem's best counts little.
Levenberg and Marquardt's method on the logarithms of the constants (`nvdsl/kernels/gemm/model.py`), which it prints.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from nvdsl.kernels.gemm import model  # noqa: E402
from nvdsl.kernels.gemm.config import Config  # noqa: E402

CONSTANTS = (
    "LOAD", "REQUEST", "OFF_GRID", "OFF_SECTOR", "DELIVER", "PANELS",
    "LINES_OFF_GRID", "LINES_OFF_SECTOR", "RAGGED", "TURNED", "LATENCY", "NORM", "TAIL", "DRAIN", "CUT", "FIXUP",
    "EXCHANGE", "EXCHANGED", "PARTED", "GIVEN", "START", "TOGETHER", "COUPLED", "MEMORY", "FLUSHED", "OVERLAP",
)  # fmt: skip
FAR = 0.12
"""A time so much above the best (its logarithm) counts 1/e."""
CLOCK = 1.75e9
PRIOR = 0.02
"""How much a constant's own change counts."""

Times = tuple[model.Shape, tuple[Config, ...], np.ndarray]


def read(path: Path) -> list[Times]:
    """What `search_matmul` tried, or `bench_kinds` of shapes that no operand is copied for."""
    found = []
    for row in json.loads(path.read_text())["rows"]:
        p = row.get("problem", row)
        dtype, out, acc = (getattr(nv, "f32" if p[x] == "tf32" else p[x]) for x in ("dtype", "out", "acc"))
        majors = "mn" if p["layout"][0] == "T" else "k", "k" if p["layout"][1] == "T" else "mn"
        if "copy" in row.get("road", ""):
            continue
        tried = [x for x in row.get("tried", row.get("products", ())) if x.get("config") and "failed" not in x]
        times = [(Config(**x["config"]), x.get("coarse_ms", x.get("ms"))) for x in tried]
        shape = model.Shape(p["m"], p["n"], p["k"], dtype, out, acc, 1, *majors)
        times = [(config, ms) for config, ms in times if ms is not None and np.isfinite(model.cycles(config, shape))]
        if len(times) > 1:
            found.append((shape, tuple(c for c, _ in times), np.array([ms for _, ms in times])))
    return found


def residuals(data: list[Times]) -> np.ndarray:
    found = []
    for shape, configs, ms in data:
        error = np.log(ms * 1e-3 * CLOCK / model.times(configs, shape)[:, 0])
        near = np.exp(-np.log(ms / ms.min()) / FAR)
        scale = (error * near).sum() / near.sum()
        weight = np.sqrt((near + 0.03) / (near + 0.03).sum())
        found += [*(2 * (error - scale) * weight), 0.15 * scale]
    return np.array(found)


def fit(data: list[Times], names: list[str], rounds: int = 30) -> float:
    """Change the model's constants; returns what is left."""
    start = np.log([getattr(model, name) for name in names])

    def errors(x: np.ndarray) -> np.ndarray:
        for name, value in zip(names, x, strict=True):
            setattr(model, name, float(np.exp(value)))
        return np.concatenate([residuals(data), PRIOR * (x - start)])

    x, damping = start.copy(), 1.0
    now = errors(x)
    for _ in range(rounds):
        slopes = np.stack([(errors(x + 1e-3 * step) - now) / 1e-3 for step in np.eye(len(x))], axis=1)
        square, before = slopes.T @ slopes, now @ now
        for _ in range(6):
            damped = square + damping * np.diag(np.diag(square) + 1e-6)
            change = np.clip(-np.linalg.solve(damped, slopes.T @ now), -0.7, 0.7)
            then = errors(x + change)
            if then @ then < before:
                x, now, damping = x + change, then, damping / 3
                break
            damping *= 4
        if before - now @ now < 1e-6 * before:
            break
    errors(x)
    return float(now @ now)


def losses(data: list[Times]) -> list[tuple[float, Times]]:
    """How much longer the model's choice took than the best that was tried, the worst first."""
    found = [(float(t[2][model.times(t[1], t[0])[:, 0].argmin()] / t[2].min() - 1), t) for t in data]
    return sorted(found, key=lambda each: -each[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", nargs="+", type=Path, help="what search_matmul.py has written")
    parser.add_argument("--only", nargs="+", choices=CONSTANTS, default=CONSTANTS, metavar="NAME", help="fit these")
    args = parser.parse_args()
    data: list[Any] = [each for path in args.times for each in read(path)]
    print(f"{len(data)} problems, {sum(len(configs) for _, configs, _ in data)} times")
    print(f"before: the choice loses {np.mean([loss for loss, _ in losses(data)]):.2%}")
    fit(data, list(args.only))
    print({name: round(getattr(model, name), 4) for name in args.only})
    after = losses(data)
    print(f"after: {np.mean([loss for loss, _ in after]):.2%}; the worst:")
    for loss, (shape, configs, ms) in after[:8]:
        chosen, best = configs[int(model.times(configs, shape)[:, 0].argmin())], configs[int(ms.argmin())]
        print(f"{loss:7.1%}  {shape.m}x{shape.n}x{shape.k}  {chosen}, best {best}")


if __name__ == "__main__":
    main()
