"""Chapters 1 and 2 beside torch: y = alpha * x + y in f32, GB/s counting x and y read and y written.

    python benchmarks/bench_saxpy.py [--out benchmarks/results/saxpy-h200.json]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.paired import machine, measure, write
from chapters import ch1_saxpy as ch1
from chapters import ch2_tma_saxpy as ch2

CASES = {"chapter 1": (ch1.saxpy, (1 << 26,)), "chapter 2": (ch2.saxpy, (8192, 8192))}


def run(name: str, pairs: int) -> dict:
    function, shape = CASES[name]
    generator = torch.Generator(device="cuda").manual_seed(0)
    x, y = (torch.randn(shape, generator=generator, device="cuda") for _ in range(2))
    expected = torch.add(y, x, alpha=2.0)
    got = y.clone()
    function(x, got, 2.0)
    if not torch.allclose(got, expected, rtol=1e-6, atol=1e-6):
        raise SystemExit(f"{name}: wrong result")
    # alpha is tiny, so that y stays what it is over many calls
    timed = measure(lambda: function(x, y, 1e-9), lambda: torch.add(y, x, alpha=1e-9, out=y), pairs).summary()
    gb = 3 * x.numel() * 4 / 1e6
    return {
        "kernel": name, "elements": x.numel(), "gb_s": gb / timed["a_ms"], "torch_gb_s": gb / timed["b_ms"],
        **{k: timed[k] for k in ("ratio", "ratio_low", "ratio_high")},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [run(name, args.pairs) for name in CASES]
    print(f"{'kernel':<12}{'elements':>10}{'GB/s':>8}{'torch':>8}{'ratio':>8}")
    for r in rows:
        print(f"{r['kernel']:<12}{r['elements']:>10}{r['gb_s']:>8.0f}{r['torch_gb_s']:>8.0f}{r['ratio']:>8.3f}")
    if args.out:
        write(args.out, "bench_saxpy.py", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
