"""What a schedule costs: seconds from a payload to a cubin, of every end and type.

    python benchmarks/bench_schedule_compile.py [--out benchmarks/results/schedule-compile-2-cores.json]

Each row is a new process that has imported nvdsl, and no cache on disk. "steps" is `sc.compile`, "rest" everything
behind it: verifying, lowering, ptxas. The time of a core is that of all, ptxas included. Sizes are 8192, and 8191 in
the rows with edges. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks.paired import host, write  # noqa: E402
from nvdsl import schedule as sc  # noqa: E402

BLOCK, WARP = (128, 256, 32), (64, 64)
ENDS = {
    "fma": lambda dtype: sc.fma_steps(),
    "simt": lambda dtype: sc.simt_steps(dtype=dtype),
    "simt, 128x256x16": lambda dtype: sc.simt_steps((128, 256, 16), dtype=dtype),
    "wmma, hide_latency": lambda dtype: sc.wmma_steps((128, 128, 128 // dtype.bytes), (64, 32), dtype),
    "wmma, cp.async": lambda dtype: sc.wmma_steps((*BLOCK[:2], 64 // dtype.bytes), WARP, dtype, stages=4),
    "mma.sync, hide_latency": lambda dtype: sc.mma_steps((128, 128, 128 // dtype.bytes), (64, 32), dtype),
    "mma.sync, cp.async": lambda dtype: sc.mma_steps((*BLOCK[:2], 64 // dtype.bytes), WARP, dtype, stages=4),
    "wgmma, persistent": lambda dtype: sc.wgmma_steps((128, 256, 128 // dtype.bytes)),
    "wgmma": lambda dtype: sc.wgmma_steps((128, 256, 128 // dtype.bytes), without=["persistent"]),
}
PAYLOADS: dict[str, dict[str, Any]] = {
    "f16": {},
    "f16, f16 sums": {"sums": nv.f16},
    "bf16": {"dtype": nv.bf16},
    "f32": {"dtype": nv.f32, "transpose_b": True},
    "f16, edges": {"size": 8191},
    "f16, silu(x + bias)": {"then": lambda x, e: (x + e) / (1.0 + nv.math.exp(-(x + e))), "operands": ["n"]},
}


def cpu_seconds() -> float:
    """Of this process and those that it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def child(end: str, payload: str) -> dict[str, Any]:
    """In a process of its own; what is refused has no times."""
    what = dict(PAYLOADS[payload])
    n, dtype = what.pop("size", 8192), what.get("dtype", nv.f16)
    start, cpu = time.perf_counter(), cpu_seconds()
    try:
        gemm = sc.compile(sc.matmul(n, n, n, **what), ENDS[end](dtype))
    except nv.ScheduleError as error:
        return {"refused": error.message}
    middle = time.perf_counter()
    sums = what.get("sums", nv.f32)
    operands, extra = [nv.ShapeDtype((n, n), dtype)] * 2, [nv.ShapeDtype((n,), sums)] * len(what.get("operands", ()))
    (kernel,) = gemm.compile(*operands, *extra, nv.ShapeDtype((n, n), sums)).kernels.values()
    end_time = time.perf_counter()
    return {
        "steps_s": middle - start, "rest_s": end_time - middle, "seconds": end_time - start,
        "cpu_s": cpu_seconds() - cpu,
        "registers": kernel.resources.registers, "spilled": kernel.resources.spill_stores,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("END", "PAYLOAD"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(child(*chosen.child)))
        return
    rows = []
    for end in ENDS:
        for payload in PAYLOADS:
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "NVDSL_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(sys.path)}
                command = [sys.executable, "-W", "ignore", __file__, "--child", end, payload]
                done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
            row = {"end": end, "payload": payload, **json.loads(done.stdout.splitlines()[-1])}
            rows.append(row)
            if "refused" in row:
                says = row["refused"]
            else:
                says = f"{row['seconds']:.2f} s: steps {row['steps_s']:.2f}, rest {row['rest_s']:.2f}; "
                says += f"{row['cpu_s']:.2f} s of a core; {row['registers']} registers, {row['spilled']} bytes spilled"
            print(f"{end:24} {payload:22} {says}", flush=True)
    slowest = max((row for row in rows if "seconds" in row), key=lambda row: row["seconds"])
    print(f"slowest: {slowest['end']}, {slowest['payload']}, {slowest['seconds']:.2f} s")
    if chosen.out:
        write(chosen.out, "bench_schedule_compile.py", {"machine": host(), "rows": rows})


if __name__ == "__main__":
    main()
