"""Paired timing on one GPU: two functions in turn, in one process, so that clocks and heat touch both alike.

Protocol: A B B A A B B A ..., CUDA events around each call, L2 flushed before each (a write of twice its size),
inputs seeded random normal. The GPU is kept waiting before the flush until the host has launched all, so that what is
timed is the GPU's work, not Python's. What counts is the ratio of neighbouring calls; an unpaired number is only
printed for orientation.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Call = Callable[[], object]
FLUSH_BYTES = 128 << 20  # twice an H200's L2 and more
WAIT_CLOCKS = 200_000  # about 0.1 ms
MOST_CLOCKS = 32 * WAIT_CLOCKS  # where the host is slow
CALL_SECONDS = 250e-6  # what one costs beside its own time: the wait, the flush, the host
MOST_PAIRS = 60
LONGEST_WAIT = 200_000_000
"""For many calls in a row: a tenth of a second."""
BATCHES = 5
"""Of each side, call after call."""


@dataclass
class Paired:
    """Milliseconds of each call of A and B, and the ratios B/A (above 1: A is faster) pair by pair."""

    a: list[float]
    b: list[float]

    @property
    def ratios(self) -> list[float]:
        return [b / a for a, b in zip(self.a, self.b, strict=True)]

    def summary(self) -> dict[str, float]:
        ratios = sorted(self.ratios)
        return {
            "a_ms": statistics.median(self.a),
            "b_ms": statistics.median(self.b),
            "ratio": statistics.median(ratios),
            "ratio_low": ratios[len(ratios) // 10],
            "ratio_high": ratios[-1 - len(ratios) // 10],
            "pairs": len(ratios),
        }


def measure(a: Call, b: Call, pairs: int = 12, warmup: int = 3, seconds: float | None = None) -> Paired:
    """Time ``a`` and ``b`` in turn. Both work on torch's current stream.

    ``seconds``: as many pairs as fit into this time instead, at least ``pairs`` and at most `MOST_PAIRS`.
    """
    timer = Timer()
    warm = [timer.once(f) for _ in range(warmup) for f in (a, b)]
    if seconds is not None:
        pair = 2 * (statistics.median(warm) / 1e3 + CALL_SECONDS)
        pairs = max(pairs, min(MOST_PAIRS, int(seconds / pair)))
    times = timer.race({"a": a, "b": b}, pairs)
    return Paired(times["a"], times["b"])


def race(calls: Mapping[str, Call], rounds: int, warmup: int = 1) -> dict[str, list[float]]:
    """Milliseconds of each of many, ``rounds`` times, in turn: forward, backward, forward ..."""
    timer = Timer()
    for _ in range(warmup):
        for call in calls.values():
            timer.once(call)
    return timer.race(calls, rounds)


def sustained(a: Call, b: Call, seconds: float) -> float:
    """The ratio B/A (above 1: A is faster) of calls one behind the other, without a flush: batches of each in turn, at
    least `BATCHES`, of about a tenth of the time. What the host can't launch in time counts, too."""
    import torch

    timer = Timer()
    count = max(1, int(seconds / (2 * BATCHES) / (timer.once(a) / 1e3)))

    def batch(call: Call) -> Call:
        return lambda: [call() for _ in range(count)]

    times: dict[str, list[float]] = {"a": [], "b": []}
    for i in range(BATCHES):
        for name, call in (("a", batch(a)), ("b", batch(b)))[:: 1 if i % 2 == 0 else -1]:
            times[name].append(timer.together(call))
    torch.cuda.synchronize()
    return statistics.median(y / x for x, y in zip(times["a"], times["b"], strict=True))


