"""Which tiles a payload should have: a full search over a space, on the GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nvdsl.call import module as modules
from nvdsl.driver.array_spec import ArraySpec, packed_strides
from nvdsl.errors import TuneError, frames
from nvdsl.ir.walk import find
from nvdsl.lower.options import Options
from nvdsl.mlir import ir, threads
from nvdsl.schedule.compiled import Scheduled, compile
from nvdsl.schedule.payload import Payload, check_payload
from nvdsl.schedule.step import Step
from nvdsl.tune import device, tuner
from nvdsl.tune.problem import Problem
from nvdsl.tune.progress import show
from nvdsl.tune.result import Tuning
from nvdsl.tune.space import Config, Space, SpaceLike
from nvdsl.values import dtypes


def tune(
    payload: Payload,
    steps: Callable[..., Iterable[Step]],
    space: SpaceLike,
    *,
    budget: float = 60.0,
    tolerance: float | None = None,
    **overrides: Any,
) -> Scheduled:
    """The fastest schedule of a space for a payload, on this GPU: all are compiled and compared with each other, and
    raced (docs/tuning.md). ``scheduled.tuning`` is the table of all of them.

        space = nv.Space(block=[(128, 128, 64), (128, 256, 32)], warp=[(64, 32), (64, 64)], stages=[3, 4])
        gemm = sc.tune(sc.matmul(4096, 4096, 4096), sc.mma_steps, space)

    ``steps``: a function of the space's parameters, by name, to a schedule. What a step refuses, what spills registers,
    and what gives other numbers than the others is not chosen. ``budget``: seconds, about. ``tolerance``: as in
    `nv.autotune`. Raises TuneError where nothing is left, or there is no GPU.
    """
    check_payload(payload)
    why = device.missing()
    if why and "make_bench" not in overrides:
        raise TuneError(f"tuning {payload.name}: {why}", where=frames.caller(), rule="candidates are raced on a GPU",
                        fix="tune where there is one, or choose the tiles")  # fmt: skip
    space = Space.of(space)
    specs = _specs(payload)
    names = tuple(f"argument {i}" for i in range(len(specs)))
    problem = Problem(dict(zip(names, specs, strict=True)), names, {})

    def trace(config: Config) -> ir.Module:
        return compile(payload, steps(**config))._module(specs)

    start = time.monotonic()
    progress = show(f"tuning {payload.name}")
    try:
        candidates = tuner.tune(
            tuner.Job(
                payload.name, problem, space, trace,
                replace(Options.from_environment(), strict=True, dump=frozenset(), debug=False),
                tolerance=tolerance, progress=progress, **overrides,
            ),
            budget,
        )  # fmt: skip
    finally:
        progress.close()
    best = tuner.chosen(candidates)
    made = compile(payload, steps(**best.config))
    made.tuning = Tuning(payload.name, str(problem), best.config, "tuned", candidates,
                         seconds=time.monotonic() - start)  # fmt: skip
    return made


def _specs(payload: Payload) -> list[ArraySpec]:
    """Of the arguments of the payload's function."""
    with threads.mlir, modules.context(), ir.Location.unknown():
        module = ir.Module.parse(payload.text)
        (function,) = find(module, "func.func")
        types = [v.type for v in function.regions[0].blocks[0].arguments]
        shapes = [tuple(type.shape) for type in types]
        kinds = [dtypes.from_ir(type.element_type) for type in types]
    return [ArraySpec(kind, shape, packed_strides(shape)) for kind, shape in zip(kinds, shapes, strict=True)]
