"""Many problems on one GPU: compiled in parallel by a process a core, timed one at a time.

Each process compiles its share of the problems and times them itself; while one times, no other touches the GPU. A
product that hangs or crashes costs its deadline: its process is ended, the problem is done again without it. Results
are handed on as they come, so that a run that is cut short loses only what it was doing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.problems import Workload
from benchmarks.products import Product
from benchmarks.worker import Settings
from nvdsl.tune.process import Lost, Process, Refused

START_DEADLINE = 180.0  # seconds: importing torch in all processes at once
COMPILE_DEADLINE = 60.0  # of one product
WORKER = "benchmarks.worker:Worker"

Task = tuple[Workload, list[Product]]


@dataclass
class Report:
    """What came of a problem: ``result`` of `worker.Worker.time`, or why there is none."""

    problem: Workload
    result: dict[str, Any] | None
    failed: str = ""

    def plain(self) -> dict[str, Any]:
        problem = {**self.problem.plain(), "kind": self.problem.kind}
        return {"problem": problem, **(self.result or {"failed": self.failed, "products": []})}


class Runner:
    """``workers``: processes; default: the cores less two. ``compile_first``: whether all is compiled before anything
    is timed, so that no compiler runs beside a timing; else each problem is timed as soon as it is compiled.
    ``limit``: seconds after which nothing new is begun."""

    def __init__(
        self,
        settings: Settings,
        on_report: Callable[[Report], None],
        *,
        workers: int | None = None,
        compile_first: bool = True,
        limit: float = float("inf"),
        factory: str = WORKER,
    ) -> None:
        self._settings, self._on_report, self._factory = settings, on_report, factory
        self._workers = workers or max(1, (os.cpu_count() or 3) - 2)
        self._compile_first = compile_first
        self._end = time.monotonic() + limit
        self._gpu, self._reporting = threading.Lock(), threading.Lock()
        self.machine: dict[str, str] = {}
        self.seconds = {"start": 0.0, "compile": 0.0, "time": 0.0}
        """Wall-clock time of the phases; compile and time overlap unless ``compile_first``."""

    def run(self, tasks: Sequence[Task]) -> None:
        """Time all. Problems that no worker got to, for the time limit, are reported as failed."""
        count = min(self._workers, len(tasks))
        compiled = threading.Barrier(count)
        shares = [list(tasks[i::count]) for i in range(count)]
        threads = [threading.Thread(target=self._share, args=(share, compiled), daemon=True) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _share(self, tasks: list[Task], compiled: threading.Barrier) -> None:
        child = _Child(self._factory)
        try:
            with self._phase("start"):
                self._started(child)
            compiled.wait()
            refusals: list[dict[str, Any]] = []
            with self._phase("compile"):
                refusals = [self._prepare(child, *task) for task in tasks] if self._compile_first else []
            if self._compile_first:
                compiled.wait()
            for i, task in enumerate(tasks):
                refused = refusals[i] if refusals else self._prepare(child, *task)
                self._time(child, *task, refused)
        except threading.BrokenBarrierError:
            self._lose(tasks, "another process did not start")
        except (Lost, Refused) as error:
            compiled.abort()
            self._lose(tasks, f"the process did not start: {error}")
        finally:
            child.close()

    def _started(self, child: _Child) -> None:
        machine = child.call("start", deadline=START_DEADLINE)
        with self._reporting:
            self.machine = machine

    def _prepare(self, child: _Child, problem: Workload, products: list[Product]) -> dict[str, str]:
        """Compile; name -> why not. One product at a time, so that a compiler that hangs takes no other with it."""
        refused: dict[str, str] = {}
        for product in products:
            if time.monotonic() > self._end:
                break
            try:
                outcome = child.call("prepare", problem, [product], deadline=COMPILE_DEADLINE)[product.name]
                if isinstance(outcome, str):
                    refused[product.name] = outcome
            except (Lost, Refused) as error:
                refused[product.name] = str(error)
        return refused

    def _time(self, child: _Child, problem: Workload, products: list[Product], refused: dict[str, str]) -> None:
        failed = [{**p.plain(), "failed": refused[p.name]} for p in products if p.name in refused]
        left = [p for p in products if p.name not in refused]
        while left:
            try:
                with self._gpu:
                    if time.monotonic() > self._end:
                        return self._report(Report(problem, None, "not begun: the time was up"))
                    deadline = self._deadline(problem, left)
                    with self._phase("time"):
                        result = child.call("time", problem, left, self._settings, deadline=deadline)
                result["products"] += failed
                return self._report(Report(problem, result))
            except Refused as error:
                child.close()
                return self._report(Report(problem, None, str(error)))
            except Lost as error:
                guilty = [p for p in left if p.name == error.doing]
                if not guilty:
                    return self._report(Report(problem, None, f"{error.reason}, while it did {error.doing}"))
                failed += [{**p.plain(), "failed": error.reason} for p in guilty]
                left = [p for p in left if p not in guilty]
        return self._report(Report(problem, {"products": failed}))

    def _deadline(self, problem: Workload, products: list[Product]) -> float:
        calls = 60 + 12 * len(products)
        paired = min(len(products), self._settings.finalists)
        return 40.0 + 5 * calls * problem.seconds + 3 * self._settings.seconds * paired

    def _lose(self, tasks: list[Task], why: str) -> None:
        for problem, _ in tasks:
            self._report(Report(problem, None, why))

    def _report(self, report: Report) -> None:
        with self._reporting:
            self._on_report(report)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Adds up for "time", where one is at work at a time; of the other phases the longest counts."""
        start = time.monotonic()
        yield
        passed = time.monotonic() - start
        with self._reporting:
            before = self.seconds[name]
            self.seconds[name] = before + passed if name == "time" else max(before, passed)


class _Child:
    """A `Process` that is started again where it was lost."""

    def __init__(self, factory: str) -> None:
        self._factory = factory
        self._process: Process | None = None

    def call(self, method: str, *arguments: Any, deadline: float) -> Any:
        if self._process is None:
            self._process = Process(self._factory)
        try:
            return self._process.call(method, *arguments, deadline=deadline)
        except Lost:
            self.close()
            raise

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
