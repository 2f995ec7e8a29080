"""Attention and its gradients beside FlashAttention-4, of problems drawn at random (`attention_drawn`): TFLOPS of
single calls with the L2 flushed before each, and call after call.

    python benchmarks/bench_attention_drawn.py --seed 7 --count 40 [--kinds full packed] [--passes forward]
        [--out build/drawn.json] [--jobs 8] [--seconds 60]
    python benchmarks/bench_attention_drawn.py --sets ordered documents

bf16, one GPU. The results are compared with FlashAttention-4's before anything is timed; where it refuses a problem,
that is printed. Where it is not installed, gradients in order are timed, beside those without an order. ``--sets``:
problems of `attention_drawn` that are not drawn. ``--jobs``: processes that compile side by side, and take turns at the
GPU. ``--seconds``: what is not timed by then is left out.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import attention_drawn, paired  # noqa: E402
from benchmarks.attention_drawn import PASSES, Arrays, Problem  # noqa: E402

ROUNDS, MS, TURNS = 8, 10, 4
TOLERANCE = 1e-2
Row = dict[str, Any]
_lock: Any = None


def _begin(lock: Any) -> None:
    global _lock
    _lock = lock
    import nvdsl  # noqa: F401
    from benchmarks import bench_attention  # noqa: F401


def measured(task: tuple[Problem, str]) -> Row | str:
    """A row; or why there is none."""
    problem, name = task
    try:
        import torch

        torch.manual_seed(time.time_ns() % 2**31)
        arrays = Arrays(problem)
        calls, reference = PASSES[name](arrays)
        try:
            expected = calls[other(calls)]()
            torch.cuda.synchronize()
        except Exception as error:  # assertions, and errors of its compiler
            return f"FlashAttention-4: {type(error).__name__}: {str(error)[:200]}"
        found = attention_drawn.differences(calls["kernel"](), expected)
        if not all(x < TOLERANCE for x in found):
            return f"WRONG: {found}; beside f32 {_beside_f32(problem, calls, reference)}"
        del expected
        row = {**problem._asdict(), "pass": name, **_timed(problem.work * (1 if name == "forward" else 2.5), calls)}
        del arrays, calls
        torch.cuda.empty_cache()
        return row
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def _beside_f32(problem: Problem, calls: attention_drawn.Calls, reference: Callable[[], Any]) -> dict[str, Any]:
    """Whose error it is: of the first sequence of a batch, without pages."""
    if problem.page or problem.kind == "packed":
        return {}
    wanted, found = reference(), {}
    for who, call in calls.items():
        results = call()
        results = results if isinstance(results, tuple | list) else [results]
        found[who] = attention_drawn.differences([x[:1] for x in results], wanted)
    return found


def _timed(work: float, calls: dict[str, Callable[[], Any]]) -> Row:
    from benchmarks.bench_attention import timed

    with _lock:
        found = timed(calls, ROUNDS, MS, True, TURNS)
    rates = {name: [work / 1e9 / ms for ms in times] for name, times in found.items()}
    return {name: one for name, (one, _) in rates.items()} | {f"{n}_sustained": more for n, (_, more) in rates.items()}


def other(among: Any) -> str:
    """Whom the kernel is compared with."""
    return "fa4" if "fa4" in among else "unordered"


def ratios(row: Row) -> tuple[float, float]:
    name = other(row)
    return row["kernel"] / row[name], row["kernel_sustained"] / row[name + "_sustained"]


def label(p: Problem, name: str) -> str:
    size = f"{p.size}" if p.size == p.value_size else f"{p.size}/{p.value_size}"
    heads = f"{p.heads}" if p.heads == p.kv_heads else f"{p.heads} on {p.kv_heads}"
    rows = f"{p.queries}" if p.queries == p.keys else f"{p.queries}, {p.keys}"
    more = [f"{len(p.lengths)} lengths up to {max(p.lengths)}"] if p.lengths else []
    more += [f"window {p.left}, {p.right}"] if p.left is not None else []
    more += ["causal"] if p.causal else []
    more += ["in order"] if p.ordered and name == "gradients" else []
    return f"{name} {p.kind}: {p.batch} x {heads} x {rows} x {size}" + "".join(f", {x}" for x in more)


def summary(rows: list[Row]) -> list[Row]:
    """By pass and kind, and by pass and head size: how many, geometric means, the least of single calls."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kind = row["kind"] + (", in order" if row["ordered"] and row["pass"] == "gradients" else "")
        for other in (kind, f"sizes {band(max(row['size'], row['value_size']))}", "all"):
            groups.setdefault((row["pass"], other), []).append(row)
    found = []
    for (name, kind), those in sorted(groups.items()):
        one, more = zip(*map(ratios, those), strict=True)
        found.append({"pass": name, "kind": kind, "problems": len(those), "single": statistics.geometric_mean(one),
                      "sustained": statistics.geometric_mean(more), "least": min(one)})  # fmt: skip
    return found


