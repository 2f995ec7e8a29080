"""Which few configurations lose the least on random shapes, in nv.matmul's model: `choose.COMMON`.

    python benchmarks/common_configs.py --count 8 [--seed 5]

One after the other, each that lowers the mean loss the most; then each is exchanged for a better one, if there is one.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks.drawn import drawn  # noqa: E402
from nvdsl.kernels.gemm.choose import Key, key  # noqa: E402
from nvdsl.kernels.gemm.model import Shape, times  # noqa: E402
from nvdsl.kernels.gemm.tiles import legal  # noqa: E402

SETS = {
    "random": (500, 0.6), "random-large": (250, 1.2), "random-squares": (80, 2.0), "layers": (120, 1.2),
    "few-rows": (100, 2.0), "long-k": (25, 1.0),
}  # fmt: skip
"""Of `drawn`: how many, and how much each of them counts."""
NONE = 2.0
"""The loss where there is no such configuration."""
POWER = 1.3
"""Of a loss: large ones count more."""


LAYOUTS = ("k", "k"), ("k", "mn"), ("k", "k"), ("mn", "mn"), ("k", "k"), ("mn", "k")
"""Which axes of A and B are contiguous, in turn: mostly K of both."""


def shapes(seed: int) -> list[tuple[str, Shape]]:
    """Of bf16; extents as TMA reads them, multiples of 8."""
    found = []
    for name, (count, _) in SETS.items():
        for w, (a_major, b_major) in zip(drawn(name, seed, count), itertools.cycle(LAYOUTS), strict=False):
            m, n, k = (max(8, -(-x // 8) * 8) if name == "random" else x for x in (w.m, w.n, w.k))
            found.append((name, Shape(m, n, k, nv.bf16, nv.bf16, a_major=a_major, b_major=b_major)))
    return found


def losses_of(wanted: list[Shape]) -> tuple[list[Key], np.ndarray]:
    """Configurations, and how much longer each takes than the best (down) for each shape (right); one that a layout
    lacks, as long as anything."""
    found: dict[Key, np.ndarray] = {}
    for i, shape in enumerate(wanted):
        every = legal(nv.bf16, nv.bf16, nv.f32, False, shape.a_major, shape.b_major)
        cycles = times(every, shape)[:, 0]
        for config, loss in zip(every, np.log(cycles / cycles.min()), strict=True):
            found.setdefault(key(config), np.full(len(wanted), NONE))[i] = loss
    return list(found), np.stack(list(found.values()))


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
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    wanted = shapes(args.seed)
    keys, losses = losses_of([shape for _, shape in wanted])
    weights = np.array([SETS[name][1] for name, _ in wanted])
    chosen = few(losses, weights, args.count)
    for each in sorted(keys[i] for i in chosen):
        print(f"    {each},")
    left = losses[chosen].min(axis=0)
    for name in SETS:
        mine = left[[each == name for each, _ in wanted]]
        print(f"{name}: loses {mine.mean():.2%}, at most {mine.max():.1%}")


if __name__ == "__main__":
    main()
