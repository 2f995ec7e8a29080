"""Which few configurations lose the least on random shapes, in nv.matmul's model: `choose.COMMON`.

    python benchmarks/common_configs.py --count 16 [--seed 5]

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
from benchmarks.fit_roads import product  # noqa: E402
from nvdsl.hopper import arch  # noqa: E402
from nvdsl.kernels.gemm.choose import Key, allowed, key  # noqa: E402
from nvdsl.kernels.gemm.dispatch import fastest  # noqa: E402
from nvdsl.kernels.gemm.estimates import Seen  # noqa: E402
from nvdsl.kernels.gemm.factors import factors  # noqa: E402
from nvdsl.kernels.gemm.model import Shape, grid, times  # noqa: E402
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, GemmProblem, fits_tma  # noqa: E402

SETS = {"random": (1000, 0.5), "random-large": (250, 1.2), "random-squares": (80, 2.0), "layers": (120, 1.2),
        "few-rows": (100, 2.0), "long-k": (25, 1.0)}  # fmt: skip
"""Of `drawn`: how many, and how much each of them counts. Of random ones those that tensor cores compute; about half of
these have results that TMA can't store."""
KINDS = [*("bf16.f32.bf16." + layout for layout in ("NN", "NT", "TN", "TT")), "f32.f32.f32.NT", "f32.f32.f32.NN",
         "e4m3.f32.bf16.NT", "i8.i32.i32.NT"]  # fmt: skip
"""Of random ones, in turn."""
NONE = 2.0
"""The loss where there is no such configuration."""
POWER = 1.3
"""Of a loss: large ones count more."""


LAYOUTS = ("k", "k"), ("k", "mn"), ("k", "k"), ("mn", "mn"), ("k", "k"), ("mn", "k")
"""Which axes of A and B are contiguous, in turn: mostly K of both."""


def shapes(seed: int) -> list[tuple[str, Shape]]:
    found, kinds = [], itertools.cycle(KINDS)
    for w in drawn("random", seed, SETS["random"][0]):
        given = product({"m": w.m, "n": w.n, "k": w.k, "kind": next(kinds)})
        seen = Seen.of(given, arch.SMS)
        large = given.a.dtype.bits != 16 or fastest(given, seen, not seen.aligned)[0] == "tensor_cores"
        if 1 not in (w.m, w.n) and large:
            found.append(("random", shape_of(given)))
    for name in list(SETS)[1:]:
        for w, (a_major, b_major) in zip(drawn(name, seed, SETS[name][0]), itertools.cycle(LAYOUTS), strict=False):
            found.append((name, Shape(w.m, w.n, w.k, nv.bf16, nv.bf16, a_major=a_major, b_major=b_major)))
    return found


def shape_of(given: GemmProblem) -> Shape:
    (a, a_axis), (b, b_axis) = factors(given, None)
    grids = [int(grid(-(-x.strides[-2] * x.dtype.bytes // TMA_ALIGNMENT) * TMA_ALIGNMENT)) for x in (a, b)]
    majors = "k" if a_axis == 1 else "mn", "k" if b_axis == 0 else "mn"
    kind = given.a.dtype, given.out_dtype, given.acc_dtype, 1, *majors, (grids[0], grids[1])
    return Shape(*given.sizes, *kind, not fits_tma(given.out))


def losses_of(wanted: list[Shape]) -> tuple[list[Key], np.ndarray]:
    """Configurations, and how much longer each takes than the best (down) for each shape (right); one that a layout
    lacks, as long as anything."""
    found: dict[Key, np.ndarray] = {}
    for i, shape in enumerate(wanted):
        every = allowed(shape, False)
        cycles = times(every, shape)[:, 0]
        for config, loss in zip(every, np.log(cycles / cycles.min()), strict=True):
            found.setdefault(key(config), np.full(len(wanted), NONE))[i] = min(loss, NONE)
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
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    wanted = shapes(args.seed)
    keys, losses = losses_of([shape for _, shape in wanted])
    weights = np.array([SETS[name][1] for name, _ in wanted])
    chosen = few(losses, weights, args.count)
    for each in sorted(keys[i] for i in chosen):
        print(f"    {each},")
    left = losses[chosen].min(axis=0)
    for name in dict.fromkeys(name for name, _ in wanted):
        mine = left[[each == name for each, _ in wanted]]
        print(f"{name}: loses {mine.mean():.2%}, at most {mine.max():.1%}")


if __name__ == "__main__":
    main()
