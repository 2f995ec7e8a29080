"""Benches that need no GPU: candidates run on the simulator, whose processor time stands for the GPU's."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from nvdsl import sim
from nvdsl.call.module import context
from nvdsl.driver.array_spec import ArraySpec
from nvdsl.driver.arrays import describe
from nvdsl.mlir import ir
from nvdsl.tune import data
from nvdsl.tune.compiling import Compiler


class SimCompiler(Compiler):
    """Refuses what the real one refuses; gives the traced module back, which is what the simulator executes."""

    def compile(self, module: bytes, options: Any) -> bytes:
        super().compile(module, options)
        return module


class SimBench:
    """As `nvdsl.tune.bench.GpuBench`, with NumPy arrays and the simulator."""

    def __init__(self, setup: Any) -> None:
        self._setup = setup
        self._plans: dict[int, Any] = {}
        specs = {n: s for n, s in setup.specs.items() if isinstance(s, ArraySpec)}
        self._pristine = data.host_arrays(specs, setup.given, setup.seed)
        self._groups = [setup.expected] if setup.expected else []

    def add(self, number: int, module: bytes) -> None:
        with context():
            traced = ir.Module.parse(module)
        names = list(self._setup.specs)
        executable = sim.executable(traced, self._setup.name, written=self._setup.written, names=names)
        self._plans[number] = traced, executable

    def check(self, number: int) -> int:
        arrays = self._run(number)
        names = [n for i, n in enumerate(self._setup.specs) if i in self._setup.written]
        got = {n: arrays[n].reshape(-1) for n in names}
        for group, known in enumerate(self._groups):
            if all(data.difference(got[n], known[n], self._setup.tolerance) is None for n in known):
                return group
        self._groups.append(got)
        return len(self._groups) - 1

    def time(self, numbers: list[int], rounds: int) -> dict[int, list[float]]:
        times: dict[int, list[float]] = {n: [] for n in numbers}
        for turn in range(rounds):
            for number in numbers if turn % 2 == 0 else reversed(numbers):
                self.doing(number)
                start = time.process_time()
                self._run(number)
                times[number].append(1e3 * (time.process_time() - start))
        return times

    def _run(self, number: int) -> dict[str, np.ndarray]:
        arrays = {name: array.copy() for name, array in self._pristine.items()}
        described = [
            describe(arrays[n]) if n in arrays else (spec, self._setup.values[n])
            for n, spec in self._setup.specs.items()
        ]
        self._plans[number][1]([value for _, value in described], [spec for spec, _ in described])
        return arrays


class Stumbling(SimBench):
    """The process of a bench that dies, hangs, or finds another result the second time, with the candidates that the
    environment names."""

    def check(self, number: int) -> int:
        self._stumble("check", number)
        self._checked = [*getattr(self, "_checked", []), number]
        flaky = f"flaky:check:{number}" in os.environ.get("STUMBLE", "") and self._checked.count(number) > 1
        return 77 if flaky else super().check(number)

    def time(self, numbers: list[int], rounds: int) -> dict[int, list[float]]:
        for number in numbers:
            self.doing(number)
            self._stumble("time", number)
        return super().time(numbers, rounds)

    def _stumble(self, when: str, number: int) -> None:
        for what in os.environ.get("STUMBLE", "").split():
            kind, place, which = what.split(":")
            if place == when and int(which) == number and kind != "flaky":
                if kind == "hang":
                    time.sleep(60)
                elif kind == "crash":
                    os.abort()
                raise RuntimeError("CUDA_ERROR_LAUNCH_FAILED")
