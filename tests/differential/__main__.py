"""Draw cases, run them on an H200, and compare the simulator with what it gave.

    python -m tests.differential generate --seed 1 --count 50 --out cases.jsonl
    python -m tests.differential record cases.jsonl --out recorded.jsonl --jobs 14     (on a machine with the GPU)
    NVDSL_SIM_EXACT=1 python -m tests.differential compare recorded.jsonl              (anywhere)
    python -m tests.differential pack recorded.jsonl                                   (before it is committed)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.differential import corpus, device


def generate(args: argparse.Namespace) -> int:
    from tests.differential import strategies

    cases = [case for kind in args.kinds or strategies.ALL for case in strategies.draw(kind, args.count, args.seed)]
    corpus.write(args.out, [corpus.Entry(case) for case in dict.fromkeys(cases)])
    print(dict(Counter(case.kind for case in cases)))
    return 0


def record(args: argparse.Namespace) -> int:
    entries = device.record(corpus.read(args.file), args.jobs, args.timeout, args.budget)
    corpus.write(args.out, entries)
    failed = [entry for entry in entries if entry.error]
    print(f"{len(entries) - len(failed)} recorded, {len(failed)} failed")
    for entry in failed:
        print(f"--- {entry.case}\n{entry.error}")
    return bool(failed)


def compare(args: argparse.Namespace) -> int:
    bad = 0
    for entry in corpus.read(args.file):
        if args.kinds and entry.case.kind not in args.kinds:
            continue
        found = corpus.disagreements(entry)
        bad += bool(found)
        if found:
            print(f"--- {entry.case}", *found, sep="\n    ", flush=True)
    print(f"{bad} cases disagree")
    return bool(bad)


def pack(args: argparse.Namespace) -> int:
    corpus.write(args.file, [corpus.pack(entry) for entry in corpus.read(args.file)])
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("generate")
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--count", type=int, default=20, help="cases of each kind")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=generate)
    two = commands.add_parser("record")
    two.add_argument("file", type=Path)
    two.add_argument("--out", type=Path, required=True)
    two.add_argument("--jobs", type=int, default=8)
    two.add_argument("--timeout", type=float, default=30, help="seconds a case may take")
    two.add_argument("--budget", type=float, default=150, help="seconds for all")
    two.set_defaults(run=record)
    three = commands.add_parser("compare")
    three.add_argument("file", type=Path)
    three.set_defaults(run=compare)
    four = commands.add_parser("pack")
    four.add_argument("file", type=Path)
    four.set_defaults(run=pack)
    for command in (one, three):
        command.add_argument("--kinds", nargs="*")
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
