"""Fit the constants of nv.matmul's model to measured times, and say what its choice loses.

    python benchmarks/search_matmul.py squares-f16 --top 40 --out times.json
    python benchmarks/fit_model.py times.json [more.json ...] [--held 120] [--only LOAD REQUEST]

Gauss-Newton on the logarithms of times. Within a product only ratios count, as a chip's clock follows its power, and
what is near the best counts most. ``--held``: beside so many random products the model stays what it was, in scale,
too, as times of every kind are hardly ever at hand.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks.drawn import DRAWN  # noqa: E402
from nvdsl.kernels.gemm import model  # noqa: E402
from nvdsl.kernels.gemm.choose import allowed  # noqa: E402
from nvdsl.kernels.gemm.config import Config  # noqa: E402

CONSTANTS = (
    "LOAD", "REQUEST", "OFF_GRID", "OFF_SECTOR", "DELIVER", "PANELS", "LINES_OFF_GRID", "LINES_OFF_SECTOR", "APART",
    "RAGGED", "TURNED", "LATENCY", "CALM", "READ", "LEAST", "NORM", "TAIL", "DRAIN", "WIDE", "LONG", "ROLLED",
    "WRITTEN", "CUT", "FIXUP", "EXCHANGE", "EXCHANGED", "PARTED", "GIVEN", "ADDED", "SUMMED", "START", "TOGETHER",
    "COUPLED", "HANGING", "HANGING_MORE", "EMPTY", "SPLIT", "MEMORY", "FLUSHED", "OVERLAP", "POWER",
)  # fmt: skip
FAR = 0.07
"""How far from the best (a logarithm) a time counts 1/e as much."""
CLIPPED = 0.12
"""From an error of so much on, more hardly counts."""
FEW = 2.0
"""How much products of few rows or columns count: where memory is what they wait for, constants of their own matter."""
HELD, SCALE = 0.35, 0.25
"""How much a product counts whose times are the model's own, and how much their common factor."""
PRIOR = 2e-4
"""How much a constant's own change counts."""
LONGEST, STEP = 0.3, 0.02
"""Of a constant's logarithm: a step of the fit, and what derivatives are taken over."""

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


def held(count: int) -> list[Times]:
    """Random products of several types and layouts, with what the model says they take."""
    draw, found = random.Random(7), []
    for which in range(count):
        name, kinds = HELD_SETS[which % len(HELD_SETS)]
        dtype, acc, out, layout = draw.choice(kinds.split()).split(".")
        types = (getattr(nv, "f32" if x == "tf32" else x) for x in (dtype, out, acc))
        sizes = (max(8, nv.cdiv(x, 8) * 8) for x in DRAWN[name][1](draw))
        shape = model.Shape(*sizes, *types, 1, "mn" if layout[0] == "T" else "k", "k" if layout[1] == "T" else "mn")
        found_here = allowed(shape, False)
        times = model.times(found_here, shape)[:, 0]
        near = [i for i in range(len(times)) if times[i] < 1.2 * times.min()]
        some = sorted({*draw.sample(near, min(45, len(near))), int(times.argmin())})
        found.append((shape, tuple(found_here[i] for i in some), times[some]))
    return found


HELD_SETS = (
    ("random-squares", "bf16.f32.bf16.NN bf16.f32.bf16.NT"), ("layers", "bf16.f32.bf16.NT"),
    ("long-k", "bf16.f32.bf16.NT"),
    ("random-types", "e4m3.f32.bf16.NT i8.i32.i32.NT tf32.f32.f32.NT tf32.f32.f32.NN"),
    ("random", "bf16.f32.bf16.NN bf16.f32.bf16.NT bf16.f32.bf16.TN"),
)  # fmt: skip


def weights(each: Times) -> np.ndarray:
    """A time counts as it is near the best, or as the model thinks it is: what looks good and is not matters, too."""
    shape, configs, ms = each
    cycles = model.times(configs, shape)[:, 0]
    near = np.exp(-np.minimum(np.log(ms / ms.min()), np.log(cycles / cycles.min())) / FAR)
    return near / near.sum() * (FEW if min(shape.m, shape.n) < 256 else 1)


def fit(data: list[Times], kept: list[Times], names: list[str], steps: int = 8) -> None:
    """Change the model's constants by Gauss-Newton: each by a factor, so that within a product the ratios of times are
    told well, and those of ``kept`` stay what they are."""
    start = x = np.log([getattr(model, name) for name in names])
    prior = np.sqrt(PRIOR * (len(data) + len(kept)) / len(names))

    def errors(x: np.ndarray, weighted: list[np.ndarray]) -> np.ndarray:
        for name, value in zip(names, x, strict=True):
            setattr(model, name, float(np.exp(value)))
        found = []
        for n, ((shape, configs, ms), w) in enumerate(zip([*data, *kept], weighted, strict=True)):
            error = np.log(ms / model.times(configs, shape)[:, 0])
            if n >= len(data):
                found.append(np.array([SCALE * np.median(error)]))
            error = error - (w * error).sum() / w.sum()
            found.append(np.sqrt(w) * error / (1 + (error / CLIPPED) ** 2) ** 0.25)
        return np.concatenate([*found, prior * (x - start)])

    damping = 1e-3
    for _ in range(steps):
        weighted = [w * (HELD if n >= len(data) else 1) for n, w in enumerate(map(weights, [*data, *kept]))]
        now = errors(x, weighted)
        slopes = np.stack([(errors(x + STEP * one, weighted) - now) / STEP for one in np.eye(len(x))], axis=1)
        curved, downhill = slopes.T @ slopes, slopes.T @ now
        for _ in range(6):
            step = -np.linalg.solve(curved + damping * np.diag(np.diag(curved) + 1e-9), downhill)
            then = x + np.clip(step, -LONGEST, LONGEST)
            if (errors(then, weighted) ** 2).sum() < (now**2).sum():
                x, damping = then, damping / 3
                break
            damping *= 4
    errors(x, weighted)


def losses(data: list[Times]) -> list[tuple[float, Times]]:
    """How much longer the model's choice took than the best that was tried, the worst first."""
    found = [(float(t[2][model.times(t[1], t[0])[:, 0].argmin()] / t[2].min() - 1), t) for t in data]
    return sorted(found, key=lambda each: -each[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", nargs="+", type=Path, help="what search_matmul.py has written")
    parser.add_argument("--only", nargs="+", choices=CONSTANTS, default=CONSTANTS, metavar="NAME", help="fit these")
    parser.add_argument("--held", type=int, default=120, help="random products beside which it stays what it was")
    args = parser.parse_args()
    data: list[Any] = [each for path in args.times for each in read(path)]
    print(f"{len(data)} problems, {sum(len(configs) for _, configs, _ in data)} times")
    print(f"before: the choice loses {np.mean([loss for loss, _ in losses(data)]):.2%}")
    fit(data, held(args.held), list(args.only))
    print({name: round(getattr(model, name), 4) for name in args.only})
    after = losses(data)
    print(f"after: {np.mean([loss for loss, _ in after]):.2%}; the worst:")
    for loss, (shape, configs, ms) in after[:8]:
        chosen, best = configs[int(model.times(configs, shape)[:, 0].argmin())], configs[int(ms.argmin())]
        print(f"{loss:7.1%}  {shape.m}x{shape.n}x{shape.k}  {chosen}, best {best}")


if __name__ == "__main__":
    main()
