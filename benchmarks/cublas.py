"""cuBLAS through torch at its best: the same layout and types, both of torch's ways to it, its usual workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.operands import Operands
from benchmarks.paired import race

Call = Callable[[], Any]


def ways(operands: Operands) -> dict[str, tuple[Call, Call]]:
    """name -> (what to set before, the call, which gives its result). For fp8 and int8 torch has one way."""
    import torch

    problem, a, b, out = operands.problem, operands.a, operands.b, operands.out
    if problem.dtype == "i8":
        return {"torch._int_mm": (_nothing, lambda: torch._int_mm(a, b, out=out))}
    if problem.dtype in ("e4m3", "e5m2"):
        one = torch.ones((), device=a.device)
        scales = [
            one if s is None else s if problem.scales == "rows" else s[0, 0]
            for s in (operands.scale_a, operands.scale_b)
        ]
        return {
            "torch._scaled_mm, fast accumulation": (
                _nothing,
                lambda: torch._scaled_mm(a, b, *scales, out_dtype=out.dtype, use_fast_accum=True),
            )
        }
    return {
        f"torch.mm, {library}": (_settings(problem, library), lambda: torch.mm(a, b, out=out))
        for library in ("cublas", "cublaslt")
    }


def best(operands: Operands) -> tuple[str, Call]:
    """The faster way, its settings made, and its name."""
    found = ways(operands)
    if len(found) == 1:
        ((name, (prepare, call)),) = found.items()
        prepare()
        return name, call
    calls = {name: _both(*way) for name, way in found.items()}
    times = race(calls, 5)
    name = min(times, key=lambda n: sorted(times[n])[len(times[n]) // 2])
    found[name][0]()
    return name, found[name][1]


def _settings(problem: Any, library: str) -> Call:
    import torch

    def prepare() -> None:
        torch.backends.cuda.preferred_blas_library(library)
        torch.backends.cuda.matmul.allow_tf32 = problem.dtype == "tf32"
        torch.backends.cuda.matmul.allow_fp16_accumulation = problem.acc == "f16"

    return prepare


def _both(prepare: Call, call: Call) -> Call:
    def run() -> Any:
        prepare()
        return call()

    return run


def _nothing() -> None: ...
