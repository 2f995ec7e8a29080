"""Fit the constants of nv.matmul's model to measured times, and say what its choice loses.

    python benchmarks/search_matmul.py squares-f16 --top 40 --out times.json
    python benchmarks/fit_model.py times.json [more.json ...] [--only LOAD REQUEST]

What counts is the choice: the loss to be expected beside the best that was tried, where the model's times decide
up to `DOUBT`. It is lowered one constant of `nvdsl/kernels/gemm/model.py` after the other. Within a problem only ratios
count, as a chip's clock follows its power.
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
DOUBT = 0.02
"""A time so much above the least (its logarithm) is chosen 1/e as often."""
FAR, FITTED = 0.12, 0.08
"""How well times are told counts a little, too: so much, and the less the farther they are above the best."""
AWFUL, WORST = 0.05, 0.5
"""From a loss of this on each more counts so much again."""
PRIOR = 2e-3
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


def expected(data: list[Times]) -> float:
    """The mean loss of choices by the model."""
    found = []
    for shape, configs, ms in data:
        cycles, loss = np.log(model.times(configs, shape)[:, 0]), np.log(ms / ms.min())
        chosen, near = np.exp((cycles.min() - cycles) / DOUBT), np.exp(-loss / FAR)
        error = loss - cycles
        error = error - (error * near).sum() / near.sum()
        told = np.sqrt((near * error**2).sum() / near.sum())
        awful = WORST * max(0.0, loss[cycles.argmin()] - AWFUL)
        found.append((chosen * np.minimum(loss, 0.5)).sum() / chosen.sum() + awful + FITTED * told)
    return float(np.mean(found))


def fit(data: list[Times], names: list[str], sweeps: int = 6, step: float = 0.12) -> None:
    """Change the model's constants, each by a factor."""
    start = {name: getattr(model, name) for name in names}
    steps = dict.fromkeys(names, step)

    def now() -> float:
        changes = [np.log(getattr(model, name) / start[name]) ** 2 for name in names]
        return expected(data) + PRIOR * float(np.mean(changes))

    best = now()
    for _ in range(sweeps):
        for name in names:
            before = getattr(model, name)
            for factor in (steps[name], -steps[name]):
                setattr(model, name, before * float(np.exp(factor)))
                if (then := now()) < best:
                    best, steps[name] = then, steps[name] * 1.3
                    break
            else:
                setattr(model, name, before)
                steps[name] /= 2


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
