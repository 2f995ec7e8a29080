"""Which configuration is the fastest for each problem: many are tried, the best few paired with cuBLAS.

    python benchmarks/search_matmul.py squares-f16 --out table-f16.json
    python benchmarks/search_matmul.py squares-f16 --sizes 3072 5120 --candidates mine.json --out table.json

``--candidates``: a JSON list of configurations (fields of `nvdsl.kernels.Config` that differ from its defaults);
default: the most promising of `candidates`. The file is written after every problem; with ``--append`` problems that it
has are not searched again. `bench_matmul.py --table` takes it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.bench_matmul import geometric_mean  # noqa: E402
from benchmarks.candidates import can_run, ranked, shorter, words  # noqa: E402
from benchmarks.drawn import DRAWN, KIND, drawn  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import SETS, Workload, problems  # noqa: E402
from benchmarks.products import Product  # noqa: E402
from benchmarks.runner import Report, Runner, Task  # noqa: E402
from benchmarks.worker import Settings  # noqa: E402


def products(
    problem: Workload, road: str, given: list[dict[str, Any]] | None, top: int, alike: int
) -> list[Product]:
    """The candidates of a problem (of the given ones those that the hardware can run for these types), and what
    nv.matmul chooses by itself: what a table shall be better than."""
    configs = ranked(problem, top, alike) if given is None else [shorter(c) for c in given if can_run(c, problem)]
    unique = {words(config): config for config in configs}
    own = [Product(words(None), road)] if road == "matmul" else []
    return own + [Product(name, road, config) for name, config in unique.items()]


def row(report: Report) -> dict[str, Any]:
    """The best of a problem, and all that was tried with it: fastest first, what failed last."""
    plain = report.plain()
    tried = sorted(plain["products"], key=_order)
    best = tried[0] if tried and "ratio" in tried[0] else None
    found = {"config": best.get("config"), "ratio": best["ratio"], "tflops": best["tflops"]} if best else {}
    return {"problem": plain["problem"], **found, "failed": plain.get("failed"), "tried": tried}


def _order(product: dict[str, Any]) -> tuple[int, float]:
    if "ratio" in product and product["repeats"]:
        return 0, -product["ratio"]
    return (2, 0.0) if "failed" in product else (1, product.get("coarse_ms", 0.0))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = (*SETS, *DRAWN)
    parser.add_argument("sets", nargs="+", choices=known, metavar="SET", help=f"of {', '.join(known)}")
    parser.add_argument("--out", type=Path, required=True, help="JSON, written after every problem")
    parser.add_argument("--sizes", type=int, nargs="+", help="others than the sets' own")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of drawn sets; default: any")
    parser.add_argument("--count", type=int, default=24, help="problems of a set that is drawn")
    parser.add_argument("--kind", default=KIND, help=f"types and layout of sets that are drawn; default: {KIND}")
    parser.add_argument("--candidates", type=Path, help="a JSON list of configurations")
    parser.add_argument("--top", type=int, default=14, help="how many of the built-in candidates a problem gets")
    parser.add_argument("--alike", type=int, default=99, help="... and how many with one schedule, rows and cluster")
    parser.add_argument("--road", choices=("matmul", "gemm"), default="matmul", help="what runs a configuration")
    parser.add_argument("--finalists", type=int, default=4, help="how many are paired with cuBLAS, of those ...")
    parser.add_argument("--near", type=float, default=1.04, help="... at most so much slower than the fastest")
    parser.add_argument("--seconds", type=float, default=0.15, help="of paired timing of each")
    parser.add_argument("--pairs", type=int, default=8, help="at least")
    parser.add_argument("--workers", type=int, help="processes; default: the cores less two")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds; nothing new is begun after")
    parser.add_argument("--append", action="store_true", help="keep what the file has, and search what it lacks")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    given = json.loads(args.candidates.read_text()) if args.candidates else None
    kept = json.loads(args.out.read_text())["rows"] if args.append and args.out.exists() else []
    rows = {_key(r["problem"]): r for r in kept if "config" in r}
    tasks: list[Task] = []
    made = lambda name: (  # noqa: E731
        problems(name, args.sizes) if name in SETS else drawn(name, args.seed, args.count, args.kind)
    )
    for problem in [p for name in args.sets for p in made(name)]:
        if problem.key not in rows and problem not in dict(tasks):
            tasks.append((problem, products(problem, args.road, given, args.top, args.alike)))
    tasks.sort(key=lambda task: -task[0].flops)  # the long ones first: the short ones fill the gaps
    settings = Settings(args.seconds, args.pairs, args.finalists, args.near)

    def on_report(report: Report) -> None:
        rows[report.problem.key] = found = row(report)
        result = {"machine": runner.machine, "settings": vars(settings), "seconds": runner.seconds}
        write(args.out, "search_matmul.py", {**result, "rows": sorted(rows.values(), key=_sizes)})
        if "config" in found:
            print(
                f"{report.problem.key:<36}{found['ratio']:>8.3f}{found['tflops']:>7.0f}  {words(found['config'])}",
                flush=True,
            )
        else:
            print(f"{report.problem.key:<36}  failed: {found['failed'] or found['tried'][:1]}", flush=True)

    runner = Runner(settings, on_report, workers=args.workers, compile_first=False, limit=args.limit)
    runner.run(tasks)
    ratios = [r["ratio"] for r in rows.values() if "ratio" in r]
    if ratios:
        print(f"{len(ratios)} problems, geometric mean {geometric_mean(ratios):.4f}, lowest {min(ratios):.4f}")
    for name, reasons in _failures(rows.values()).items():
        print(f"{name}: {reasons}")
    print({phase: round(seconds, 1) for phase, seconds in runner.seconds.items()})


def _failures(rows: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for r in rows:
        for product in r["tried"]:
            if "failed" in product:
                reasons = found.setdefault(product["name"], [])
                if product["failed"][:120] not in reasons:
                    reasons.append(product["failed"][:120])
    return found


def _key(plain: dict[str, Any]) -> str:
    return Workload(**{name: value for name, value in plain.items() if name != "kind"}).key


def _sizes(r: dict[str, Any]) -> Any:
    return r["problem"]["kind"], r["problem"]["m"], r["problem"]["n"], r["problem"]["k"]


if __name__ == "__main__":
    main()
