"""nvdsl.kernels.gemm beside cuBLAS on squares: f16 in, f32 sums, f16 out, paired in one run.

    python benchmarks/bench_squares.py --squares 1024 16384 256 --workers 14 \\
        --out benchmarks/results/squares-h200.json
    python benchmarks/bench_squares.py --sizes 4096 8192 --layouts nn nt tn tt

The configuration of each size is what the model in `nvdsl.kernels.choose` gives: nothing is tuned. Every shape is
checked against a float32 product of the same inputs, its output poisoned with NaN before. Workers are processes that
compile at the same time and measure one after the other.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import multiprocessing
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

Job = tuple[int, str]  # n, layout


def operands(n: int, layout: str) -> list[Any]:
    """Random A and B, each stored with its rows (``n``) or its columns (``t``) contiguous."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(n)
    stored = [torch.randn(n, n, generator=generator, device="cuda").half() for _ in range(2)]
    return [x if kind == "n" else x.t() for x, kind in zip(stored, layout, strict=True)]


def measured(job: Job, pairs: int) -> dict[str, Any]:
    import torch

    from benchmarks.paired import measure
    from nvdsl.kernels import Config, gemm
    from nvdsl.kernels.choose import choose

    n, layout = job
    config = choose(n, n, n)
    a, b = operands(n, layout)
    torch.backends.cuda.matmul.allow_tf32 = False
    reference = a.float() @ b.float()
    d = torch.full((n, n), float("nan"), dtype=torch.float16, device="cuda")
    gemm(a, b, d, config=config)
    error = ((d.float() - reference).norm() / reference.norm()).item()
    if not error < 1e-3:
        raise SystemExit(f"wrong result at {n} {layout}: relative error {error}")
    del reference
    out = torch.empty_like(d)
    timed = measure(lambda: gemm(a, b, d, config=config), lambda: torch.matmul(a, b, out=out), pairs).summary()
    flops, default = 2 * n**3, Config()
    return {
        "n": n,
        "layout": layout,
        "config": {k: v for k, v in dataclasses.asdict(config).items() if v != getattr(default, k)},
        "error": error,
        "tflops": flops / timed["a_ms"] / 1e9,
        "cublas_tflops": flops / timed["b_ms"] / 1e9,
        **{k: timed[k] for k in ("ratio", "ratio_low", "ratio_high")},
    }


def work(jobs: list[Job], pairs: int, gpu: Any, results: Any) -> None:
    """Compile all, then measure each while holding the GPU."""
    import nvdsl as nv
    from nvdsl.kernels.choose import choose
    from nvdsl.kernels.gemm import KERNELS, grid

    for n, layout in jobs:
        config, square = choose(n, n, n), nv.ShapeDtype((n, n), nv.f16)
        majors = {"a_major": "k" if layout[0] == "n" else "mn", "b_major": "mn" if layout[1] == "n" else "k"}
        KERNELS[config.schedule].compile(
            *[square] * 3, config=config, blocks=grid(n, n, config, 132), acc_dtype=nv.f32, visit=None, **majors
        )
    for job in jobs:
        with gpu:
            results.put(measured(job, pairs))


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def run(jobs: list[Job], pairs: int, workers: int) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    gpu, results = context.Lock(), context.Queue()
    shares = [jobs[i::workers] for i in range(workers) if jobs[i::workers]]
    processes = [context.Process(target=work, args=(share, pairs, gpu, results)) for share in shares]
    for process in processes:
        process.start()
    rows = sorted((results.get(timeout=300) for _ in jobs), key=lambda r: (r["layout"], r["n"]))
    for process in processes:
        process.join()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[])
    parser.add_argument("--squares", type=int, nargs=3, metavar=("FIRST", "LAST", "STEP"))
    parser.add_argument("--layouts", nargs="+", default=["nn"], choices=["nn", "nt", "tn", "tt"])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    first, last, step = args.squares or (1, 0, 1)
    sizes = [*args.sizes, *range(first, last + 1, step)]
    rows = run([(n, layout) for n in sizes for layout in args.layouts], args.pairs, args.workers)

    print(f"{'n':>7}{'':>4}{'TFLOPS':>9}{'cuBLAS':>9}{'ratio':>8}{'10%..90%':>16}  configuration")
    for r in rows:
        spread = f"{r['ratio_low']:.3f}..{r['ratio_high']:.3f}"
        print(
            f"{r['n']:>7}{r['layout']:>4}{r['tflops']:>9.0f}{r['cublas_tflops']:>9.0f}{r['ratio']:>8.3f}{spread:>16}  "
            + json.dumps(r["config"])
        )
    means = {x: geometric_mean([r["ratio"] for r in rows if r["layout"] == x]) for x in args.layouts}
    print("geometric mean:", means)
    if args.out:
        from benchmarks.paired import machine, write

        write(args.out, "bench_squares.py", {"machine": machine(), "geometric_mean": means, "rows": rows})


if __name__ == "__main__":
    main()
