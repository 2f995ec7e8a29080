"""The ladder without tensor cores beside cuBLAS's f32 product: each row, by hand and as a schedule, over sizes.

    python benchmarks/bench_simt.py [--sizes 256:16384] [--limit SECONDS]      simt.json, simt.svg

n = M = N = K, powers of two; f32 without TF32. The last row is the schedule of the row before it with the tiles of
`SPACE` that were the fastest at this size. Results are compared with cuBLAS's before they are timed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks import charts, shares  # noqa: E402
from benchmarks.paired import machine, measure, write  # noqa: E402
from chapters.simt import ladder  # noqa: E402
from nvdsl import schedule as sc  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
SPACE = [
    ((128, 128, 32), (16, 64), (16, 16), 3), ((128, 128, 16), (16, 64), (16, 16), 4),
    ((64, 128, 32), (8, 64), (8, 16), 2), ((64, 128, 16), (8, 64), (8, 16), 3),
    ((64, 64, 32), (8, 32), (8, 8), 3), ((64, 64, 32), (16, 32), (16, 8), 3), ((32, 64, 32), (8, 32), (8, 8), 3),
    ((32, 32, 32), (8, 32), (8, 8), 4), ((128, 256, 16), (16, 64), (16, 16), 3),
    ((256, 128, 16), (16, 64), (16, 16), 3),
]  # fmt: skip
"""A block's tile, the tile of it that threads share, the threads, and the buffers."""

SLOWEST = {"0 naive": 2048, "1 blocks": 4096, "2 shared memory": 8192}
"""The largest size at which a row is timed."""

Job = tuple[int, str, str]
"""n; the row, or the number in `SPACE`; "hand", "schedule" or "tuned"."""


def prepare(job: Job) -> tuple[Any, dict[str, Any], Any]:
    """What is called, with its options, and its kernel."""
    n, row, form = job
    shape = nv.ShapeDtype((n, n), nv.f32)
    options: dict[str, Any] = {}
    if form == "tuned":
        block, tile, threads, stages = SPACE[int(row)]
        call: Any = sc.compile(sc.matmul(n, n, n, nv.f32), sc.simt_steps(block, tile, threads, stages=stages))
    else:
        _, by_hand, options, steps = next(one for one in ladder.rows() if one[0] == row)
        call = by_hand
        if form == "schedule":
            call, options = sc.compile(sc.matmul(n, n, n, nv.f32), steps), {}
    (kernel,) = call.compile(shape, shape, shape, **options).kernels.values()
    return call, options, kernel


def timed(job: Job, ready: tuple[Any, dict[str, Any], Any]) -> dict[str, Any]:
    import torch

    n, row, form = job
    call, options, kernel = ready
    torch.backends.cuda.matmul.allow_tf32 = False
    generator = torch.Generator(device="cuda").manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator, device="cuda") for _ in range(2))
    c, out = torch.full((n, n), float("nan"), device="cuda"), torch.empty(n, n, device="cuda")
    call(a, b, c, **options)
    torch.mm(a, b, out=out)
    error = ((c - out).norm() / out.norm()).item()
    pair = measure(lambda: call(a, b, c, **options), lambda: torch.mm(a, b, out=out), pairs=6, warmup=2).summary()
    flop = 2e-9 * n**3
    return {
        "m": n, "row": row, "form": form, "size": str(n), "kind": f"{row}, {form}", "right": error < 1e-5,
        "error": error, "registers": kernel.resources.registers, "smem": kernel.smem_bytes,
        "tflops": flop / pair["a_ms"], "library_tflops": flop / pair["b_ms"], **pair,
    }  # fmt: skip


def jobs(sizes: list[int]) -> list[Job]:
    """Large sizes first: the last row and the tiles of it, then the ladder."""
    names = [name for name, *_ in ladder.rows()]
    found: list[Job] = [(n, str(i), "tuned") for n in reversed(sizes) for i in range(len(SPACE))]
    for n in reversed(sizes):
        found += [(n, name, "hand") for name in names if n <= SLOWEST.get(name, n)]
    middle = min(4096, max(sizes))
    return found + [(middle, name, "schedule") for name in names if middle <= SLOWEST.get(name, middle)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="256:16384", metavar="FIRST:LAST")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which nothing is begun")
    chosen = parser.parse_args()
    first, last = map(int, chosen.sizes.split(":"))
    sizes = [n for n in (2**i for i in range(5, 16)) if first <= n <= last]
    rows, best = [], {}
    for job, row in shares.run(jobs(sizes), prepare, timed, limit=chosen.limit):
        if not isinstance(row, dict) or not row["right"]:
            print(job, row if not isinstance(row, dict) else f"WRONG: {row['error']:.2g}", flush=True)
        elif row["form"] != "tuned":
            rows.append(row)
        elif row["m"] not in best or row["ratio"] > best[row["m"]]["ratio"]:
            best[row["m"]] = {**row, "tiles": SPACE[int(row["row"])], "row": "6 with the best tiles"}
    rows += [{**row, "kind": "6 with the best tiles, schedule"} for row in best.values()]
    for row in sorted(rows, key=lambda r: (r["kind"], r["m"])):
        print(f"{row['kind']:34} {row['m']:6} {row['tflops']:7.2f} {row['library_tflops']:7.2f} {row['ratio']:6.3f} "
              f"{row['registers']:4} {row.get('tiles', '')}")  # fmt: skip
    large = [row["ratio"] for row in best.values() if row["m"] >= 1024]
    if large:
        product = 1.0
        for ratio in large:
            product *= ratio
        print(f"geometric mean from 1024 on, of cuBLAS: {product ** (1 / len(large)):.3f}")
    write(RESULTS / "simt.json", "bench_simt.py", {"machine": machine(), "rows": rows})
    shown = [row for row in rows if row["form"] != "schedule"]
    picture = charts.over_sizes("f32 without tensor cores beside cuBLAS", "n = M = N = K", shown, lambda r: r["kind"])
    (RESULTS / "simt.svg").write_text(str(picture))


if __name__ == "__main__":
    main()
