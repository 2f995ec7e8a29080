"""nvdsl's matrix product beside cuBLAS, over a set of problems: JSON and a plot for each set.

    python benchmarks/bench_matmul.py squares-f16 squares-bf16
    python benchmarks/bench_matmul.py random --seed 7 --count 200
    python benchmarks/bench_matmul.py --list

Every shape is checked before it is timed. benchmarks/README.md: the protocol, and how to read the results.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import charts  # noqa: E402
from benchmarks.candidates import words  # noqa: E402
from benchmarks.drawn import DRAWN, KIND, drawn  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import SETS, Workload, problems  # noqa: E402
from benchmarks.products import chosen  # noqa: E402
from benchmarks.runner import Report, Runner, Task  # noqa: E402
from benchmarks.worker import Settings  # noqa: E402

BARS = 0.85, 0.95
"""The share of the ratios below these is told."""
RESULTS = ROOT / "benchmarks" / "results"


class Sweep:
    """The results of one set, on disk after each problem."""

    def __init__(self, name: str, wanted: list[Workload], folder: Path, seed: int) -> None:
        self.name, self.wanted = name, wanted
        self.what = SETS[name][0] if name in SETS else f"{DRAWN[name][0]}; seed {seed}"
        self.path = folder / f"matmul-{name}.json"
        self._rows: dict[str, dict[str, Any]] = {}

    def add(self, report: Report) -> None:
        self._rows[report.problem.key] = row(report)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """In the order of the set."""
        return [self._rows[p.key] for p in self.wanted if p.key in self._rows]

    def write(self, about: dict[str, Any]) -> None:
        result = {
            "set": self.name,
            "what": self.what,
            **about,
            "summary": summary(self.rows),
            "rows": self.rows,
        }
        write(self.path, "bench_matmul.py", result)

    def draw(self) -> None:
        self.path.with_suffix(".svg").write_text(str(charts.sweep(self.what, self.rows)))


def row(report: Report) -> dict[str, Any]:
    """One problem as a flat row."""
    plain = report.plain()
    (product,) = plain["products"] or [{"failed": plain.get("failed")}]
    product.setdefault("config", None)
    return {**plain["problem"], "size": report.problem.size, "library": plain.get("library"),
            "library_error": plain.get("library_error"), **product}  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Per kind (types, layout, scales): the geometric mean of the ratios, the lowest and the highest, what failed."""
    found = {}
    for kind in dict.fromkeys(r["kind"] for r in rows):
        mine = [r for r in rows if r["kind"] == kind]
        timed = [r for r in mine if "ratio" in r]
        entry: dict[str, Any] = {"problems": len(mine), "failed": [r["size"] for r in mine if "failed" in r]}
        entry["unstable"] = [r["size"] for r in timed if not r["repeats"]]
        if timed:
            low, high = (f(timed, key=lambda r: r["ratio"]) for f in (min, max))
            entry["geometric_mean"] = geometric_mean([r["ratio"] for r in timed])
            entry["call_after_call"] = geometric_mean([r["sustained"] for r in timed])
            entry["under"] = {str(bar): sum(r["ratio"] < bar for r in timed) / len(timed) for bar in BARS}
            entry["lowest"], entry["highest"] = ({"size": r["size"], "ratio": r["ratio"]} for r in (low, high))
        found[kind] = entry
    return found


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(sweep: Sweep) -> str:
    lines = [f"\n{sweep.name}: {sweep.what}"]
    lines.append(
        f"{'kind':<22}{'size':>18}{'TFLOPS':>9}{'cuBLAS':>9}{'ratio':>8}{'10%..90%':>15}{'sustained':>10}"
        f"{'error':>9}  configuration"
    )
    for r in sweep.rows:
        head = f"{r['kind']:<22}{r['size']:>18}"
        if "ratio" not in r:
            lines.append(f"{head}  failed: {r.get('failed')}")
            continue
        spread = f"{r['ratio_low']:.3f}..{r['ratio_high']:.3f}"
        unstable = "" if r["repeats"] else "  NOT THE SAME TWICE"
        lines.append(
            f"{head}{r['tflops']:>9.0f}{r['library_tflops']:>9.0f}{r['ratio']:>8.3f}{spread:>15}{r['sustained']:>10.3f}"
            f"{r['error']:>9.1e}  {words(r['config'])}{unstable}"
        )
    for kind, entry in summary(sweep.rows).items():
        if "geometric_mean" in entry:
            low, high = entry["lowest"], entry["highest"]
            lines.append(
                f"{kind}: geometric mean {entry['geometric_mean']:.3f}, call after call "
                f"{entry['call_after_call']:.3f}, under 0.95 {entry['under']['0.95']:.1%}, lowest {low['ratio']:.3f} "
                f"at {low['size']}, highest {high['ratio']:.3f} at {high['size']}, "
                f"failed {len(entry['failed'])} of {entry['problems']}"
            )
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="SET[:COUNT]", help=f"of {', '.join([*SETS, *DRAWN])}")
    parser.add_argument("--list", action="store_true", help="the sets, and how many problems each has")
    parser.add_argument("--sizes", type=int, nargs="+", help="others than the sets' own")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of drawn sets; default: any")
    parser.add_argument("--count", type=int, default=50, help="problems of a set that is drawn")
    parser.add_argument("--kind", default=KIND, help=f"types and layout of sets that are drawn; default: {KIND}")
    parser.add_argument("--road", choices=("matmul", "gemm"), default="matmul", help="nv.matmul, or nvdsl.kernels.gemm")
    parser.add_argument("--table", type=Path, help="configurations found by search_matmul.py; default: nv.matmul's own")
    parser.add_argument("--seconds", type=float, default=0.5, help="of paired timing a problem")
    parser.add_argument("--pairs", type=int, default=12, help="at least")
    parser.add_argument("--workers", type=int, help="processes that compile; default: the cores less two")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds; nothing new is begun after")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder; default: benchmarks/results")
    args = parser.parse_args()
    counts = {name: int(count or args.count) for name, _, count in (x.partition(":") for x in args.sets)}
    unknown = [name for name in counts if name not in SETS and name not in DRAWN]
    if unknown or not (args.sets or args.list):
        known = ", ".join([*SETS, *DRAWN])
        parser.error(f"name one or more of {known}" + (f", not {', '.join(unknown)}" if unknown else ""))
    try:
        args.problems = {
            name: problems(name, args.sizes) if name in SETS else drawn(name, args.seed, count, args.kind)
            for name, count in counts.items()
        }
    except ValueError as error:
        parser.error(str(error))
    return args


