"""Random products by each kernel that can compute them, and by nv.matmul's choice, all beside cuBLAS.

    python benchmarks/bench_roads.py random:200 random-squares:24 --seed 7 --out build/roads.json

What the limits in `nvdsl.kernels.gemm.dispatch`, `short` and `small` are drawn from: a kernel that is faster than the
choice for a class of products shows here. Large products are left out, as is what would take a kernel far longer.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.bench_matmul import geometric_mean  # noqa: E402
from benchmarks.drawn import DRAWN, KIND, drawn  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import Workload  # noqa: E402
from benchmarks.products import Product  # noqa: E402
from benchmarks.runner import Report, Runner, Task  # noqa: E402
from benchmarks.worker import Settings  # noqa: E402
from nvdsl.kernels.gemm import flat  # noqa: E402

CHOSEN = "chosen"
def possible(problem: Workload) -> list[Product]:
    """What may be the fastest."""
    products, slices = problem.m * problem.n * problem.k, -(-problem.k // 32)
    tiles = -(-problem.m // 16) * -(-problem.n // 32)
    large = products >= 1 << 28
    found = {
        "simple": products <= 1 << 24,
        "by_warps": tiles * slices <= 1 << 14,
        "by_vectors": products < 1 << 33,
        "by_strips 16": problem.k <= 1024 and not large,
        "by_strips 32": problem.k <= 512 and not large,
        "by_runs": problem.k <= flat.MOST,
        "by_threads": not large,
        "tensor_cores": True,
    }
    ways = [Product(name, "kernel", options={"by": name}) for name, may in found.items() if may]
    return [] if 1 in (problem.m, problem.n) else ways


def row(report: Report) -> dict[str, Any]:
    """One problem: what each kernel's time is of cuBLAS's, single calls and call after call."""
    plain = report.plain()
    timed = {p["name"]: p for p in plain["products"] if "ratio" in p}
    wrong = {p["name"]: p["failed"] for p in plain["products"] if "failed" in p and "has no kernel" not in p["failed"]}
    return {
        "m": report.problem.m, "n": report.problem.n, "k": report.problem.k, "kind": report.problem.kind,
        "us": {name: round(1e3 * p["ms"], 2) for name, p in timed.items()},
        "cublas_us": round(1e3 * min((p["library_ms"] for p in timed.values()), default=0.0), 2),
        "ratio": {name: round(p["ratio"], 3) for name, p in timed.items()},
        "sustained": {name: round(p["sustained"], 3) for name, p in timed.items()},
        **({"failed": wrong} if wrong else {}),
    }  # fmt: skip


def told(rows: list[dict[str, Any]]) -> str:
    """A line for each problem whose choice is slow, and the means."""
    whole = [r for r in rows if CHOSEN in r["ratio"]]
    lines = []
    for r in sorted(whole, key=lambda r: r["ratio"][CHOSEN]):
        best = max(r["ratio"], key=r["ratio"].__getitem__)
        if r["ratio"][CHOSEN] < 1 or r["ratio"][best] > 1.05 * r["ratio"][CHOSEN]:
            others = "  ".join(f"{name} {value:.3f}" for name, value in r["ratio"].items())
            lines.append(f"{r['kind']} {r['m']}x{r['n']}x{r['k']}: {others}")
    if whole:
        chosen, best = (geometric_mean([f(r["ratio"]) for r in whole]) for f in (_chosen, _best))
        under = [sum(_chosen(r["ratio"]) < bar for r in whole) for bar in (0.85, 0.95)]
        lines.append(f"{len(whole)}: chosen {chosen:.3f} ({under} under 0.85, 0.95), the best of each {best:.3f}")
    return "\n".join(lines + [f"failed: {r['m']}x{r['n']}x{r['k']} {r['failed']}" for r in rows if "failed" in r])


def _chosen(ratios: dict[str, float]) -> float:
    return ratios[CHOSEN]


def _best(ratios: dict[str, float]) -> float:
    return max(ratios.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET:COUNT[:KIND]", help=f"what is drawn, of {', '.join(DRAWN)}")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="default: any")
    parser.add_argument("--kind", default=KIND, help=f"types and layout; default: {KIND}")
    parser.add_argument("--shapes", nargs="+", metavar="MxNxK", default=[], help="these before drawn ones")
    parser.add_argument("--most", type=float, default=60.0, help="microseconds, about: what takes longer is left out")
    parser.add_argument("--seconds", type=float, default=0.005, help="of paired timing of each kernel")
    parser.add_argument("--pairs", type=int, default=7, help="at least")
    parser.add_argument("--workers", type=int, help="processes that compile; default: the cores less two")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds; nothing new is begun after")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "roads.json")
    args = parser.parse_args()
    dtype, acc, out, layout = args.kind.split(".")
    sizes = [tuple(map(int, shape.split("x"))) for shape in args.shapes]
    problems = [Workload(m, n, k, dtype, acc, out, layout) for m, n, k in sizes]
    for name, count, *kind in (drawn_set.split(":") for drawn_set in args.sets):
        problems += drawn(name, args.seed, int(count), *(kind or [args.kind]))
    rows: list[dict[str, Any]] = []
    tasks: list[Task] = []
    for problem in problems:
        if problem.seconds <= 1e-6 * args.most:
            tasks.append((problem, [Product(CHOSEN), *possible(problem)]))

    def on_report(report: Report) -> None:
        rows.append(row(report))
        write(args.out, "bench_roads.py", {"seed": args.seed, "machine": runner.machine, "rows": rows})

    args.out.parent.mkdir(parents=True, exist_ok=True)
    runner = Runner(Settings(args.seconds, args.pairs), on_report, workers=args.workers, limit=args.limit)
    runner.run(tasks)
    print(told(rows))
    print({phase: round(seconds, 1) for phase, seconds in runner.seconds.items()})


if __name__ == "__main__":
    main()
