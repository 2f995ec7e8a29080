"""The product of Triton's tutorial in nvdsl (tests/programs/triton_matmul.py), in Triton, and in cuBLAS, in one run.

    python benchmarks/bench_triton.py [--sizes 1024 2048 4096 8192]      triton-program.json

f16, n = M = N = K, A and B as they are and transposed. Both programs are tuned: nvdsl's over `SPACE`, Triton's by its
autotuner. Triton's `tl.dot` becomes wgmma, the program in nvdsl uses mma.sync. Results are compared before timing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import triton_tutorial  # noqa: E402
from benchmarks.paired import machine, race, write  # noqa: E402
from tests.programs.triton_matmul import matmul  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
SPACE = [
    {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "warps": warps, "num_stages": stages}
    for m, n, k, warps, stages in (
        (128, 256, 32, (2, 4), 4), (256, 128, 32, (4, 2), 4), (128, 128, 32, (2, 2), 4), (64, 128, 32, (2, 2), 4),
        (64, 64, 64, (2, 2), 3),
    )
]  # fmt: skip


def timed(n: int, trans_a: bool, trans_b: bool) -> dict[str, Any]:
    generator = torch.Generator(device="cuda").manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator, device="cuda").half() for _ in range(2))
    seen = a.t() if trans_a else a, b.t() if trans_b else b
    mine, theirs, out = (torch.full((n, n), float("nan"), device="cuda").half() for _ in range(3))
    flags = {"TRANS_A": trans_a, "TRANS_B": trans_b}
    calls: dict[str, Any] = {
        "cuBLAS": lambda: torch.mm(*seen, out=out),
        "Triton": lambda: triton_tutorial.matmul(*seen, theirs),
    }
    for number, options in enumerate(SPACE):
        calls[f"nvdsl {number}"] = lambda options=options: matmul(a, b, mine, **flags, **options)
    calls["cuBLAS"]()
    for name, call in calls.items():
        call()
        result = {"cuBLAS": out, "Triton": theirs}.get(name, mine)
        error = ((result.float() - out.float()).norm() / out.float().norm()).item()
        assert error < 1e-3, f"{name} at {n}: {error}"
    times = {name: sorted(found)[len(found) // 2] for name, found in race(calls, 7).items()}
    best = min((name for name in times if name.startswith("nvdsl")), key=lambda name: times[name])
    flop = 2e-9 * n**3
    return {
        "n": n, **flags, "nvdsl": flop / times[best], "Triton": flop / times["Triton"],
        "cuBLAS": flop / times["cuBLAS"], "options": SPACE[int(best.split()[1])],
        "triton_options": str(triton_tutorial.kernel.best_config),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    rows = []
    print(f"{'n':>6} {'A':>4} {'B':>4} {'nvdsl':>8} {'Triton':>8} {'cuBLAS':>8}  TFLOPS")
    for n in parser.parse_args().sizes:
        for trans_a, trans_b in ((False, False), (True, False), (False, True), (True, True)):
            row = timed(n, trans_a, trans_b)
            rows.append(row)
            print(f"{n:6} {'A^T' if trans_a else 'A':>4} {'B^T' if trans_b else 'B':>4} {row['nvdsl']:8.1f} "
                  f"{row['Triton']:8.1f} {row['cuBLAS']:8.1f}  {row['options']}", flush=True)  # fmt: skip
            write(RESULTS / "triton-program.json", "bench_triton.py", {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
