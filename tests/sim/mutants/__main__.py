"""``python -m tests.sim.mutants [--write] [--every N] [--jobs N] [NAME ...]``: judge all mutants, of all kernels."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.sim.mutants import table
from tests.sim.mutants.judge import Verdict
from tests.sim.mutants.subjects import SUBJECTS, judged, subject


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--write", action="store_true", help="write docs/mutations.md")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth mutant of a kernel; default all")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    options = parser.parse_args()
    names = options.names or list(SUBJECTS)
    start, parts = time.time(), 4 * options.every
    tasks = [(name, part, parts) for name in names for part in range(0, parts, options.every)]
    verdicts: dict[str, dict[int, Verdict]] = {name: {} for name in names}
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for done, one in enumerate(as_completed([pool.submit(judged, *task) for task in tasks]), 1):
            name, found = one.result()
            verdicts[name].update(found)
            print(f"\r{done} of {len(tasks)} parts", end="", file=sys.stderr, flush=True)
    print(f", {time.time() - start:.0f} s", file=sys.stderr)
    rows = [
        table.Row(name, mutant, verdicts[name][i])
        for name in names
        for i, mutant in enumerate(subject(name).mutants)
        if i in verdicts[name]
    ]
    wrong = [*map(str, table.unexplained(rows))]
    if not options.names and options.every == 1:
        wrong += [f"a reason that no mutant needs: {entry}" for entry in table.unused(rows)]
    print(f"{len(rows)} mutants, {table.rate(rows):.1f} % reported with a right line")
    print("\n".join(wrong))
    if options.write and not options.names:
        table.PATH.write_text(table.text(rows, options.every))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
