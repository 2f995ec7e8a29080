"""``nvdsl check``: a script under several schedules of the simulator, each in a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from nvdsl_command.arguments import LEVELS
from nvdsl_command.run import environment


@dataclass(frozen=True)
class Schedule:
    """``seed`` is None where nothing is random."""

    delivery: str
    level: str
    seed: int | None = None

    def __str__(self) -> str:
        return self.delivery if self.seed is None else f"random, seed {self.seed}"

    @property
    def order(self) -> str:
        return "forward" if self.seed is None else "random"

    def environment(self) -> dict[str, str]:
        found = environment(self.delivery, self.order, self.seed or 0, self.level)
        found.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the cores
        for name in ("NVDSL_SIM_TRACE", "NVDSL_SIM_PICTURE"):  # each process would write the same file
            found.pop(name, None)
        return found

    def command(self, script: str, arguments: list[str]) -> str:
        """What repeats it."""
        options = ["--delivery", self.delivery, "--level", self.level]
        if self.seed is not None:
            options += ["--order", self.order, "--seed", str(self.seed)]
        return shlex.join(["nvdsl", "run", *options, script, *arguments])


@dataclass
class Result:
    """``report``: "" when it passed."""

    schedule: Schedule
    seconds: float
    report: str


def schedules(count: int, level: str) -> list[Schedule]:
    """Late, eager, then random ones; ``count`` at each level."""
    one_level = [("late", None), ("eager", None), *(("random", seed) for seed in range(max(count - 2, 0)))][:count]
    levels = LEVELS if level == "both" else (level,)
    return [Schedule(delivery, at, seed) for at in levels for delivery, seed in one_level]


def run(chosen: Namespace) -> int:
    wanted = schedules(chosen.schedules, chosen.level)
    jobs = min(chosen.jobs or len(os.sched_getaffinity(0)), len(wanted))
    started = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(_simulate, one, chosen.script, chosen.arguments, chosen.timeout) for one in wanted]
        try:
            done = dict(_watched((f.result() for f in as_completed(running)), len(wanted)))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    results = [done[one] for one in wanted]
    _print(results, chosen, time.monotonic() - started)
    return 1 if any(result.report for result in results) else 0


def _simulate(schedule: Schedule, script: str, arguments: list[str], timeout: float) -> Result:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nvdsl-") as folder:
        result = Path(folder, "result.json")
        command = [sys.executable, "-m", "nvdsl_command.child", str(result), script, *arguments]
        try:
            child = subprocess.run(
                command, env=schedule.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=timeout,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Result(schedule, timeout, f"not done after {timeout:g} s (--timeout)")
        if result.is_file():
            report = json.loads(result.read_text(encoding="utf-8"))["report"]
        elif child.returncode == 0:
            report = "the process ended (os._exit) before the script did"
        else:
            last = child.stderr.strip().rpartition("\n")[2]
            how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
            report = f"{how}: {last}" if last else how
    return Result(schedule, time.monotonic() - started, report)


def _watched(results: Iterator[Result], count: int) -> Iterator[tuple[Schedule, Result]]:
    """Results by schedule as they come, with a bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        for result in results:
            yield result.schedule, result
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("schedules", total=count)
        failed = 0
        for result in results:
            failed += bool(result.report)
            bar.update(task, advance=1, description=f"schedules, {failed} failed" if failed else "schedules")
            yield result.schedule, result


def _print(results: list[Result], chosen: Namespace, seconds: float) -> None:
    reports: dict[str, list[Schedule]] = {}
    print(f"{'schedule':<18} {'level':<7} {'seconds':>7}  result")
    for result in results:
        if result.report:
            reports.setdefault(result.report, []).append(result.schedule)
        number = f"report {list(reports).index(result.report) + 1}: " if result.report else "ok"
        words = _short(result.report) if result.report else ""
        print(f"{result.schedule!s:<18} {result.schedule.level:<7} {result.seconds:7.1f}  {number}{words}")
    failed = sum(map(len, reports.values()))
    print(f"\n{len(results) - failed} of {len(results)} schedules passed in {seconds:.0f} s")
    for i, (report, which) in enumerate(reports.items(), 1):
        times = f" ({len(which)} schedules)" if len(which) > 1 else ""
        print(f"\nreport {i}{times}, repeated by: {which[0].command(chosen.script, chosen.arguments)}\n{report}")


def _short(report: str, width: int = 110) -> str:
    first = report.partition("\n")[0]
    where, colon, rest = first.partition(": ")
    if colon and "/" in where:
        first = f"{Path(where).name}: {rest}"
    return first if len(first) <= width else first[: width - 3] + "..."
