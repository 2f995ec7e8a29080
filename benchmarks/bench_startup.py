"""What a user waits for: import, first call (trace, passes, ptxas, load), and the host time of a repeated call.

    python benchmarks/bench_startup.py [--out benchmarks/results/startup.json]

Without a GPU it measures import and compilation; with one, also the load and the repeated call.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.paired import host, machine, write  # noqa: E402

IMPORT = "import time; t = time.perf_counter(); import nvdsl; print(time.perf_counter() - t)"
FIRST = """
import json, sys, time
sys.path.insert(0, {root!r})
import nvdsl as nv
from chapters.ch4_multistage_gemm import gemm
shapes = [nv.ShapeDtype((512, 1024), nv.f16), nv.ShapeDtype((1024, 256), nv.f16), nv.ShapeDtype((512, 256), nv.f32)]
start = time.perf_counter()
compiled = gemm.compile(*shapes)
print(json.dumps({{**compiled.seconds, "total": time.perf_counter() - start}}))
"""


def child(code: str, **environment: str) -> str:
    """What it prints; it compiles anew unless told otherwise."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "NVDSL_CACHE": "off", **environment},
    ).stdout  # fmt: skip


def later_processes(runs: int) -> dict[str, float]:
    """Seconds of the stages where another process has compiled the same kernel before."""
    with tempfile.TemporaryDirectory() as folder:
        cached = {"NVDSL_CACHE": "on", "NVDSL_CACHE_DIR": folder}
        code = FIRST.format(root=str(ROOT))
        child(code, **cached)
        found = [json.loads(child(code, **cached)) for _ in range(runs)]
    return {stage: statistics.median(f[stage] for f in found) for stage in found[0]}


def repeated_call() -> dict[str, float]:
    """Host microseconds of a call with three torch arrays, and of the first call's load, on the GPU."""
    import torch

    from chapters.ch4_multistage_gemm import gemm

    a = torch.randn(512, 1024, device="cuda").half()
    b = torch.randn(1024, 256, device="cuda").half()
    d = torch.empty(512, 256, device="cuda")
    gemm.compile(a, b, d)
    start = time.perf_counter()
    gemm(a, b, d)
    torch.cuda.synchronize()
    load = time.perf_counter() - start
    for _ in range(200):
        gemm(a, b, d)
    torch.cuda.synchronize()
    samples = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(50):
            gemm(a, b, d)
        samples.append((time.perf_counter() - start) / 50 * 1e6)
        torch.cuda.synchronize()
    return {"plan_load_first_launch_s": load, "call_us": statistics.median(samples), "call_us_min": min(samples)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    imports = [float(child(IMPORT)) for _ in range(args.runs)]
    firsts = [json.loads(child(FIRST.format(root=str(ROOT)))) for _ in range(args.runs)]
    result: dict = {"import_s": statistics.median(imports), "import_s_min_max": [min(imports), max(imports)]}
    result["first_call_s"] = {k: statistics.median(f[k] for f in firsts) for k in firsts[0]}
    totals = [f["total"] for f in firsts]
    result["first_call_total_min_max"] = [min(totals), max(totals)]
    result["first_call_of_later_processes_s"] = later_processes(args.runs)
    import nvdsl as nv

    why = nv.no_gpu()
    if why is None:
        result |= repeated_call()
    print(f"import nvdsl            {result['import_s']:.3f} s   ({min(imports):.3f}..{max(imports):.3f})")
    for stage, seconds in result["first_call_s"].items():
        print(f"first call: {stage:<12}{seconds:.3f} s")
    for stage, seconds in result["first_call_of_later_processes_s"].items():
        print(f"later:      {stage:<12}{seconds:.3f} s")
    if why is None:
        print(f"plan + load + launch    {result['plan_load_first_launch_s']:.3f} s")
        print(f"repeated call           {result['call_us']:.1f} us on the host (min {result['call_us_min']:.1f})")
    else:
        print(f"no repeated call: {why}")
    if args.out:
        about = machine() if why is None else host()
        write(args.out, "bench_startup.py", {"machine": about, **result})


if __name__ == "__main__":
    main()
