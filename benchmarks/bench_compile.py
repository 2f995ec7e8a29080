"""What the first product costs, in nvdsl and in Triton: import, first call, and the same in a later process.

    python benchmarks/bench_compile.py [--runs 3] [--out benchmarks/results/compile.json]

Each row is a new process with torch and CUDA at work already. "cold": no cache on disk; "warm": an earlier process
has filled it. The first call's time is from the call until its result is there; the repeated call's that of the host.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import charts  # noqa: E402
from benchmarks.paired import machine, write  # noqa: E402

CHILD = """
import json, statistics, sys, time
import torch
n = {n}
a, b = (torch.randn(n, n, device="cuda").half() for _ in range(2))
out = torch.full((n, n), float("nan"), device="cuda").half()
want = (a @ b).float()
torch.cuda.synchronize()
def passed(start): return time.perf_counter() - start
start = time.perf_counter()
{imports}
imported = passed(start)
start = time.perf_counter()
matmul(a, b, out)
torch.cuda.synchronize()
first = passed(start)
error = ((out.float() - want).norm() / want.norm()).item()
assert error < 2e-3, error
calls = []
for _ in range(20):
    start = time.perf_counter()
    for _ in range(20):
        matmul(a, b, out)
    calls.append(passed(start) / 20)
    torch.cuda.synchronize()
print(json.dumps({{"import_s": imported, "first_call_s": first, "call_us": 1e6 * statistics.median(calls)}}))
"""
IMPORTS = {
    "nvdsl": "import nvdsl\nfrom nvdsl.kernels.gemm.matmul import matmul",
    "Triton": "from benchmarks.triton_matmul import matmul",
}


def child(name: str, n: int, cache: str) -> dict[str, float]:
    """One process. Raises RuntimeError with what it said last."""
    environment = {**os.environ, "NVDSL_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    code = CHILD.format(n=n, imports=IMPORTS[name])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=180)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(name: str, n: int, runs: int) -> list[dict[str, Any]]:
    """A row for cold and one for warm: medians, and the first call's extremes."""
    found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            for state in found:
                found[state].append(child(name, n, cache))
    return [
        {
            "what": name, "cache": state, "n": n, "runs": runs,
            **{key: statistics.median(f[key] for f in times) for key in times[0]},
            "first_call_min_max_s": [f([t["first_call_s"] for t in times]) for f in (min, max)],
        }
        for state, times in found.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in IMPORTS:
        try:
            rows += measured(name, args.size, args.runs)
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # Triton need not be there
            rows.append({"what": name, "failed": str(error)})
    for r in rows:
        if "failed" in r:
            print(f"{r['what']}: {r['failed']}")
        else:
            print(
                f"{r['what']:<8}{r['cache']:<6}import {r['import_s']:6.3f} s, first call {r['first_call_s']:6.3f} s, "
                f"repeated call {r['call_us']:6.1f} us on the host"
            )
    if args.out:
        write(args.out, "bench_compile.py", {"machine": machine(), "rows": rows})
        timed = [r for r in rows if "failed" not in r]
        args.out.with_suffix(".svg").write_text(str(charts.seconds("Seconds from import to the first result", timed)))


if __name__ == "__main__":
    main()
