"""What runs in the process of a kind of products: all of its shapes are compiled, then timed one by one when asked.

The reference is cuBLAS's result of the same operands, so that a check costs as little as it tells: it finds what is
wrong beyond what the roundings of both explain.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import asdict
from typing import Any

from benchmarks.candidates import shorter
from benchmarks.operands import DEVICE
from benchmarks.problems import Workload
from nvdsl.kernels.gemm.config import Config

PAIRS, MORE_PAIRS, BEHIND = 6, 12, 0.97
"""Pairs of each problem, and more where the ratio of the first is below this."""
SUSTAINED = 0.006
"""Seconds of calls one after the other."""


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

    def machine(self) -> dict[str, str]:
        from benchmarks.paired import machine

        return machine()

    def warm(self, limit: float) -> float:
        """Run and check each once, beside the other processes: what is loaded at a first call takes far longer than
        all that is timed. Seconds."""
        start = time.monotonic()
        for i in range(len(self.todo)):
            if time.monotonic() > start + limit:
                break
            if i not in self.failed:
                try:
                    self._run(i, race=False)
                except Exception as error:
                    self.failed[i] = f"{type(error).__name__}: {error}"[:300]
        return time.monotonic() - start

    def _run(self, i: int, race: bool = True) -> tuple[str, Any, Any, Any]:
        """Multiply once by cuBLAS, once by nvdsl, and check: cuBLAS's name, the operands, both calls."""
        operands = filled(self.todo[i][1])
        name, reference, result = library(operands, race)
        reference()
        operands.exact = result()
        operands.poison()
        call = product(operands)
        call()
        check(operands)
        return name, operands, call, reference

    def time(self, i: int, others: int) -> dict[str, Any]:
        """One problem. ``others``: how many further configurations that this process has compiled are timed."""
        import torch

        from benchmarks.paired import measure, race, sustained

        name, problem = self.todo[i]
        row = {"set": name, **problem.plain(), "kind": problem.kind, "size": problem.size}
        if i in self.failed:
            return row | {"failed": self.failed[i]}
        start = time.monotonic()
        row["library"], operands, call, reference = self._run(i)
        row["road"] = road(operands)
        config = self.chosen[i]
        row["config"] = shorter(asdict(config)) if config is not None else None
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
        if others and config is not None:
            known = [config, *(c for c in dict.fromkeys(self.chosen.values()) if c and c != config)]
            tried = self._ranked(problem, known)[:others]
            calls = {str(n): product(operands, c) for n, c in enumerate(tried)}
            for n in list(calls):
                try:
                    calls[n]()
                except Exception:
                    del calls[n]
            times = {tried[int(n)]: statistics.median(t) for n, t in race(calls, 3).items()}
            row["tried"] = [{"config": shorter(asdict(c)), "ms": ms} for c, ms in times.items()]
        if problem.bytes > 1 << 28:
            del operands, call, reference
            torch.cuda.empty_cache()
        return row | {"seconds": round(time.monotonic() - start, 3)}

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


def library(operands: Any, race: bool = True) -> tuple[str, Any, Any]:
    """cuBLAS at its best: its name, the call, and what gives the result. ``race``: find the faster of its ways; else
    each runs once."""
    from benchmarks import cublas

    kept: list[Any] = []

    def keeping(call: Any) -> Any:
        def run() -> None:
            kept[:] = [call()]

        return run

    for padded in (False, True):
        given = _padded(operands) if padded else operands
        try:
            if not race:
                for prepare, call in cublas.ways(given).values():
                    prepare()
                    call()
            name, call = cublas.best(given) if race else ("", call)
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
