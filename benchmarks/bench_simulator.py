"""How long the simulator takes for chapter 4's GEMM: checks on and off, both levels, and over growing shapes.

    python benchmarks/bench_simulator.py --out benchmarks/results/simulator-2-cores.json

Each row is a process of its own: the first call (trace, decoding, run), then the median of repeated calls: the time
that passed, and the processors' (all threads).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.paired import host, write  # noqa: E402

SHAPES = [(256, 256, 512), (512, 256, 1024), (512, 512, 2048), (1024, 1024, 1024), (1024, 1024, 2048)]
GOALS = {(512, 256, 1024): 2.0, (1024, 1024, 1024): 15.0}
"""Seconds that a call with all checks may take on two cores."""

CHILD = """
import json, statistics, sys, time
import numpy as np
from chapters.ch4_multistage_gemm import gemm
M, N, K, runs = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
times, cpu = [], []
for _ in range(1 + runs):
    d = np.full((M, N), np.nan, np.float32)
    start, used = time.perf_counter(), time.process_time()
    gemm(a, b, d, target="sim")
    times.append(time.perf_counter() - start)
    cpu.append(time.process_time() - used)
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32))
print(json.dumps({"first_s": times[0], "call_s": statistics.median(times[1:]), "cpu_s": statistics.median(cpu[1:])}))
"""


def measure(shape: tuple[int, int, int], checks: bool, level: str, runs: int) -> dict[str, object]:
    settings = {"NVDSL_SIM_CHECKS": str(int(checks)), "NVDSL_SIM_LEVEL": level, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CHILD, *map(str, shape), str(runs)]
    out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings}, cwd=ROOT)
    if out.returncode:
        raise SystemExit(out.stderr)
    M, N, K = shape
    return {"M": M, "N": N, "K": K, "checks": checks, "level": level, **json.loads(out.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]  # above the number of cores, the seconds are those of a busy machine
    rows = [measure(shape, True, "traced", args.runs) for shape in SHAPES]
    rows += [
        measure(shape, checks, level, args.runs)
        for shape in GOALS
        for checks, level in ((False, "traced"), (True, "nvvm"), (False, "nvvm"))
    ]
    heads = f"{'first s':>9}{'call s':>9}{'cpu s':>9}{'cpu ns a multiply-add':>23}"
    print(f"{'M x N x K':<18}{'checks':>7}{'level':>8}{heads}")
    for r in rows:
        r["cpu_ns_per_multiply_add"] = 1e9 * r["cpu_s"] / (r["M"] * r["N"] * r["K"])
        shape = f"{r['M']} x {r['N']} x {r['K']}"
        print(
            f"{shape:<18}{'on' if r['checks'] else 'off':>7}{r['level']:>8}{r['first_s']:>9.2f}{r['call_s']:>9.2f}"
            f"{r['cpu_s']:>9.2f}{r['cpu_ns_per_multiply_add']:>23.2f}"
        )
    for r in rows:
        goal = GOALS.get((r["M"], r["N"], r["K"]))
        if goal is not None and r["checks"] and r["first_s"] > goal:
            print(f"above the goal of {goal:g} s: {r['M']} x {r['N']} x {r['K']}, {r['level']}: {r['first_s']:.2f} s")
    if args.out:
        write(args.out, "bench_simulator.py", {"machine": host(), "load_average": load, "rows": rows})


if __name__ == "__main__":
    main()
