"""``python -m tests.sim.mutants [--write] [--every N] [--jobs N] [NAME ...]``: judge all mutants, of all kernels.

What `kept` has of the same kernels and checks is not judged again: after a change of a kernel it takes minutes."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.sim.mutants import kept, table
from tests.sim.mutants.judge import Verdict
from tests.sim.mutants.subjects import SUBJECTS, judged, subject


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--write", action="store_true", help="write docs/mutations.md")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth mutant of a kernel; default all")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--anew", action="store_true", help="use no verdicts of build/mutants")
    parser.add_argument("--trust", action="store_true", help="use those of other checks, too")
    options = parser.parse_args()
    names, start = options.names or list(SUBJECTS), time.time()
    verdicts: dict[str, dict[int, Verdict]] = {}
    tasks = []
    for name in names:
        one = subject(name)
        verdicts[name] = {} if options.anew else kept.verdicts(one, options.trust)
        left = [i for i in range(0, len(one.mutants), options.every) if i not in verdicts[name]]
        tasks += [(name, left[part::4]) for part in range(min(4, len(left)))]
    print(f"{sum(map(len, verdicts.values()))} verdicts are kept, {time.time() - start:.0f} s", file=sys.stderr)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for done, future in enumerate(as_completed([pool.submit(judged, *task) for task in tasks]), 1):
            name, found = future.result()
            verdicts[name].update(found)
            kept.keep(subject(name), verdicts[name])
            print(f"\r{done} of {len(tasks)} parts", end="", file=sys.stderr, flush=True)
    print(f", {time.time() - start:.0f} s", file=sys.stderr)
    rows = [
        table.Row(name, mutant, verdicts[name][i])
        for name in names
        for i, mutant in enumerate(subject(name).mutants)
        if i in verdicts[name] and i % options.every == 0
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
