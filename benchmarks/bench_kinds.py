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
import json
import multiprocessing
import os
import random
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import charts  # noqa: E402
from benchmarks.bench_matmul import geometric_mean  # noqa: E402
from benchmarks.candidates import shorter  # noqa: E402
from benchmarks.drawn import DRAWN, KINDS  # noqa: E402
from benchmarks.operands import DEVICE  # noqa: E402
from benchmarks.paired import write  # noqa: E402
from benchmarks.problems import Workload  # noqa: E402
from nvdsl.kernels.gemm.config import Config  # noqa: E402

MOST_FLOPS, MOST_BYTES = 2e12, 2e9
"""Larger products are drawn again: they would take all the time there is."""
PAIRS, MORE_PAIRS, BEHIND = 6, 12, 0.97
"""Pairs of each problem, and more where the ratio of the first is below this."""
SUSTAINED = 0.006
"""Seconds of calls one after the other."""
BARS = 0.85, 0.9, 0.95
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


class Child:
    """What runs in the process of a kind."""

    def __init__(self, todo: list[tuple[str, Workload]]) -> None:
        self.todo = todo
        self.chosen: dict[int, Config | None] = {}
        self.failed: dict[int, str] = {}
        self._last: list[Any] = []

    def prepare(self, limit: float) -> int:
        """Compile; how many that were."""
        import torch

        from nvdsl.call import collect
        from nvdsl.kernels.gemm import tuned

        torch.set_num_threads(1)
        torch.cuda.init()
        choose = tuned.choose

        def recorded(*arguments: Any) -> Any:
            self._last = [choose(*arguments)]
            return self._last[0]

        tuned.choose = recorded  # type: ignore[assignment]
        count, end = 0, time.monotonic() + limit
        for i, (_, problem) in enumerate(self.todo):
            if time.monotonic() > end:
                self.failed[i] = "not compiled: the time was up"
                continue
            from benchmarks.operands import Operands

            operands, self._last = Operands.empty(problem), []
            try:
                with collect.compiled() as found:
                    product(operands)()
                count += len(found)
                self.chosen[i] = self._last[0] if self._last else None
            except Exception as error:
                self.failed[i] = f"{type(error).__name__}: {error}"[:300]
            del operands
            if problem.bytes > 1 << 27:
                torch.cuda.empty_cache()
        torch.cuda.empty_cache()
        return count

    def time(self, i: int, others: int) -> dict[str, Any]:
        """One problem. ``others``: how many further configurations that this process has compiled are timed, where
        nvdsl is behind."""
        import torch

        from benchmarks.paired import measure, race, sustained

        name, problem = self.todo[i]
        row = {"set": name, **problem.plain(), "kind": problem.kind, "size": problem.size}
        if i in self.failed:
            return row | {"failed": self.failed[i]}
        operands = filled(problem)
        row["library"], reference, result = library(operands)
        reference()
        operands.exact = result()
        operands.poison()
        call = product(operands)
        row["road"] = road(operands)
        config = self.chosen[i]
        row["config"] = shorter(asdict(config)) if config is not None else None
        call()
        check(operands)
        timed = measure(call, reference, PAIRS, 1)
        if timed.summary()["ratio"] < BEHIND:
            more = measure(call, reference, MORE_PAIRS, 0)
            timed.a += more.a
            timed.b += more.b
        found = timed.summary()
        row |= {"ms": found["a_ms"], "library_ms": found["b_ms"]}
        row |= {key: found[key] for key in ("ratio", "ratio_low", "ratio_high", "pairs")}
        row |= {f"{a}tflops": problem.flops / row[f"{a}ms"] / 1e9 for a in ("", "library_")}
        row["sustained"] = sustained(call, reference, SUSTAINED)
        operands.poison()
        call()
        check(operands)
        row["repeats"] = True
        if others and config is not None and row["ratio"] < BEHIND:
            known = [config, *(c for c in dict.fromkeys(self.chosen.values()) if c and c != config)]
            tried = self._ranked(problem, known)[:others]
            calls = {str(n): product(operands, c) for n, c in enumerate(tried)}
            for n in list(calls):
                try:
                    calls[n]()
                except Exception:
                    del calls[n]
            times = {tried[int(n)]: statistics.median(t) for n, t in race(calls, 5).items()}
            row["tried"] = [{"config": shorter(asdict(c)), "ms": ms} for c, ms in times.items()]
        torch.cuda.synchronize()
        if problem.bytes > 1 << 28:
            del operands, call, reference, result
            torch.cuda.empty_cache()
        return row

    def _ranked(self, problem: Workload, configs: list[Config]) -> list[Config]:
        """Those that can run, the best of the model first, and the chosen one ahead of all."""
        from benchmarks.candidates import _dtypes, _majors
        from nvdsl.kernels.gemm.model import Shape, cycles

        dtype, out, acc = _dtypes(problem)
        shape = Shape(problem.m, problem.n, problem.k, dtype, out, acc, 1, *_majors(problem))
        return [configs[0], *sorted(configs[1:], key=lambda config: cycles(config, shape))]


