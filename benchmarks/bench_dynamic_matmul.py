"""`nv.matmul` on sizes that it has not met: first calls, the compiled kernels' time beside that of kernels compiled for
one size, and what the host pays for repeated calls.

    python benchmarks/bench_dynamic_matmul.py [--seed 1] [--out benchmarks/results/dynamic-matmul.json]

1. 60 random numbers of rows beside one weight, each for the first time, in a process that has compiled nothing and with
   an empty cache on disk: seconds of all, and compilations.
2. 16 random products of f16: the same configuration, compiled for all sizes and for the product's own, in random order.
   The ratio is the dynamic kernel's time over that of its twin (above 1: constants help). The twin is timed twice in
   each round: the ratio of these two is what the method itself adds to a ratio.
3. Microseconds of the host for a repeated call with `out` and without.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import paired  # noqa: E402

WEIGHT = 4096, 4096
MOST_ROWS = 8192
CALLS, PRODUCTS, BATCH = 60, 16, 20
LEAST_ROUNDS, MOST_ROUNDS = 12, 400


def first_calls(seed: int) -> dict[str, Any]:
    """In a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--first", "--seed", str(seed)]
        ran = subprocess.run(command, env={**os.environ, "NVDSL_CACHE_DIR": cache}, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    seconds, compilations, slowest, median = ran.stdout.split()[-4:]
    found = {"calls": CALLS, "seconds": float(seconds), "compilations": int(compilations)}
    return {**found, "slowest_ms": float(slowest), "median_ms": float(median)}


def _first_calls(seed: int) -> None:
    import torch

    import nvdsl as nv
    from nvdsl.kernels.gemm.tuned import tuned_matmul

    draw = random.Random(seed)
    n, k = WEIGHT
    rows = [draw.randint(1, MOST_ROWS) for _ in range(CALLS)]
    a, w = torch.randn(MOST_ROWS, k, device="cuda").half(), torch.randn(n, k, device="cuda").half()
    out = torch.empty(MOST_ROWS, n, device="cuda", dtype=torch.half)
    torch.cuda.synchronize()
    times = []
    for m in rows:
        start = time.perf_counter()
        nv.matmul(a[:m], w.T, out[:m])
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    print(sum(times), len(tuned_matmul._compiled), 1e3 * max(times), 1e3 * statistics.median(times))


def twins(seed: int, seconds: float) -> list[dict[str, Any]]:
    """A row for each product."""
    import torch

    import nvdsl as nv
    from nvdsl.kernels.gemm import tensor_core
    from nvdsl.kernels.gemm.choose import choose
    from nvdsl.kernels.gemm.launch import sms
    from nvdsl.kernels.gemm.model import Shape

    draw = random.Random(seed)
    static = nv.jit(tensor_core.matmul)
    rows = []
    for i in range(PRODUCTS):
        least = 16 if i % 4 == 0 else 512
        m = int(2 ** draw.uniform(*(x.bit_length() - 1 for x in (least, 8192))))
        n, k = (int(2 ** draw.uniform(10, 13)) // 8 * 8 for _ in range(2))
        config = choose(Shape(m, n, k, b_major="k"), False, sms(None))
        a, w = torch.randn(m, k, device="cuda").half(), torch.randn(n, k, device="cuda").half()
        out, expected = (torch.full((m, n), torch.nan, device="cuda", dtype=torch.half) for _ in range(2))
        dynamic = functools.partial(nv.matmul, a, w.T, out, config=config)
        options = {"config": config, "sms": sms(None), "a_major": "k", "b_major": "k"}
        constant = functools.partial(static, a, w, expected, **options)
        dynamic()
        constant()
        assert torch.equal(out, expected), f"{m} x {n} x {k}: the twins disagree"
        times = _race({"static": constant, "dynamic": dynamic, "again": constant}, seconds)
        found = paired.Paired(times["static"], times["dynamic"]).summary()
        again = paired.Paired(times["static"], times["again"]).summary()["ratio"]
        tile = f"{config.schedule} {config.tile_m}x{config.tile_n}"
        rows.append({"m": m, "n": n, "k": k, "config": tile, **found, "again": again})
        print(f"{m:>6}{n:>6}{k:>6}  {tile:<22}{found['b_ms']:9.4f} ms   ratio {found['ratio']:.4f} "
              f"({found['ratio_low']:.4f}..{found['ratio_high']:.4f}), again {again:.4f}", flush=True)  # fmt: skip
    return rows


def _race(calls: dict[str, Any], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each, round by round, in an order that is drawn for each round: what comes behind what makes a
    difference of some hundred nanoseconds."""
    timer, draw = paired.Timer(), random.Random(1)
    warm = [timer.once(call) for _ in range(3) for call in calls.values()]
    each = len(calls) * (statistics.median(warm) / 1e3 + paired.CALL_SECONDS)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(max(LEAST_ROUNDS, min(MOST_ROUNDS, int(seconds / each)))):
        for name in draw.sample(list(calls), len(calls)):
            times[name].append(timer.once(calls[name]))
    return times


def host(rounds: int) -> dict[str, float]:
    """Microseconds of a repeated call: the median of batches, after a synchronization each."""
    import torch

    import nvdsl as nv

    a, b, out = ([torch.randn(256, 256, device="cuda").half() for _ in range(BATCH)] for _ in range(3))
    calls = {
        "with out": lambda i: nv.matmul(a[0], b[0], out[0]),
        "with out, other arrays": lambda i: nv.matmul(a[i], b[i], out[i]),
        "allocating": lambda i: nv.matmul(a[0], b[0]),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(rounds + 3):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for i in range(BATCH):
                call(i)
            if round_ >= 3:
                times[name].append(1e6 * (time.perf_counter() - start) / BATCH)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each pair of twins (default: 0.5)")
    parser.add_argument("--rounds", type=int, default=100, help="batches of repeated calls (default: 100)")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.first:
        _first_calls(args.seed)
        return
    first = first_calls(args.seed)
    print(f"{CALLS} first calls: {first['seconds']:.2f} s, {first['compilations']} compilations, "
          f"median {first['median_ms']:.2f} ms, slowest {first['slowest_ms']:.0f} ms")  # fmt: skip
    rows = twins(args.seed, args.seconds)
    for what, name in (("dynamic", "ratio"), ("static again", "again")):
        ratios = [row[name] for row in rows]
        print(f"{what} over static: geometric mean {statistics.geometric_mean(ratios):.4f}, worst {max(ratios):.4f}")
    repeated = host(args.rounds)
    for name, us in repeated.items():
        print(f"repeated call {name:<24}{us:8.2f} us")
    if args.out:
        found = {"first_calls": first, "twins": rows, "host_us": repeated}
        paired.write(args.out, "bench_dynamic_matmul.py", {"machine": paired.machine(), **found})


if __name__ == "__main__":
    main()
