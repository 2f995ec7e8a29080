"""What each step is worth at one size: the ladder from naive to nv.matmul, and the best configuration with one thing
taken out at a time.

    python benchmarks/bench_ablation.py [--size 8192] [--table search.json]

Writes matmul-ladder.svg, matmul-ablation.svg and matmul-ablation.json. All are checked, and paired with cuBLAS, in one
process.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import charts  # noqa: E402
from benchmarks.candidates import can_run, shorter, words  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import Workload, square  # noqa: E402
from benchmarks.products import Product, chosen  # noqa: E402
from benchmarks.runner import Report, Runner  # noqa: E402
from benchmarks.worker import Settings  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"

CHAPTERS = {
    "chapter 4: ring of slots": "ch4_multistage_gemm",
    "chapter 5: warp roles": "ch5_warp_specialized_gemm",
    "chapter 6: stmatrix, TMA stores": "ch6_tma_store_gemm",
    "chapter 7: persistent, grouped tiles": "ch7_persistent_gemm",
    "chapter 8: clusters, multicast": "ch8_cluster_gemm",
    "chapter 9: ping-pong": "ch9_pingpong_gemm",
}

BEST = "the best configuration"
TAKEN_OUT: dict[str, dict[str, Any]] = {
    "ping-pong (the consumers share a tile)": {"schedule": "cooperative"},
    "groups of tile rows (row after row)": {"group": 1},
    "wgmma in flight while waiting": {"in_flight": 0},
    "the second store buffer": {"store_buffers": 1},
    "deep ring (2 stages)": {"stages": 2},
    "large tile (half the columns)": {"tile_n": 0.5},
}
"""What is taken out, and the fields of `Config` without it; 0.5: half of what it is."""
PUT_IN: dict[str, dict[str, Any]] = {
    "clusters of 2, multicast": {"cluster_m": 2},
}
"""What the best configuration does without, put in."""


def ladder(best: Product) -> list[Product]:
    """From a thread for each element to the best configuration."""
    chapters = [
        Product(name, "function", options={"function": f"chapters.{module}:gemm"})
        for name, module in CHAPTERS.items()
        if (ROOT / "chapters" / f"{module}.py").exists()
    ]
    naive = Product("naive: a thread for each element", "naive")
    return [naive, *chapters, best]


def ablation(problem: Workload, best: Product) -> list[Product]:
    """The best configuration, and each variant of it that differs from it and that can run."""
    from dataclasses import asdict

    from nvdsl.hopper import arch
    from nvdsl.kernels.gemm.config import Config

    full = asdict(Config(**(best.config or {})))
    found = []
    for sign, changes in (("- ", TAKEN_OUT), ("+ ", PUT_IN)):
        for name, change in changes.items():
            change = {k: int(full[k] * v) if v == 0.5 else v for k, v in change.items()}
            config = full | change
            if config != full and set(config) == set(full) and can_run(config, problem):
                found.append(Product(sign + name, "matmul", shorter(config)))
    if full["schedule"] == "streamk":
        return found  # its tiles are cut for a number of blocks: there is no such kernel
    direct = {"config": Config(**full), "blocks": arch.SMS, "direct_store": True}
    direct["function"] = f"nvdsl.kernels.gemm.{full['schedule']}:matmul"
    found.append(Product("- stmatrix, TMA stores (threads store their sums)", "function", options=direct))
    tiles = -(-problem.m // full["tile_m"]) * -(-problem.n // full["tile_n"])
    found.append(Product("- persistent blocks (one block a tile)", "gemm", best.config, {"blocks": tiles}))
    return found


def bars(title: str, products: list[Product], rows: dict[str, dict[str, Any]]) -> Any:
    timed = [rows[p.name] for p in products if "ratio" in rows.get(p.name, {})]
    return charts.bars(title, [(r["name"], r["ratio"], f"{r['tflops']:.0f} TFLOPS") for r in timed])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--table", type=Path, help="of search_matmul.py; default: what its model likes best")
    parser.add_argument("--seconds", type=float, default=0.7, help="of paired timing each")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder; default: benchmarks/results")
    args = parser.parse_args()
    problem = square(args.size)
    known = json.loads(args.table.read_text())["rows"] if args.table else []
    best = Product(BEST, "matmul", chosen(problem, "gemm", known).config)
    steps, variants = ladder(best), ablation(problem, best)
    reports: list[Report] = []
    runner = Runner(Settings(args.seconds, 8), reports.append, workers=1)
    runner.run([(problem, [*steps, *variants])])
    (report,) = reports
    rows = {r["name"]: r for r in report.plain()["products"]}
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / "matmul-ablation.json"
    about = {"machine": runner.machine, "seconds": runner.seconds, "best": words(dict(best.config or {}))}
    write(path, "bench_ablation.py", {**about, **report.plain()})
    title = f"n = {args.size}, f16, f32 sums: "
    (args.results / "matmul-ladder.svg").write_text(str(bars(title + "from naive to the best", steps, rows)))
    picture = bars(title + "one thing taken out, or put in", [best, *variants], rows)
    path.with_suffix(".svg").write_text(str(picture))
    print(f"best: {about['best']}  {report.failed}")
    for name, r in rows.items():
        shown = f"{r['ratio']:.3f}  {r['tflops']:.0f} TFLOPS" if "ratio" in r else f"failed: {r.get('failed')}"
        print(f"{name:<46}{shown}")


if __name__ == "__main__":
    main()
