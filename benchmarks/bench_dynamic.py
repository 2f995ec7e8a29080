"""Named extents beside constants: the same kernels, compiled for all sizes and for each.

    python benchmarks/bench_dynamic.py [--out benchmarks/results/dynamic.json]

First the GPU's time, paired: the ratio is the dynamic kernel's time over that of its twin, which was compiled for the
shape (above 1: the constants help). Then the host's: microseconds of a repeated call, of a call with sizes that the
compiled kernel has not met, and of all first calls of 60 sizes, the compilation before them left out and counted by
itself.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "chapters")]

from benchmarks import paired  # noqa: E402
from benchmarks.twins import products, twin  # noqa: E402

KERNELS = {
    "chapter 5": ("ch5_warp_specialized_gemm", "float32"),
    "chapter 6": ("ch6_tma_store_gemm", "float16"),
    "chapter 7": ("ch7_persistent_gemm", "float16"),
    "chapter 8": ("ch8_cluster_gemm", "float16"),
    "chapter 9": ("ch9_pingpong_gemm", "float16"),
    "chapter 15": ("ch15_dynamic_shapes", "float16"),
}
SIZES = ((512, 512, 512), (1024, 1024, 4096), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192))
BATCH = 20


def arrays(m: int, n: int, k: int, out: str) -> tuple[Any, Any, Any]:
    import torch

    a, b = torch.randn(m, k, device="cuda").half(), torch.randn(k, n, device="cuda").half()
    return a, b, torch.empty(m, n, device="cuda", dtype=getattr(torch, out))


def ratios(seconds: float) -> list[dict[str, Any]]:
    """A row for each kernel and size."""
    import torch

    rows = []
    for name, (module, out) in KERNELS.items():
        function = importlib.import_module(module).gemm
        static, dynamic = twin(function), twin(function, **products())
        for m, n, k in SIZES:
            given = arrays(m, n, k, out)
            expected = torch.empty_like(given[-1])
            static(*given[:-1], expected)
            dynamic(*given)
            assert torch.equal(given[-1], expected), f"{name}, {m} x {n} x {k}: the twins disagree"
            pair = functools.partial(static, *given), functools.partial(dynamic, *given)
            found = paired.measure(*pair, seconds=seconds).summary()
            rows.append({"kernel": name, "m": m, "n": n, "k": k, **found})
            print(f"{name:<12}{m:>6}{n:>6}{k:>6}   {found['a_ms']:8.4f} ms   ratio {found['ratio']:.4f} "
                  f"({found['ratio_low']:.4f}..{found['ratio_high']:.4f})")  # fmt: skip
    every = [row["ratio"] for row in rows]
    print(f"geometric mean {statistics.geometric_mean(every):.4f}, worst {max(every):.4f}")
    return rows


def host(rounds: int) -> dict[str, float]:
    """Microseconds."""
    import torch

    function = importlib.import_module("ch15_dynamic_shapes").gemm
    static, dynamic = twin(function), twin(function, **products())
    a, b, d = arrays(256, 256, 256, "float16")
    start = time.perf_counter()
    dynamic(a, b, d)
    torch.cuda.synchronize()
    found = {"first call, compiling": 1e6 * (time.perf_counter() - start)}
    for name, call in (("repeated, constants", static), ("repeated, named extents", dynamic)):
        found[name] = _batches(functools.partial(call, a, b, d), rounds)
    memory = [torch.randn(1 << 20, device="cuda").half() for _ in range(3)]
    sizes = [(64 + 3 * i, 64 + 8 * (i % 13), 64 + 8 * (i % 29)) for i in range(60)]
    times = []
    for m, n, k in sizes:
        shapes = ((m, k), (k, n), (m, n))
        x, y, z = (one[: rows * cols].view(rows, cols) for one, (rows, cols) in zip(memory, shapes, strict=True))
        start = time.perf_counter()
        dynamic(x, y, z)
        times.append(1e6 * (time.perf_counter() - start))
    torch.cuda.synchronize()
    found |= {"new sizes, median": statistics.median(times), "new sizes, worst": max(times)}
    found[f"all {len(sizes)} new sizes"] = sum(times)
    for name, us in found.items():
        print(f"{name:<28}{us:12.1f} us")
    return found


def _batches(call: Callable[[], object], rounds: int) -> float:
    import torch

    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(BATCH):
            call()
        times.append(1e6 * (time.perf_counter() - start) / BATCH)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each kernel and size (default: 0.5)")
    parser.add_argument("--rounds", type=int, default=100, help="batches of repeated calls (default: 100)")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found, rows = host(args.rounds), ratios(args.seconds)
    if args.out:
        paired.write(args.out, "bench_dynamic.py", {"machine": paired.machine(), "host_us": found, "rows": rows})


if __name__ == "__main__":
    main()
