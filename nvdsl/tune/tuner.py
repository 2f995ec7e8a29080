"""One tuning, from a search space to a winner:

    prune (conditions, trace and verify, arch model) -> compile -> check each result -> race -> check the winner again
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from nvdsl.errors import ArgumentError, NvdslError, TuneError, TuneWarning
from nvdsl.errors.records import dataclass
from nvdsl.lower.stored import bytecode
from nvdsl.trace import effects
from nvdsl.tune import bench as benches
from nvdsl.tune import compiling, data, model, names
from nvdsl.tune import search as searching
from nvdsl.tune.bench import Bench, Failed, Setup
from nvdsl.tune.problem import Problem
from nvdsl.tune.progress import Progress, Silent
from nvdsl.tune.result import CHOSEN, FAILED, PRUNED, REFUSED, SLOWER, WRONG, Candidate
from nvdsl.tune.space import Config, Space

COMPILE_SHARE, CHECK_SHARE = 0.5, 0.75
"""Shares of the budget after which no compilation, no check is begun."""


@dataclass
class Job:
    """What is to be tuned. ``trace``: a configuration's module. ``default``: the configuration to fall back on, a
    candidate like the others. ``options``: of the lowering. ``reference``, ``inputs``: the user's, called by name.
    ``min_fill``: candidates that fill the GPU less than this share of what the best one does are pruned."""

    name: str
    problem: Problem
    space: Space
    trace: Callable[[Config], Any]
    options: Any
    default: Config | None = None
    reference: Callable[..., Any] | None = None
    inputs: Callable[..., Mapping[str, Any]] | None = None
    tolerance: float | None = None
    min_fill: float = 0.25
    sms: int = 132
    device: int = 0
    seed: int = 0
    make_bench: Callable[[Setup, Mapping[int, bytes]], Bench] = benches.ProcessBench
    compiler: str = "nvdsl.tune.compiling:Compiler"
    progress: Progress = field(default_factory=Silent)


def tune(job: Job, budget: float) -> list[Candidate]:
    """All candidates with what became of them; one has the state "chosen". ``budget``: seconds, about.

    Raises TuneError where none can be chosen, and warns TuneWarning where the default's result is not the others'.
    """
    start = time.monotonic()
    search = _Search(job)
    search.prune()
    search.compile(start + COMPILE_SHARE * budget)
    bench = job.make_bench(search.setup(), search.packed)
    try:
        search.check(bench, start + CHECK_SHARE * budget)
        search.race(bench, start + budget)
    finally:
        bench.close()
    return search.candidates


class _Search:
    """``candidates``: by number. ``packed``: kernels of those that are still in it. ``groups``: of equal results."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.candidates: list[Candidate] = []
        self.packed: dict[int, bytes] = {}
        self.groups: dict[int, int] = {}
        self._modules: dict[int, bytes] = {}
        self._written: frozenset[int] = frozenset()

    # --- before the device

    def prune(self) -> None:
        """Leave what traces, verifies, and is worth compiling by the arch model; the default first, then those that
        fill the GPU best."""
        sifted = dict(self.job.space.sift(self.job.problem.arguments))
        if self.job.default is not None:
            sifted = {self.job.default: None, **sifted}
        self.job.progress.stage("pruning", len(sifted))
        traced: list[tuple[Candidate, bytes]] = []
        for config, broken in sifted.items():
            candidate = Candidate(config)
            if broken is not None:
                self._drop(candidate, PRUNED, broken)
            module = self._traced(candidate) if broken is None else None
            if module is None:
                self.candidates.append(candidate)
            else:
                traced.append((candidate, module))
            self.job.progress.step(str(config))
        best = max((c.fill or 0.0 for c, _ in traced), default=0.0)
        traced.sort(key=lambda pair: (pair[0].config != self.job.default, -(pair[0].fill or 0.0)))
        for candidate, module in traced:
            self.candidates.append(candidate)
            fill = candidate.fill or 0.0
            if fill < self.job.min_fill * best and candidate.config != self.job.default:
                self._drop(candidate, PRUNED, f"fills under {self.job.min_fill:.0%} of what the best does")
            else:
                self._modules[len(self.candidates) - 1] = module
        self._require(self._modules, "no configuration is left to compile")

    def _traced(self, candidate: Candidate) -> bytes | None:
        try:
            module = self.job.trace(candidate.config)
        except Exception as error:  # the user's function may stumble over a configuration in its own way
            first = error.message if isinstance(error, NvdslError) else f"{type(error).__name__}: {error}"
            self._drop(candidate, PRUNED, first)
            return None
        prints = model.footprints(module)
        for one in prints:
            if problem := one.problem():
                self._drop(candidate, PRUNED, problem)
                return None
        candidate.fill = model.fill(prints, self.job.sms)
        self._written |= effects.written_arguments(module.body.operations[0])
        return bytecode(module)

    def compile(self, until: float) -> None:
        self.job.progress.stage("compiling", len(self._modules))
        found = compiling.compile_all(
            self._modules.items(), len(self._modules), self.job.options, until, self.job.compiler
        )
        for number, packed, why in found:
            candidate = self.candidates[number]
            if packed is None:
                self._drop(candidate, REFUSED, why)
            else:
                self.packed[number] = packed
            self.job.progress.step(str(candidate.config))
        self._require(self.packed, "no configuration compiles as it was meant")

    def setup(self) -> Setup:
        job, problem = self.job, self.job.problem
        specs = {name: problem.arguments[name] for name in problem.run_time} | dict.fromkeys(problem.more)
        given = names.call(job.inputs, problem.arguments, "inputs") if job.inputs else {}
        try:
            flat = {n: data.flatten(n, array, problem.arrays[n]) for n, array in given.items()}
        except (KeyError, ValueError) as error:
            raise ArgumentError(f"inputs of {job.name}: {error}", rule="a NumPy array for an array argument") from None
        values = {**problem.values, **problem.more}
        return Setup(
            job.name, specs, values, flat, self._expected(flat), self._written, job.tolerance, job.seed, job.device,
        )  # fmt: skip

    def _expected(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """What the user's reference says of the written arrays."""
        job, problem = self.job, self.job.problem
        if job.reference is None:
            return None
        job.progress.stage("computing the reference")
        written = [name for i, name in enumerate(problem.run_time) if i in self._written]
        arrays = data.host_arrays(problem.arrays, given, job.seed)
        found = names.call(job.reference, {**problem.constants, **problem.values, **arrays}, "reference")
        if not isinstance(found, Mapping):
            found = {written[0]: found} if len(written) == 1 else dict(zip(written, found, strict=True))
        specs = problem.arrays
        return {n: data.flatten(n, np.asarray(a).astype(specs[n].dtype.numpy), specs[n]) for n, a in found.items()}

    # --- on the device

    def check(self, bench: Bench, until: float) -> None:
        """Run each candidate once, and keep those whose results are right."""
        self.job.progress.stage("checking", len(self.packed))
        for number in sorted(self.packed):
            candidate = self.candidates[number]
            if time.monotonic() > until and self.groups:
                self._drop(candidate, REFUSED, "not run: the budget was used up")
                continue
            try:
                self.groups[number] = bench.check(number)
            except Failed as failure:
                self._drop(self.candidates[failure.number], FAILED, failure.reason)
            self.job.progress.step(str(candidate.config))
        right = self._right_group()
        for number, group in list(self.groups.items()):
            if group != right:
                what = "the reference" if self.job.reference else "most others"
                self._drop(self.candidates[number], WRONG, f"its result is not that of {what}")
                del self.groups[number]
        self._require(self.groups, "no configuration gives the right result")

    def _right_group(self) -> int:
        """The reference's; without one, that of more than half, or else the default's."""
        if self.job.reference:
            return 0
        self._require(self.groups, "no configuration runs")
        group, votes = Counter(self.groups.values()).most_common(1)[0]
        default = next((g for n, g in self.groups.items() if self.candidates[n].config == self.job.default), None)
        if 2 * votes <= len(self.groups):
            if default is None:
                raise TuneError(
                    f"{self.job.name}: the configurations disagree about the result, and none has a majority",
                    rule="a configuration is chosen only if its result is right",
                    fix="give autotune a reference=, or a larger tolerance= if they differ by rounding only",
                )
            return default
        if default not in (None, group):
            warnings.warn(
                f"{self.job.name}: the default configuration ({self.job.default}) gives another result than {votes} of "
                f"{len(self.groups)} configurations",
                TuneWarning,
                stacklevel=2,
            )
        return group

    def race(self, bench: Bench, until: float) -> None:
        """Time the right ones; choose the fastest that is right once more."""
        self.job.progress.stage("timing")
        result = searching.race(bench, list(self.groups), until, self.job.progress.step)
        for number, reason in result.lost.items():
            self._drop(self.candidates[number], FAILED, f"{reason} (while it was timed)")
        for number, times in result.samples.items():
            self.candidates[number].times = times
        for number in result.left:
            if self._still_right(bench, number):
                self._choose(number, result)
                return
        raise self._error("no configuration stays right")

    def _still_right(self, bench: Bench, number: int) -> bool:
        try:
            again = [bench.check(number) for _ in range(3)]
        except Failed as failure:
            self._drop(self.candidates[number], FAILED, f"{failure.reason} (when it ran again)")
            return False
        if set(again) == {self.groups[number]}:
            return True
        self._drop(self.candidates[number], WRONG, "its result is not the same each time")
        return False

    def _choose(self, best: int, result: searching.Race) -> None:
        scores = searching.scores(result.samples, result.left)
        for number in result.samples:
            candidate = self.candidates[number]
            candidate.ratio = scores[number] / scores[best]
            candidate.state = candidate.state or SLOWER
        self.candidates[best].state = CHOSEN

    def _drop(self, candidate: Candidate, state: str, reason: str) -> None:
        candidate.state, candidate.reason = state, reason.strip().split("\n")[0]

    def _require(self, left: Any, otherwise: str) -> None:
        if not left:
            raise self._error(otherwise)

    def _error(self, what: str) -> TuneError:
        reasons = Counter(f"{c.state}: {c.reason}" for c in self.candidates if c.reason)
        return TuneError(
            "\n".join([f"{self.job.name}: {what}", *(f"  {n} x {text}" for text, n in reasons.most_common(8))]),
            rule="a configuration must suit the arguments, compile without advisories, run, and give the right result",
            fix="widen the search space, or look at one configuration alone: pass it as keyword arguments",
        )


def chosen(candidates: list[Candidate]) -> Candidate:
    return next(c for c in candidates if c.state == CHOSEN)