def filled(problem: Workload) -> Any:
    """Operands of seeded random values; nothing is multiplied."""
    import torch

    from benchmarks.operands import Operands

    self = Operands.empty(problem)
    torch.manual_seed(problem.m * 7 + problem.n * 5 + problem.k * 3)
    for array in (self.a, self.b):
        if problem.dtype == "i8":
            array.random_(-128, 128)
        elif problem.dtype in ("e4m3", "e5m2"):
            array.copy_(torch.empty(array.shape, dtype=torch.float16, device=DEVICE).normal_())
        else:
            array.normal_()
    for scales in filter(lambda x: x is not None, (self.scale_a, self.scale_b)):
        scales.uniform_(0.5, 2.0)
    return self


def product(operands: Any, config: Any = None) -> Any:
    import nvdsl as nv

    options: dict[str, Any] = {"acc_dtype": getattr(nv, operands.problem.acc)}
    if config is not None:
        options["config"] = config
    if operands.scale_a is not None:
        options |= {"scale_a": operands.scale_a, "scale_b": operands.scale_b}
    return lambda: nv.matmul(operands.a, operands.b, operands.out, **options)


def road(operands: Any) -> str:
    """Which kernel computes it, and what is copied first."""
    import nvdsl as nv
    from nvdsl.kernels.gemm.matmul import ProductCall

    scales = {} if operands.scale_a is None else {"scale_a": operands.scale_a, "scale_b": operands.scale_b}
    acc = getattr(nv, operands.problem.acc)
    bound = ProductCall(operands.a, operands.b, operands.out, acc_dtype=acc, **scales).bound
    wrapped = getattr(bound.function, "__wrapped__", bound.function)
    module = getattr(wrapped, "__module__", "").rsplit(".", 1)[-1]
    return "+".join([module, *(f"copy {name}" for name in bound.packs)])


def library(operands: Any) -> tuple[str, Any, Any]:
    """cuBLAS at its best: its name, the call, and what gives the result."""
    from benchmarks import cublas

    kept: list[Any] = []

    def keeping(call: Any) -> Any:
        def run() -> None:
            kept[:] = [call()]

        return run

    for padded in (False, True):
        given = _padded(operands) if padded else operands
        try:
            name, call = cublas.best(given)
            call()
        except RuntimeError:
            if padded or operands.problem.dtype not in ("i8", "e4m3", "e5m2"):
                raise
            continue
        shown = name + (", padded" if padded else "")
        return shown, keeping(call), lambda: kept[0][: operands.out.shape[0], : operands.out.shape[1]].clone()
    raise AssertionError


