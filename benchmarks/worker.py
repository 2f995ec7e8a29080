"""The process that compiles, checks and times: one problem at a time, any number of products beside cuBLAS.

`Worker` is served by `nvdsl.tune.process.Process`: it may hang or crash without harm to the rest (see `runner`).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.paired import measure, race, sustained
from benchmarks.problems import Workload
from benchmarks.products import Product

ROUNDS = 6
"""Of the first, coarse race of many products."""


@dataclass(frozen=True)
class Settings:
    """``seconds``: of paired timing of each product; ``pairs``: at least. ``finalists``: how many products of a coarse
    race are paired with cuBLAS, ``near``: how many times the fastest's time they may take. ``seed``: of the data."""

    seconds: float = 0.5
    pairs: int = 12
    finalists: int = 1000
    near: float = 1e9
    seed: int = 0


class Worker:
    doing: Callable[[Any], None]

    def start(self) -> dict[str, str]:
        """Get everything that the first call would wait for."""
        import torch

        from benchmarks.paired import machine

        x = torch.randn(256, 256, device="cuda").half()
        for library in ("cublas", "cublaslt"):
            torch.backends.cuda.preferred_blas_library(library)
            torch.mm(x, x)
        torch.cuda.synchronize()
        return machine()

    def prepare(self, problem: Workload, products: list[Product]) -> dict[str, Any]:
        """Compile each; nothing runs on the GPU. Name -> seconds, or why it can't be compiled."""
        from benchmarks.operands import Operands
        from nvdsl.call import collect

        operands = Operands.empty(problem)
        done: dict[str, Any] = {}
        for product in products:
            start = time.perf_counter()
            try:
                with collect.compiled() as found:
                    product.call(operands)()
                spilled = [k.name for c in found for k in c.kernels.values() if k.resources.spill_stores]
                done[product.name] = f"spills: {spilled}" if spilled else round(time.perf_counter() - start, 3)
            except Exception as error:
                done[product.name] = _reason(error)
        return done

    def time(self, problem: Workload, products: list[Product], settings: Settings) -> dict[str, Any]:
        """Check all, race them if there are many, pair the fastest with cuBLAS."""
        import torch

        try:
            return self._time(problem, products, settings)
        finally:
            torch.cuda.empty_cache()  # other processes need the memory

    def _time(self, problem: Workload, products: list[Product], settings: Settings) -> dict[str, Any]:
        from benchmarks import cublas
        from benchmarks.operands import Operands

        self.doing("the data")
        operands = Operands.random(problem, settings.seed + problem.m * 7 + problem.n * 5 + problem.k * 3)
        self.doing("cuBLAS")
        library, reference = cublas.best(operands)
        operands.poison()
        result: dict[str, Any] = {"library": library, "library_error": _attempt(lambda: operands.error(reference()))}
        rows, calls = {}, {}
        for product in products:
            self.doing(product.name)
            rows[product.name] = row = product.plain()
            try:
                call = product.call(operands)
                operands.poison()
                call()
                row["error"] = operands.error()
                calls[product.name] = call
            except Exception as error:
                row["failed"] = _reason(error)
                _end_if_lost()
        self._race(calls, rows, settings)
        for name in [n for n in rows if n in calls]:
            self.doing(name)
            timed = measure(calls[name], reference, settings.pairs, 2, settings.seconds).summary()
            rows[name] |= _speeds(problem, timed)
            rows[name]["sustained"] = sustained(calls[name], reference, settings.seconds / 2)
            operands.poison()
            calls[name]()  # a result that changes from call to call is a race, even if it is nearly right
            rows[name]["repeats"] = operands.error() == rows[name]["error"]
        return {**result, "products": list(rows.values())}

    def _race(self, calls: dict[str, Any], rows: dict[str, Any], settings: Settings) -> None:
        """Leave in ``calls`` those that are worth pairing."""
        if len(calls) <= settings.finalists:
            return
        self.doing(None)
        times = {name: statistics.median(t) for name, t in race(calls, ROUNDS).items()}
        for name, ms in times.items():
            rows[name]["coarse_ms"] = ms
        order = sorted(times, key=times.__getitem__)
        limit = times[order[0]] * settings.near
        for place, name in enumerate(order):
            if place >= settings.finalists or times[name] > limit:
                del calls[name]


def _speeds(problem: Workload, timed: dict[str, float]) -> dict[str, float]:
    return {
        "ms": timed["a_ms"],
        "library_ms": timed["b_ms"],
        "tflops": problem.flops / timed["a_ms"] / 1e9,
        "library_tflops": problem.flops / timed["b_ms"] / 1e9,
        **{name: timed[name] for name in ("ratio", "ratio_low", "ratio_high", "pairs")},
    }


def _attempt(function: Callable[[], Any]) -> Any:
    """The result, or the reason why there is none."""
    try:
        return function()
    except Exception as error:
        return _reason(error)


def _end_if_lost() -> None:
    """A kernel's error leaves no usable context: end the process, so that the runner blames this product and starts
    another one."""
    import torch

    try:
        torch.cuda.synchronize()
    except Exception as error:
        print(_reason(error).splitlines()[0], file=sys.stderr, flush=True)
        os._exit(3)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:400]
