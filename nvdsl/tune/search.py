"""Which candidate is the fastest: successive halving over interleaved timings.

All that are left are timed in the same rounds, each once a round, so that clocks and heat touch them alike. Then half
of them go, but none whose times overlap with the best one's, and those that stay are timed for twice as many rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field

from nvdsl.errors.records import dataclass
from nvdsl.tune.bench import Bench, Failed
from nvdsl.tune.result import median

FIRST_ROUNDS = 3
FINAL_ROUNDS = 21
FINALISTS = 3


@dataclass
class Race:
    """``samples``: milliseconds of each candidate, round by round; ``lost``: those that failed while they were timed,
    and why; ``left``: those that were timed to the end, the fastest first."""

    samples: dict[int, list[float]] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


def race(
    bench: Bench,
    numbers: Sequence[int],
    until: float,
    progress: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Race:
    """``numbers``: the candidates to time, all right ones. ``until``: of ``clock``; when it is past, those that were
    timed so far decide. At least `FIRST_ROUNDS` are run."""
    result = Race()
    left, rounds = list(numbers), FIRST_ROUNDS
    while left:
        progress(f"{len(left)} candidates, {rounds} rounds")
        try:
            times = bench.time(left, rounds)
        except Failed as failure:
            result.lost[failure.number] = failure.reason
            left = [n for n in left if n != failure.number]
            continue
        for number, values in times.items():
            result.samples.setdefault(number, []).extend(values)
        marks = scores(result.samples, left)
        left.sort(key=lambda n: marks[n])
        result.left = list(left)
        done = len(result.samples[left[0]])
        if done >= FINAL_ROUNDS or clock() >= until or len(numbers) == 1:
            break
        left = _better_half(left, result.samples)
        rounds = min(2 * rounds, FINAL_ROUNDS - done)
    return result


def _better_half(ranked: list[int], samples: dict[int, list[float]]) -> list[int]:
    """The faster half and at least `FINALISTS`; and all that were now and then as fast as the best usually was."""
    enough = max(FINALISTS, -(-len(ranked) // 2))
    best = median(samples[ranked[0]])
    return [n for place, n in enumerate(ranked) if place < enough or min(samples[n]) <= best]


def scores(samples: dict[int, list[float]], left: Sequence[int]) -> dict[int, float]:
    """How long each takes, as a multiple of what those in ``left`` take on average in the same round: the median over
    the rounds. Without the division a round at a lower clock would count against whoever's median it is."""
    rounds = zip(*(samples[n] for n in left), strict=True)
    means = [sum(times) / len(times) for times in rounds]
    return {n: median([t / mean for t, mean in zip(times, means, strict=False)]) for n, times in samples.items()}
