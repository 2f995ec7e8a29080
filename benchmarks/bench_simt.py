"""The ladder without tensor cores beside cuBLAS's f32 product, over sizes.

    python benchmarks/bench_simt.py [--sizes 256:16384]      simt.json, simt.svg

n = M = N = K, powers of two; f32 without TF32. The rows of the ladder as schedules at each size, and by hand at 4096,
the last row at each. "6 with the best tiles" is row 6 with the tiles of `SPACE` that were the fastest at this size.
Results are compared with cuBLAS's before they are timed.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nvdsl as nv  # noqa: E402
from benchmarks import charts  # noqa: E402
from benchmarks.ahead import compile_ahead, loaded  # noqa: E402
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


def prepare(job: Job) -> str:
    """The module of a schedule, compiled; nothing for a kernel that is written by hand."""
    n, row, form = job
    if form == "hand":
        return ""
    if form == "tuned":
        block, tile, threads, stages = SPACE[int(row)]
        steps = sc.simt_steps(block, tile, threads, stages=stages)
    else:
        steps = next(one for one in ladder.rows() if one[0] == row)[3]
    made = sc.compile(sc.matmul(n, n, n, nv.f32), steps)
    shape = nv.ShapeDtype((n, n), nv.f32)
    made.compile(shape, shape, shape)
    return made.mlir


def timed(job: Job, text: str) -> dict[str, Any]:
    import torch

    n, row, form = job
    options: dict[str, Any] = {}
    call: Any = None
    if form == "hand":
        _, call, options, _ = next(one for one in ladder.rows() if one[0] == row)
    else:
        call = loaded(sc.matmul(n, n, n, nv.f32), text)
    torch.backends.cuda.matmul.allow_tf32 = False
    generator = torch.Generator(device="cuda").manual_seed(n)
    a, b = (torch.randn(n, n, generator=generator, device="cuda") for _ in range(2))
    c, out = torch.full((n, n), float("nan"), device="cuda"), torch.empty(n, n, device="cuda")
    (kernel,) = call.compile(a, b, c, **options).kernels.values()
    call(a, b, c, **options)
    torch.mm(a, b, out=out)
    error = ((c - out).norm() / out.norm()).item()
    pairs = 6 if n < 8192 else 3
    pair = measure(lambda: call(a, b, c, **options), lambda: torch.mm(a, b, out=out), pairs=pairs, warmup=1).summary()
    flop = 2e-9 * n**3
    return {
        "m": n, "row": row, "form": form, "size": str(n),
        "kind": row + ", by hand" * (form == "hand"), "right": error < 1e-5,
        "error": error, "registers": kernel.resources.registers, "smem": kernel.smem_bytes,
        "tflops": flop / pair["a_ms"], "library_tflops": flop / pair["b_ms"], **pair,
    }  # fmt: skip


def jobs(sizes: list[int]) -> list[Job]:
    """Large sizes first."""
    names = [name for name, *_ in ladder.rows()]
    found: list[Job] = []
    for n in reversed(sizes):
        found += [(n, str(i), "tuned") for i in range(len(SPACE))]
        found += [(n, name, "schedule") for name in names if n <= SLOWEST.get(name, n)]
    middle = min(4096, max(sizes))
    found += [(middle, name, "hand") for name in names if middle <= SLOWEST.get(name, middle)]
    return found + [(n, names[-1], "hand") for n in sizes if n != middle]


def summarize(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are kept and shown: of the tuned ones the best at each size."""
    best: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["form"] == "tuned" and row["ratio"] > best.get(row["m"], {"ratio": 0.0})["ratio"]:
            best[row["m"]] = {**row, "tiles": SPACE[int(row["row"])], "kind": "6 with the best tiles"}
    kept = [row for row in rows if row["form"] != "tuned"] + list(best.values())
    kept.sort(key=lambda r: (r["form"] == "hand", r["kind"], r["m"]))
    for row in kept:
        print(f"{row['kind']:30} {row['m']:6} {row['tflops']:7.2f} {row['library_tflops']:7.2f} {row['ratio']:6.3f} "
              f"{row['registers']:4} {row.get('tiles', '')}")  # fmt: skip
    large = [math.log(row["ratio"]) for row in best.values() if row["m"] >= 1024]
    if large:
        print(f"geometric mean from 1024 on, of cuBLAS: {math.exp(sum(large) / len(large)):.3f}")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="256:16384", metavar="FIRST:LAST")
    first, last = map(int, parser.parse_args().sizes.split(":"))
    sizes = [n for n in (2**i for i in range(5, 16)) if first <= n <= last]
    rows = []
    for job, text, error in compile_ahead(jobs(sizes), prepare):
        if error:
            print(job, error, flush=True)
            continue
        row = timed(job, text)
        assert row["right"], f"{job}: an error of {row['error']}"
        rows.append(row)
    write_all(summarize(rows))


def write_all(rows: list[dict[str, Any]]) -> None:
    write(RESULTS / "simt.json", "bench_simt.py", {"machine": machine(), "rows": rows})
    *_, (last, *_) = ladder.rows()
    shown = [row for row in rows if row["form"] != "hand" or row["kind"].startswith(last)]
    picture = charts.over_sizes("f32 without tensor cores beside cuBLAS", "n = M = N = K", shown, lambda r: r["kind"])
    (RESULTS / "simt.svg").write_text(str(picture))


if __name__ == "__main__":
    main()
