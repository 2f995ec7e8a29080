"""nv.matmul beside cuBLAS for every type and layout: random shapes of each, many a second.

    python benchmarks/bench_kinds.py --prepare --seed 7        # compile only: the next run finds it on disk
    python benchmarks/bench_kinds.py --seed 7 --count 50 --results benchmarks/results
    python benchmarks/bench_kinds.py --kinds bf16.f32.bf16.NT:few-rows,long-k tf32.f32.f32.NT

One process for each kind compiles all of its shapes, so each kind has as many configurations as one process compiles.
Then one problem is timed at a time, a kind after the other, with few pairs each, more where nvdsl is behind. Each
result is checked against cuBLAS's. Where torch takes no such shape of 8-bit types or no such layout, cuBLAS gets
operands that were padded and turned beforehand.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import strips  # noqa: E402
from benchmarks.bench_matmul import geometric_mean  # noqa: E402
from benchmarks.drawn import DRAWN, KINDS  # noqa: E402
from benchmarks.kinds_worker import serve  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import Workload  # noqa: E402
from nvdsl.kernels.gemm.config import Config  # noqa: E402

MOST_FLOPS, MOST_BYTES = 2e12, 2e9
"""Larger products are drawn again: they would take all the time there is."""
BARS = 0.85, 0.9, 0.95
EACH = 10
"""Of each kind, after which results are written."""
START, DEADLINE = 90.0, 20.0
"""Seconds until a process must have imported and compiled, and of one problem."""


def problems(sets: list[str], kind: str, seed: int, count: int) -> list[tuple[str, Workload]]:
    """The first ``count`` of each set, by turns. ``kind``: as `Workload.kind`, and behind a colon sets of its own."""
    kind, _, own = kind.partition(":")
    sets = own.split(",") if own else sets
    dtype, acc, out, layout, *scales = kind.split(".")
    lists = []
    for name in sets:
        draw = random.Random(f"{name} {kind} {seed}")
        found: dict[Workload, None] = {}
        while len(found) < count:
            problem = Workload(*DRAWN[name][1](draw), dtype, acc, out, layout, "".join(scales))
            if problem.flops <= MOST_FLOPS and problem.bytes <= MOST_BYTES:
                found[problem] = None
        lists.append([(name, problem) for problem in found])
    return [each for turn in zip(*lists, strict=True) for each in turn]


class Parent:
    def __init__(self, todo: dict[str, list[tuple[str, Workload]]]) -> None:
        import torch  # noqa: F401  (once, for all processes)

        import benchmarks.cublas
        import benchmarks.operands  # noqa: F401
        import nvdsl as nv

        nv.matmul  # noqa: B018  (what is imported when it is first named)
        context = multiprocessing.get_context("fork")
        self.todo, self.children = todo, {}
        for kind, mine in todo.items():
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, mine), daemon=True)
            process.start()
            self.children[kind] = ours, process

    def ask(self, kind: str, *message: Any) -> None:
        try:
            self.children[kind][0].send(message)
        except OSError:
            pass

    def answer(self, kind: str, deadline: float) -> Any:
        """None where the process is gone; it is ended where it hangs."""
        connection, process = self.children[kind]
        try:
            if connection.poll(deadline):
                return connection.recv()
        except (EOFError, OSError):
            pass
        process.kill()
        print(f"{kind}: the process was lost", flush=True)
        del self.children[kind]
        return None

    def close(self) -> None:
        for _, process in self.children.values():
            process.kill()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for key in dict.fromkeys((r["set"], r["kind"]) for r in rows):
        mine = [r for r in rows if (r["set"], r["kind"]) == key]
        timed = [r for r in mine if "ratio" in r]
        entry: dict[str, Any] = {"problems": len(mine), "failed": [r["size"] for r in mine if "failed" in r]}
        if timed:
            low, high = (f(timed, key=lambda r: r["ratio"]) for f in (min, max))
            entry["geometric_mean"] = geometric_mean([r["ratio"] for r in timed])
            entry["call_after_call"] = geometric_mean([r["sustained"] for r in timed])
            entry["under"] = {str(bar): sum(r["ratio"] < bar for r in timed) for bar in BARS}
            entry["lowest"], entry["highest"] = ({"size": r["size"], "ratio": r["ratio"]} for r in (low, high))
        found[" ".join(key)] = entry
    return found


def lines(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    for name, entry in summary(rows).items():
        if "geometric_mean" not in entry:
            found.append(f"{name}: none timed of {entry['problems']}")
            continue
        low, under = entry["lowest"], entry["under"]
        found.append(
            f"{name:<38} {entry['geometric_mean']:.3f} / {entry['call_after_call']:.3f}, under "
            + " ".join(f"{bar}: {count}" for bar, count in under.items())
            + f", lowest {low['ratio']:.3f} {low['size']}, failed {len(entry['failed'])} of {entry['problems']}"
        )
    return found


def low(r: dict[str, Any]) -> str:
    """A row of a low ratio, and by how much the best of the others is faster."""
    text = brief(r["config"]) if r["config"] else ""
    best = min(r.get("tried") or (), key=lambda x: x["ms"], default=None)
    more = r["tried"][0]["ms"] / best["ms"] if best else 1.0
    other = f" | {more:.2f} {brief(best['config'])}" if best and more > 1.02 else ""
    head = f"{r['ratio']:.3f} {r['sustained']:.2f} {r['kind']:<18} {r['size']:<18} {r['ms'] * 1e3:6.1f} us"
    return f"{head} {r['road'].replace('tensor_core', '')} {text}{other}"


def brief(config: dict[str, Any]) -> str:
    c = Config(**config)
    turned = "s" * c.swap_ab + (f"/{c.split}" if c.split > 1 else "") + (f"p{c.parts}" if c.parts > 1 else "")
    return f"{c.schedule[:4]} {c.tile_m}x{c.tile_n} {c.cluster_m}{c.cluster_n}{turned}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--kinds",
        nargs="+",
        default=list(KINDS),
        help="types, layout, scales, as f16.f32.f16.NT; also f16.f32.f16.NT:few-rows,long-k",
    )
    parser.add_argument("--sets", nargs="+", default=["random-types"], choices=list(DRAWN))
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--count", type=int, default=50, help="problems of each kind and set")
    parser.add_argument("--others", type=int, default=0, help="configurations to time of the lowest, at the end")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds; nothing new is begun after")
    parser.add_argument("--compile", type=float, default=START, help="seconds; what is not compiled then is left out")
    parser.add_argument("--warm", type=float, default=START, help="seconds of first calls, all processes at once")
    parser.add_argument("--prepare", action="store_true", help="compile only")
    parser.add_argument("--shown", type=int, default=25, help="of the lowest ratios")
    parser.add_argument("--results", type=Path, help="folder")
    parser.add_argument("--name", default="kinds", help="of the files there")
    return parser.parse_args()


def main() -> None:
    args, start = arguments(), time.monotonic()
    left = lambda: start + args.limit - time.monotonic()  # noqa: E731
    todo = {kind: problems(args.sets, kind, args.seed, args.count) for kind in args.kinds}
    parent = Parent(todo)
    print(f"seed {args.seed}; imported after {time.monotonic() - start:.1f} s", flush=True)
    for kind in todo:
        parent.ask(kind, "prepare", min(args.compile, left()))
    compiled = {kind: parent.answer(kind, max(1.0, left())) for kind in todo}
    print(f"compiled after {time.monotonic() - start:.1f} s: {list(compiled.values())}", flush=True)
    if args.prepare:
        return parent.close()
    for kind in parent.children:
        parent.ask(kind, "warm", min(args.warm, left()))
    warmed = [parent.answer(kind, args.warm + DEADLINE) for kind in list(parent.children)]
    print(f"warm after {time.monotonic() - start:.1f} s: {[round(x) for x in warmed if x is not None]}", flush=True)
    parent.ask(args.kinds[0], "machine")
    machine = parent.answer(args.kinds[0], DEADLINE)
    rows: list[dict[str, Any]] = []
    asked: list[tuple[str, int]] = []

    def save() -> None:
        what = {name: DRAWN[name][0] for name in dict.fromkeys(r["set"] for r in rows)}
        about = {"seed": args.seed, "seconds": time.monotonic() - start, "what": what, "machine": machine}
        if args.results:
            args.results.mkdir(parents=True, exist_ok=True)
            path = args.results / f"matmul-{args.name}.json"
            write(path, "bench_kinds.py", {**about, "summary": summary(rows), "rows": rows})
            path.with_suffix(".svg").write_text(str(strips.strips("cuBLAS's time / nvdsl's, by kind", rows)))

    for i in range(max(map(len, todo.values()))):
        for kind in list(parent.children):
            if left() < 0 or i >= len(todo[kind]):
                continue
            parent.ask(kind, "time", i, 0)
            name, problem = todo[kind][i]
            row = parent.answer(kind, DEADLINE) or {"failed": "the process was lost"}
            rows.append({"set": name, **problem.plain(), "kind": problem.kind, "size": problem.size} | row)
            asked.append((kind, i))
        if i % EACH == EACH - 1:
            save()
    save()
    lowest = sorted((r["ratio"], number) for number, r in enumerate(rows) if r.get("ratio", 1.0) < BARS[-1])
    for _, number in lowest if args.others else ():
        kind, i = asked[number]
        if kind in parent.children and left() > 0:
            parent.ask(kind, "time", i, args.others)
            rows[number]["tried"] = (parent.answer(kind, DEADLINE) or {}).get("tried", [])
    save()
    for line in lines(rows):
        print(line)
    timed = sorted((r for r in rows if "ratio" in r), key=lambda r: r["ratio"])
    for r in [r for r in timed if r["ratio"] < BARS[-1]][: args.shown]:
        print(low(r))
    for r in [r for r in rows if "failed" in r][:6]:
        print("failed", r["kind"], r["size"], r["failed"][:90])
    print(f"{len(timed)} timed in {time.monotonic() - start:.1f} s", flush=True)
    parent.close()


if __name__ == "__main__":
    main()