def _padded(operands: Any) -> Any:
    """The same product with K contiguous in both operands, all extents multiples of 16."""
    import torch
    from torch.nn.functional import pad

    from benchmarks.operands import Operands

    def more(x: Any, rows: int, cols: int) -> Any:
        return pad(x.contiguous().view(torch.int8), (0, cols - x.shape[1], 0, rows - x.shape[0])).view(x.dtype)

    p = operands.problem
    m, n, k = (-(-extent // 16) * 16 for extent in (max(p.m, 32), p.n, p.k))
    a, b = more(operands.a, m, k), more(operands.b.T, n, k).T
    out = torch.empty((m, n), dtype=operands.out.dtype, device=DEVICE)
    scale_a, scale_b = operands.scale_a, operands.scale_b
    if p.scales == "rows":
        scale_a, scale_b = pad(scale_a, (0, 0, 0, m - p.m)), pad(scale_b, (0, n - p.n))
    return Operands(p, a, b, out, scale_a, scale_b)


def check(operands: Any) -> None:
    """Raises where the result is not cuBLAS's, but for the rounding of both."""
    import torch

    out, exact, p = operands.out, operands.exact, operands.problem
    if p.acc == "i32":
        if not torch.equal(out, exact):
            raise ValueError("wrong result")
        return
    bound, parts = 2 * p.tolerance, [slice(first, first + 2048) for first in range(0, p.m, 2048)]
    squares, size, total, worst = torch.zeros(4, dtype=torch.float64, device=DEVICE).unbind()
    for rows in parts:
        squares = squares + (exact[rows].float() / operands._scale(rows)).square().sum(dtype=torch.float64)
    typical = (squares / exact.numel()).sqrt()
    for rows in parts:
        wanted = exact[rows].float()
        difference = (out[rows].float() - wanted).abs()
        size = size + wanted.square().sum(dtype=torch.float64)
        total = total + difference.square().sum(dtype=torch.float64)
        worst = torch.maximum(worst, (difference / (wanted.abs() + typical * operands._scale(rows))).max())
    error, single = (total / size).sqrt().item(), worst.item()
    if not (error <= bound and single <= 5 * bound):
        raise ValueError(f"wrong result: relative error {error:.3g}, of an element {single:.3g}, bound {bound:.3g}")


def serve(connection: Any, todo: list[tuple[str, Workload]]) -> None:
    child = Child(todo)
    while True:
        method, *arguments = connection.recv()
        if method == "stop":
            os._exit(0)
        try:
            connection.send(getattr(child, method)(*arguments))
        except Exception as error:
            connection.send({"failed": f"{type(error).__name__}: {error}"[:300]})


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
    best = min(r.get("tried", ()), key=lambda x: x["ms"], default=None)
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
    parser.add_argument("--others", type=int, default=0, help="further configurations timed where nvdsl is behind")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds; nothing new is begun after")
    parser.add_argument("--compile", type=float, default=START, help="seconds; what is not compiled then is left out")
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
    rows = []
    for i in range(max(map(len, todo.values()))):
        for kind in list(parent.children):
            if left() < 0 or i >= len(todo[kind]):
                continue
            parent.ask(kind, "time", i, args.others)
            row = parent.answer(kind, DEADLINE)
            name, problem = todo[kind][i]
            row = row or {"failed": "the process was lost"}
            rows.append({"set": name, **problem.plain(), "kind": problem.kind, "size": problem.size} | row)
    about = {
        "seed": args.seed,
        "seconds": time.monotonic() - start,
        "what": {s: DRAWN[s][0] for s in dict.fromkeys(r["set"] for r in rows)},
    }
    if args.results:
        args.results.mkdir(parents=True, exist_ok=True)
        path = args.results / f"matmul-{args.name}.json"
        about["machine"] = machine()
        write(path, "bench_kinds.py", {**about, "summary": summary(rows), "rows": rows})
        drawn = [r for r in rows if "ratio" in r]
        if drawn:
            path.with_suffix(".svg").write_text(str(charts.sweep("nv.matmul beside cuBLAS, by kind", drawn)))
    timed = [r for r in rows if "ratio" in r]
    for line in lines(rows):
        print(line)
    for r in sorted(timed, key=lambda r: r["ratio"])[: args.shown]:
        if r["ratio"] < BARS[-1]:
            print(low(r))
    for r in [r for r in rows if "failed" in r][:6]:
        print("failed", r["kind"], r["size"], r["failed"][:90])
    print(f"{len(timed)} timed in {time.monotonic() - start:.1f} s", flush=True)
    parent.close()


def machine() -> dict[str, str]:
    """What it ran on, asked in a process of its own: this one must not use it."""
    import subprocess

    code = "import json; from benchmarks.paired import machine; print(json.dumps(machine()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    return json.loads(found.stdout.splitlines()[-1]) if found.returncode == 0 else {}


if __name__ == "__main__":
    main()
