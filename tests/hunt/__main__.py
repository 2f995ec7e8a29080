"""``python -m tests.hunt --seed S --count N [--mutants M] [--out FILE]``: hunt, and write the report."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from nvdsl.tune import progress
from tests.hunt.hunt import Finding, Hunted, hunt

KINDS = ("false alarm", "wrong numbers", "right numbers")
"""In the order of the report: the worst first."""


def report(seed: int, hunted: Sequence[Hunted]) -> str:
    """Every finding, the worst first, and the text of the kernels that it is about."""
    judged, reported = sum(one.judged for one in hunted), sum(one.reported for one in hunted)
    lines = [f"# Hunt with seed {seed}", "", f"{len(hunted)} kernels, {judged} mutants, {reported} reported."]
    findings = sorted((f for one in hunted for f in one.findings), key=lambda f: (KINDS.index(f.kind), f.number))
    for kind in KINDS:
        mine = [f for f in findings if f.kind == kind]
        lines += ["", f"## {kind}: {len(mine)}", ""]
        lines += [f"- kernel {f.number}, {f.place}: {f.what}" for f in mine] or ["None."]
    lines += ["", "## Kernels"]
    for number, text in {f.number: f.text for f in findings}.items():
        lines += ["", f"### Kernel {number}", "", "```python", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="kernels")
    parser.add_argument("--mutants", type=int, default=20, help="of each")
    parser.add_argument("--jobs", type=int, default=min(len(os.sched_getaffinity(0)), 16))
    parser.add_argument("--out", type=Path, default=Path("build/hunt.md"))
    options = parser.parse_args()
    shown, hunted = progress.show("hunt"), []
    shown.stage("kernels", options.count)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        tasks = [pool.submit(hunt, options.seed, number, options.mutants) for number in range(options.count)]
        for task in as_completed(tasks):
            hunted.append(task.result())
            shown.step(f"{sum(len(one.findings) for one in hunted)} findings")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(report(options.seed, hunted))
    found: list[Finding] = [f for one in hunted for f in one.findings]
    shown.close(", ".join(f"{sum(f.kind == kind for f in found)} {kind}" for kind in KINDS) + f"; see {options.out}")
    return int(any(f.kind == "false alarm" for f in found))


if __name__ == "__main__":
    sys.exit(main())
