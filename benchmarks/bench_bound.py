"""What bounds a GEMM: the clock that power leaves, and how fast kernels are that load nothing, read no memory or store
nothing.

    python benchmarks/bench_bound.py [--sizes 4096 8192] [--out benchmarks/results/matmul-bound.json]

f16 with f32 sums, squares. Each kernel also times itself, by the SM's own clock: in how many of its clocks the tensor
cores multiply, and how fast the clock ran. First all in turn, each call in a pair with cuBLAS; then the faster of the
two schedules alone, call after call: the clock follows power with a delay of some 50 ms, so that contenders in turn
have one clock, and only alone does a kernel gain by what it saves of power. Writes JSON and a plot.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import charts  # noqa: E402
from benchmarks.bounds import CASES, CONFIGS, products  # noqa: E402
from benchmarks.candidates import words  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import square  # noqa: E402
from benchmarks.runner import Report, Runner  # noqa: E402
from benchmarks.worker import Settings  # noqa: E402

SIZES = (2048, 4096, 6144, 8192, 12288, 16384)
TITLE = "What bounds a GEMM (f16, f32 sums)"


def rows(reports: list[Report]) -> list[dict[str, Any]]:
    """One for each size and kernel, the smallest first."""
    found = []
    for report in sorted(reports, key=lambda report: report.problem.m):
        plain = report.plain()
        about = {"n": report.problem.n, "library": plain.get("library"), "highest_ghz": plain.get("highest_ghz")}
        for product in plain["products"] or [{"failed": plain.get("failed")}]:
            case = {name: product.get("options", {}).get(name) for name in ("schedule", "without")}
            kept = {name: x for name, x in product.items() if name not in ("road", "options")}
            found.append({**about, **case, **kept})
    return found


def draw(rows: list[dict[str, Any]]) -> str:
    """Of the faster schedule of each case: these have run alone."""
    curves = [(name, [r for r in rows if r["without"] == without and "alone_ratio" in r]) for without, name in CASES]
    return str(charts.bounds(TITLE, curves))


def table(rows: list[dict[str, Any]]) -> str:
    head = f"{'n':>6}  {'kernel':<34}{'ratio':>7}{'10%..90%':>15}{'GHz':>8}{'busy':>7}{'useful':>8}{'TFLOPS':>8}"
    lines = [f"{head}   alone: ratio   GHz  TFLOPS  cuBLAS"]
    for r in rows:
        if "ratio" not in r:
            lines.append(f"{r['n']:>6}  {r.get('name', ''):<34} failed: {r.get('failed')}")
            continue
        spread = f"{r['ratio_low']:.3f}..{r['ratio_high']:.3f}"
        lines.append(
            f"{r['n']:>6}  {r['name']:<34}{r['ratio']:>7.3f}{spread:>15}{r['ghz']:>8.3f}{r['busy']:>7.3f}"
            f"{r['useful']:>8.3f}{r['tflops']:>8.0f}{by_itself(r)}{'' if r['repeats'] else '  NOT THE SAME TWICE'}"
        )
    return "\n".join(lines)


def by_itself(r: dict[str, Any]) -> str:
    if "alone_ratio" not in r:
        return ""
    return f"{r['alone_ratio']:>15.3f}{r['alone_ghz']:>7.3f}{r['alone_tflops']:>7.0f}{r['alone_library_tflops']:>8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="multiples of 256")
    parser.add_argument("--seconds", type=float, default=0.5, help="of paired timing each")
    parser.add_argument("--pairs", type=int, default=12, help="at least")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds; nothing new is begun after")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "matmul-bound.json")
    args = parser.parse_args()
    if any(n <= 0 or n % 256 for n in args.sizes):
        parser.error("sizes are multiples of 256: whole rounds of the few slices that a kernel without memory reads")
    settings = Settings(args.seconds, args.pairs)
    reports: list[Report] = []

    def on_report(report: Report) -> None:
        reports.append(report)
        configs = {schedule: words(config) for schedule, config in CONFIGS.items()}
        about = {"what": TITLE, "machine": runner.machine, "seconds": runner.seconds, "settings": vars(settings)}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write(args.out, "bench_bound.py", {**about, "configs": configs, "rows": rows(reports)})

    runner = Runner(settings, on_report, limit=args.limit, factory="benchmarks.bounds:Bounds")
    runner.run([(square(n), products()) for n in args.sizes])
    args.out.with_suffix(".svg").write_text(draw(rows(reports)))
    print(table(rows(reports)))
    print({phase: round(seconds, 1) for phase, seconds in runner.seconds.items()})


if __name__ == "__main__":
    main()
