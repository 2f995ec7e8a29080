"""Which few configurations lose the least on random shapes, in nv.matmul's model: `choose.COMMON`.

    python benchmarks/common_configs.py --count 17 [--seed 5]

One after the other, each that lowers the mean loss the most; then each is exchanged for a better one, if there is one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks.drawn import drawn  # noqa: E402
from nvdsl.kernels.gemm.choose import key  # noqa: E402
from nvdsl.kernels.gemm.model import Shape, times  # noqa: E402
from nvdsl.kernels.gemm.tiles import legal  # noqa: E402

SETS = {
    "random": (500, 0.6), "random-large": (250, 1.2), "random-squares": (80, 2.0), "layers": (120, 1.2),
    "few-rows": (100, 1.2), "long-k": (25, 1.0),
}  # fmt: skip
"""Of `drawn`: how many, and how much each of them counts."""
POWER = 1.3
"""Of a loss: large ones count more."""


def shapes(seed: int) -> list[tuple[str, Shape]]:
    """Of bf16, with K contiguous; extents as TMA reads them, multiples of 8."""
    found = []
    for name, (count, _) in SETS.items():
        for w in drawn(name, seed, count):
            m, n, k = (max(8, -(-x // 8) * 8) if name == "random" else x for x in (w.m, w.n, w.k))
            found.append((name, Shape(m, n, k, nv.bf16, nv.bf16, b_major="k")))
    return found


def few(losses: np.ndarray, weights: np.ndarray, count: int) -> list[int]:
    """Rows of ``losses`` (configurations down, shapes right)."""

    def best(beside: list[int]) -> int:
        least = losses[beside].min(axis=0) if beside else np.inf
        return int((np.minimum(losses, least) ** POWER @ weights).argmin())

    chosen: list[int] = []
    while len(chosen) < count:
        chosen.append(best(chosen))
    for _ in range(2):
        for at in range(count):
            chosen[at] = best(chosen[:at] + chosen[at + 1 :])
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=17)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    wanted, every = shapes(args.seed), legal(nv.bf16, nv.bf16, nv.f32, False, "k", "k")
    cycles = np.stack([times(every, shape)[:, 0] for _, shape in wanted], axis=1)
    losses = np.log(cycles / cycles.min(axis=0))
    weights = np.array([SETS[name][1] for name, _ in wanted])
    keys = [key(config) for config in every]
    chosen = few(losses, weights, args.count)
    for each in sorted(keys[i] for i in chosen):
        print(f"    {each},")
    left = losses[chosen].min(axis=0)
    for name in SETS:
        mine = left[[each == name for each, _ in wanted]]
        print(f"{name}: loses {mine.mean():.2%}, at most {mine.max():.1%}")


if __name__ == "__main__":
    main()