def band(size: int) -> str:
    ends = (64, 96, 128, 192, 256)
    end = next(n for n in ends if size <= n)
    return f"{([24, *ends][ends.index(end)]) + 8}-{end}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=40, help="problems")
    parser.add_argument("--kinds", nargs="+", choices=attention_drawn.KINDS, default=list(attention_drawn.KINDS))
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES))
    parser.add_argument("--sets", nargs="+", choices=attention_drawn.SETS, help="instead of problems that are drawn")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    problems = attention_drawn.drawn(chosen.seed, chosen.count, tuple(chosen.kinds))
    tasks = [(p, name) for p in problems for name in chosen.passes if name == "forward" or p.kind != "pages"]
    if chosen.sets:
        tasks = [task for name in chosen.sets for task in attention_drawn.SETS[name]]
    rows: list[Row] = []
    machine = paired.machine()
    for (problem, name), found in _each(tasks, chosen.jobs, chosen.seconds):
        if isinstance(found, str):
            print(label(problem, name), found, flush=True)
            continue
        rows.append(found)
        rates = "  ".join(
            f"{x} {found[x]:.0f}/{found[x + '_sustained']:.0f}" for x in ("kernel", "unordered", "fa4") if x in found
        )
        print(label(problem, name), rates, "{:.3f}/{:.3f}".format(*ratios(found)), flush=True)
        if chosen.out:
            result = {"machine": machine, "unit": "TFLOPS", "summary": summary(rows), "rows": rows}
            paired.write(chosen.out, "bench_attention_drawn.py", result)
    print(f"{len(rows)} of {len(tasks)} timed")
    for row in summary(rows):
        print("{pass} {kind}: {problems}, {single:.3f}/{sustained:.3f}, least {least:.3f}".format(**row))


def _each(tasks: list[Any], jobs: int, seconds: float) -> Any:
    """What is measured of each, as it is there. A process in which a kernel failed can't use the GPU any more, and
    another one takes its place."""
    context, deadline = multiprocessing.get_context("spawn"), time.time() + seconds
    manager = context.Manager()
    lock, left, found = manager.Lock(), queue.SimpleQueue[Any](), queue.SimpleQueue[Any]()
    for task in tasks:
        left.put(task)

    def work() -> None:
        worker: Any = None
        while not left.empty() and time.time() < deadline:
            task = left.get()
            worker = worker or concurrent.futures.ProcessPoolExecutor(1, context, _begin, (lock,))
            try:
                row = worker.submit(measured, task).result(max(deadline + 5 - time.time(), 0.1))
            except Exception as error:
                row = f"{type(error).__name__}: {error}"
            found.put((task, row))
            if isinstance(row, str):
                worker.shutdown(wait=False, cancel_futures=True)
                worker = None
        found.put(None)

    for _ in range(jobs):
        threading.Thread(target=work, daemon=True).start()
    while jobs:
        one = found.get()
        jobs -= one is None
        if one is not None:
            yield one


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # a process whose kernel hangs is not waited for
