"""Chapters 4 to 10 beside cuBLAS: f16 in, f32 sums, f16 out, paired in one run.

    python benchmarks/bench_gemm.py --sizes 2048 4096 8192 --out benchmarks/results/gemm-chapters.json

Each shape is checked against a float32 product of the same inputs before it is timed. Chapter 10 is tuned for each
size, ``--budget`` seconds at most.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.paired import machine, measure, write
from chapters import ch4_multistage_gemm as ch4
from chapters import ch5_warp_specialized_gemm as ch5
from chapters import ch6_tma_store_gemm as ch6
from chapters import ch7_persistent_gemm as ch7
from chapters import ch8_cluster_gemm as ch8
from chapters import ch9_pingpong_gemm as ch9
from chapters import ch10_autotuned_gemm as ch10

KERNELS = {
    "chapter 4": (ch4.gemm, {}),
    "chapter 5": (ch5.gemm, {}),
    "chapter 6": (ch6.gemm, {}),
    "chapter 7": (ch7.gemm, {}),
    "chapter 8": (ch8.gemm, {}),
    "chapter 9": (ch9.gemm, {}),
    "chapter 10": (ch10.gemm, {}),
}


def check(function, options, a, b, reference) -> float:
    """Relative error of one call into poisoned output; raises where it is not close."""
    d = torch.full((a.shape[0], b.shape[1]), float("nan"), dtype=torch.float16, device="cuda")
    function(a, b, d, **options)
    error = ((d.float() - reference).norm() / reference.norm()).item()
    if not error < 1e-3:
        raise SystemExit(f"wrong result: relative error {error}")
    return error


def run(n: int, pairs: int, budget: float) -> list[dict]:
    generator = torch.Generator(device="cuda").manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator, device="cuda").half() for _ in range(2))
    torch.backends.cuda.matmul.allow_tf32 = False
    reference = a.float() @ b.float()
    out, d = torch.empty_like(a), torch.empty_like(a)
    rows = []
    for name, (function, options) in KERNELS.items():
        tuned = {}
        if function is ch10.gemm:
            tuned = {"config": function.tune(a, b, d, budget=budget).config.plain()}
        error = check(function, options, a, b, reference)
        timed = measure(
            lambda f=function, o=options: f(a, b, d, **o), lambda: torch.matmul(a, b, out=out), pairs
        ).summary()
        flops = 2 * n**3
        rows.append(
            {
                "kernel": name,
                "n": n,
                **tuned,
                "error": error,
                "tflops": flops / timed["a_ms"] / 1e9,
                "cublas_tflops": flops / timed["b_ms"] / 1e9,
                **{k: timed[k] for k in ("ratio", "ratio_low", "ratio_high")},
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--budget", type=float, default=45.0, help="seconds for tuning chapter 10, for each size")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for n in args.sizes:
        rows += run(n, args.pairs, args.budget)
    print(f"{'kernel':<12}{'n':>7}{'TFLOPS':>9}{'cuBLAS':>9}{'ratio':>8}{'10%..90%':>16}{'error':>10}")
    for r in rows:
        spread = f"{r['ratio_low']:.3f}..{r['ratio_high']:.3f}"
        print(
            f"{r['kernel']:<12}{r['n']:>7}{r['tflops']:>9.0f}{r['cublas_tflops']:>9.0f}{r['ratio']:>8.3f}"
            f"{spread:>16}{r['error']:>10.1e}"
        )
    if args.out:
        write(args.out, "bench_gemm.py", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
