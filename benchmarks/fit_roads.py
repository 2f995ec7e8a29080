"""Fit the constants of `nvdsl.kernels.gemm.estimates` to times, and say what the road with the least time loses.

    python benchmarks/bench_roads.py random:200 --out build/roads.json
    python benchmarks/fit_roads.py build/roads.json [more.json ...]

Each road's constants are found by least squares of its times' relative errors, where none may be negative; a time
counts the less the farther it is above that of the best road.
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
from benchmarks.bench_matmul import BARS, geometric_mean  # noqa: E402
from benchmarks.bench_roads import CHOSEN  # noqa: E402
from nvdsl.hopper import arch  # noqa: E402
from nvdsl.kernels.gemm import estimates  # noqa: E402
from nvdsl.kernels.gemm.dispatch import fastest  # noqa: E402
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix  # noqa: E402

LARGE = 1 << 33
"""Multiplications from which on only tensor cores are in question."""
NEAR = 1.3
"""Times within so many times the best one's are those whose errors are told."""
SLOW = 1.05
"""A choice that takes so many times as long as the best road is told."""


def product(row: dict[str, Any]) -> GemmProblem:
    m, n, k = row["m"], row["n"], row["k"]
    dtype, _, _, layout, *_ = row["kind"].split(".")
    strides = {"N": (k, 1), "T": (1, m)}[layout[0]], {"N": (n, 1), "T": (1, k)}[layout[1]]
    a, b = (Matrix(getattr(nv, dtype), x, y) for x, y in zip(((m, k), (k, n)), strides, strict=True))
    return GemmProblem.of({"a": a, "b": b}, None, None)


def seen(row: dict[str, Any]) -> estimates.Seen:
    return estimates.Seen.of(product(row), arch.SMS)


def fitted(terms: np.ndarray, times: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Constants, none of them negative."""
    weights = (best / times) ** 1.0 / times
    kept = list(range(terms.shape[1]))
    while True:
        found = np.linalg.lstsq(terms[:, kept] * weights[:, None], times * weights, rcond=None)[0]
        if (found >= 0).all():
            constants = np.zeros(terms.shape[1])
            constants[kept] = found
            return constants
        kept.pop(int(found.argmin()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--keep", action="store_true", help="judge the constants that are there")
    args = parser.parse_args()
    rows = [row for path in args.files for row in json.loads(path.read_text())["rows"]]
    rows = [r for r in rows if len(r["us"]) > 1 and r["m"] * r["n"] * r["k"] < LARGE]
    known = {id(row): seen(row) for row in rows}
    constants: dict[str, estimates.Terms] = dict(estimates.MICROSECONDS)
    for road, terms in estimates.TERMS.items():
        mine = [r for r in rows if road in r["us"]]
        x, times = np.array([terms(known[id(r)]) for r in mine], float), np.array([r["us"][road] for r in mine])
        best = np.array([min(r["us"].values()) for r in mine])
        if not args.keep:
            constants[road] = tuple(float(f"{c:.4g}") for c in fitted(x, times, best))
        errors = np.abs(x @ np.array(constants[road]) / times - 1)[times < NEAR * best]
        middle, most = np.quantile(errors, [0.5, 0.9])
        print(f'    "{road}": {constants[road]},  # errors of {len(mine)}: {middle:.3f}, {most:.3f}')
    estimates.MICROSECONDS = constants
    ratios: dict[str, list[float]] = {"by the estimates": [], "chosen": [], "the best": []}
    for r in rows:
        it = known[id(r)]
        roads = {name: estimates.microseconds(name, it) for name in r["us"] if name in constants}
        first = next((name for name in fastest(product(r), it, not it.aligned) if name in roads), None)
        if first is None or CHOSEN not in r["us"]:
            continue
        took, least = r["us"][first], min(r["us"][name] for name in roads)
        for name, us in zip(ratios, (took, r["us"][CHOSEN], least), strict=True):
            ratios[name].append(r["cublas_us"] / us)
        if took > SLOW * least:
            told = "  ".join(f"{n} {r['us'][n]} ({x:.1f})" for n, x in roads.items() if r["us"][n] <= took)
            print(f"{r['m']}x{r['n']}x{r['k']}: {told}  cuBLAS {r['cublas_us']}")
    for name, values in ratios.items():
        under = [sum(x < bar for x in values) for bar in BARS]
        print(f"{name}: {geometric_mean(values):.4f} of {len(values)}, under {BARS} {under}")


if __name__ == "__main__":
    main()