def main() -> None:
    args = arguments()
    if args.list:
        for name, (what, _, _) in SETS.items():
            print(f"{name:<18}{len(problems(name)):>4}  {what}")
        for name, (what, _) in DRAWN.items():
            print(f"{name:<18}   ?  {what}")
        return
    known = json.loads(args.table.read_text())["rows"] if args.table else []
    args.results.mkdir(parents=True, exist_ok=True)
    sweeps = [Sweep(name, wanted, args.results, args.seed) for name, wanted in args.problems.items()]
    tasks: list[Task] = []
    for sweep in sweeps:
        tasks += [(p, [chosen(p, args.road, known)]) for p in sweep.wanted if p not in dict(tasks)]

    def on_report(report: Report) -> None:
        about = {"machine": runner.machine, "seconds": runner.seconds, "settings": vars(settings)}
        for sweep in sweeps:
            if report.problem in sweep.wanted:
                sweep.add(report)
                sweep.write(about)

    settings = Settings(args.seconds, args.pairs)
    runner = Runner(settings, on_report, workers=args.workers, limit=args.limit)
    runner.run(tasks)
    for sweep in sweeps:
        sweep.write({"machine": runner.machine, "seconds": runner.seconds, "settings": vars(settings)})
        sweep.draw()
        print(table(sweep))
    print({phase: round(seconds, 1) for phase, seconds in runner.seconds.items()})


if __name__ == "__main__":
    main()
