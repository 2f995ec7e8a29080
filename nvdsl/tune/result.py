"""What a tuning found: every candidate with what became of it, as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.tune.space import Config

PRUNED, REFUSED, FAILED, WRONG, SLOWER, CHOSEN = "pruned", "refused", "failed", "wrong", "slower", "chosen"
"""What becomes of a candidate: pruned before compiling; refused by the compiler or by what ptxas says; failed (hung,
crashed) on the device; its result is wrong; it is right, and slower; it is chosen."""


@dataclass
class Candidate:
    """``reason``: for what became of it, in words. ``fill``: share of the SMs' time with work. ``times``: milliseconds,
    round by round. ``ratio``: how many times as long as the chosen one it takes."""

    config: Config
    state: str = ""
    reason: str = ""
    fill: float | None = None
    times: list[float] = field(default_factory=list)
    ratio: float | None = None

    @property
    def ms(self) -> float | None:
        return median(self.times) if self.times else None


@dataclass
class Tuning:
    """What a tuning found.

    ``config`` is the configuration that is used from now on. ``source`` says where it comes from: "tuned", "cache",
    "table", "heuristic" or "defaults". ``candidates`` are those of the search, if there was one."""

    name: str
    problem: str
    config: Config
    source: str
    candidates: list[Candidate] = field(default_factory=list)
    gpu: str = ""
    seconds: float = 0.0

    def count(self) -> Counter[str]:
        """How many candidates ended in which state."""
        return Counter(c.state for c in self.candidates)

    def report(self, losers: int = 10) -> str:
        """A table: the chosen one, the fastest others, then the rest with its reasons, like ones together."""
        on = f" on {self.gpu}" if self.gpu else ""
        lines = [f"{self.name}({self.problem}){on}: {self.config}   [{self.source}]"]
        if not self.candidates:
            return lines[0]
        counts = ", ".join(f"{n} {state}" for state, n in self.count().items())
        lines.append(f"{len(self.candidates)} candidates in {self.seconds:.1f} s: {counts}")
        lines += self._timed(losers)
        lines += self._others()
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()

    def _timed(self, losers: int) -> Iterator[str]:
        timed = sorted((c for c in self.candidates if c.ms is not None and c.state in (CHOSEN, SLOWER)),
                       key=lambda c: (c.state != CHOSEN, c.ratio or 0.0, c.ms))  # fmt: skip
        if timed:
            yield f"{'ms':>10}{'spread':>20}{'ratio':>8}{'rounds':>8}{'fill':>6}  configuration"
        for candidate in timed[: losers + 1]:
            low, high = spread(candidate.times)
            fill = f"{candidate.fill:.2f}" if candidate.fill is not None else ""
            yield (
                f"{candidate.ms:>10.4f}{f'{low:.4f}..{high:.4f}':>20}{candidate.ratio or 1.0:>8.3f}"
                f"{len(candidate.times):>8}{fill:>6}  {candidate.config}"
            )
        if len(timed) > losers + 1:
            yield f"           ... and {len(timed) - losers - 1} slower ones"

    def _others(self) -> Iterator[str]:
        groups: dict[tuple[str, str], list[Candidate]] = {}
        for candidate in self.candidates:
            if candidate.state in (PRUNED, REFUSED, FAILED, WRONG):
                groups.setdefault((candidate.state, candidate.reason), []).append(candidate)
        for (state, reason), members in groups.items():
            yield f"{state}: {reason}"
            for member in members[:4]:
                yield f"           {member.config}"
            if len(members) > 4:
                yield f"           ... and {len(members) - 4} more"


def spread(times: list[float]) -> tuple[float, float]:
    """The times of the middle 80 %."""
    ordered = sorted(times)
    cut = len(ordered) // 10
    return ordered[cut], ordered[-1 - cut]


def measured(candidate: Candidate, tuning: list[Candidate], **more: Any) -> dict[str, Any]:
    """What a record keeps of a measurement."""
    low, high = spread(candidate.times)
    return {
        "ms": round(candidate.ms or 0.0, 6),
        "ms_10_90": [round(low, 6), round(high, 6)],
        "rounds": len(candidate.times),
        "candidates": len(tuning),
        **more,
    }


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else math.fsum(ordered[middle - 1 : middle + 1]) / 2
