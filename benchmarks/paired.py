"""Paired timing on one GPU: two functions in turn, in one process, so that clocks and heat touch both alike.

Protocol: A B B A A B B A ..., CUDA events around each call, L2 flushed before each (a write of twice its
size), inputs seeded random normal. What counts is the ratio of neighbouring calls; an unpaired number is only
printed for orientation.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        }


def measure(a: Callable[[], object], b: Callable[[], object], pairs: int = 12, warmup: int = 3) -> Paired:
    """Time ``a`` and ``b`` in turn. Both work on torch's current stream."""
    import torch

    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")

    def once(function: Callable[[], object]) -> float:
        flush.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    for _ in range(warmup):
        once(a)
        once(b)
    times: dict[str, list[float]] = {"a": [], "b": []}
    for i in range(pairs):
        for name in "ab" if i % 2 == 0 else "ba":
            times[name].append(once(a if name == "a" else b))
    return Paired(times["a"], times["b"])


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


def write(path: Path, script: str, result: dict[str, Any]) -> None:
    """A result as JSON, with the command that repeats it."""
    arguments = [Path(a).name if Path(a).name == path.name else a for a in sys.argv[1:]]
    arguments = [f"benchmarks/results/{a}" if a == path.name else a for a in arguments]
    command = " ".join(["python", f"benchmarks/{script}", *arguments])
    path.write_text(json.dumps({"command": command, **result}, indent=1) + "\n")