def in_turn(calls: Mapping[str, Call], counts: Mapping[str, int], ahead: bool, turns: int) -> dict[str, list[float]]:
    """Milliseconds of each, call after call, in each turn. Who comes first, and behind whom, changes from turn to turn;
    and the GPU waits equally long for all hosts, as long as for the slowest: its clock follows what it did before."""
    some = itertools.islice(itertools.permutations(calls), turns + 1)  # of ten calls all are millions
    orders = [order for one in some for order in (one, one[::-1])]
    found: dict[str, list[float]] = {name: [] for name in calls}
    clocks = 0
    for turn in range(-1 if ahead else 0, turns):  # the first one only finds out how long that is
        for name in orders[turn % len(orders)]:
            while True:
                each, late = _in_a_row(calls[name], counts[name], clocks)
                if not (ahead and late) or clocks >= LONGEST_WAIT:
                    break
                clocks = min(max(2 * clocks, int(4e9 * late)), LONGEST_WAIT)  # a GPU has up to 2e9 a second
            if turn >= 0:
                found[name].append(each)
    return found


def _in_a_row(call: Call, count: int, clocks: int) -> tuple[float, float]:
    """Milliseconds of each, the GPU having waited for so many clocks before; and the seconds that the host took, if
    these were more, else 0."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if clocks:
        torch.cuda._sleep(clocks)  # type: ignore[no-untyped-call]
    start = time.perf_counter()
    begin.record()
    for _ in range(count):
        call()
    late, host = begin.query(), time.perf_counter() - start
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count, host if late else 0.0


class Timer:
    """One call between two events, after a wait and a flush. Needs torch.

    The wait grows until the host has launched all before it ends, or is `MOST_CLOCKS` long: a host with other work must
    not be timed in place of the GPU."""

    def __init__(self) -> None:
        import torch

        self._wait, self._clocks = torch.cuda._sleep, WAIT_CLOCKS
        self._flush = _flush_memory()
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def once(self, call: Call) -> float:
        """Milliseconds."""
        while True:
            self._wait(self._clocks)
            self._flush.zero_()
            self._start.record()
            call()
            late = self._start.query()
            self._end.record()
            self._end.synchronize()
            if not late or self._clocks >= MOST_CLOCKS:
                return self._start.elapsed_time(self._end)
            self._clocks *= 2

    def together(self, calls: Call) -> float:
        """Milliseconds of several calls, whatever is in L2."""
        self._start.record()
        calls()
        self._end.record()
        self._end.synchronize()
        return self._start.elapsed_time(self._end)

    def race(self, calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
        names = list(calls)
        times: dict[str, list[float]] = {name: [] for name in names}
        for i in range(rounds):
            for name in names if i % 2 == 0 else reversed(names):
                times[name].append(self.once(calls[name]))
        return times


@functools.cache
def _flush_memory() -> Any:
    import torch

    return torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")


def host() -> dict[str, str]:
    """What a result is worth nothing without: date, versions, processors."""
    import nvdsl
    from nvdsl.lower import ptxas

    return {
        "date": datetime.date.today().isoformat(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "nvdsl": nvdsl.__version__,
        "ptxas": ptxas.version(),
    }


def machine() -> dict[str, str]:
    """`host`, and the GPU with the library that is compared with."""
    import torch

    return {
        **host(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
    }


def command(path: Path, script: str) -> str:
    """What repeats this run, which writes ``path``."""
    arguments = [Path(a).name if Path(a).name == path.name else a for a in sys.argv[1:]]
    arguments = [f"benchmarks/results/{a}" if a == path.name else a for a in arguments]
    return shlex.join(["python", f"benchmarks/{script}", *arguments])


def write(path: Path, script: str, result: dict[str, Any]) -> None:
    """A result as JSON, with the command that repeats it."""
    path.write_text(dumps({"command": command(path, script), **result}))


def dumps(result: dict[str, Any]) -> str:
    """A result as JSON: a line for each of its values, and for each row of a list; numbers with five digits."""
    parts = []
    for name, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(_rounded(row)) for row in value) + "\n ]"
        else:
            text = json.dumps(_rounded(value))
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(x) for name, x in value.items()}
    return [_rounded(x) for x in value] if isinstance(value, list | tuple) else value
