"""The hunt: each original must pass; each mutant is judged, and what nobody reports is kept."""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass

from nvdsl import verify
from nvdsl.errors import NvdslError
from tests.hunt.kernels import draw
from tests.sim.mutants.judge import SCHEDULES, Subject, Verdict
from tests.sim.mutants.operators import Mutant

ROUTINE = ("swizzle of TMA", "stage count", "tile index: one further")
"""Mutations that are as right as the kernel too often to be worth a look, or say only which element is wanted."""


@dataclass(frozen=True)
class Finding:
    """A mutant that nobody reports, or an original that somebody does. ``kind``: "false alarm", "wrong numbers",
    "right numbers". ``place``: the changed line's number and text; ``text``: the kernel."""

    number: int
    kind: str
    what: str
    place: str
    text: str


@dataclass(frozen=True)
class Hunted:
    """One kernel. ``judged``, ``reported``: mutants."""

    number: int
    judged: int
    reported: int
    findings: tuple[Finding, ...]


def hunt(seed: int, number: int, mutants: int) -> Hunted:
    """Kernel ``number`` of a seed under every schedule, then ``mutants`` random mutants of it."""
    text, case = draw(seed, number)
    subject = Subject(f"kernel {number}", case)
    alarm = _alarm(subject)
    if alarm is not None:
        return Hunted(number, 0, 0, (Finding(number, "false alarm", alarm, "", text),))
    usual = [mutant for mutant in subject.mutants if not f"{mutant.kind}: {mutant.name}".startswith(ROUTINE)]
    chosen = random.Random(f"{seed}.{number}.mutants").sample(usual, min(mutants, len(usual)))
    verdicts = [(mutant, subject.judge(mutant)) for mutant in chosen]
    missed = [_finding(number, text, mutant, verdict) for mutant, verdict in verdicts if not verdict.by]
    return Hunted(number, len(chosen), len(chosen) - len(missed), tuple(missed))


def _alarm(subject: Subject) -> str | None:
    """What is said about the original, None if nothing is."""
    with subject.module.context:
        try:
            verify.check(subject.module)
        except NvdslError as error:
            return f"verifier: {error}"
    for name, options in SCHEDULES.items():
        subject.case.reset()
        try:
            subject.case.program.run(options)
            subject.case.check()
        except (NvdslError, AssertionError) as error:
            return f"{name}: {error}"
    return None


def _finding(number: int, text: str, mutant: Mutant, verdict: Verdict) -> Finding:
    place = ""
    if mutant.line is not None:
        place = f"line {mutant.line[1]}: {linecache.getline(*mutant.line).strip()}"
    return Finding(number, verdict.place, f"{mutant.kind}: {mutant.name}", place, text)
