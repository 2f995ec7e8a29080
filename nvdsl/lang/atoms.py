"""Which instruction carries out what a kernel asks for: the instructions that could, each with a plan or a reason.

A specification says what is done to which data by which threads: a move, a product, a reduction. An *atom* is an
instruction, or a short sequence, that can do it for some layouts, types and memory spaces. The atoms of a kind stand in
a table, the best one first, and the first whose conditions hold is taken. (Graphene: Hagedorn et al., "Graphene: An IR
for Optimized Tensor Computations on GPUs", ASPLOS 2023, section 5, "atomic specifications".)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass


class Unfit(Exception):
    """Why an instruction does not carry out a specification: a sentence without a full stop."""


@dataclass(frozen=True)
class Plan:
    """How an instruction carries a specification out. ``emit`` emits it and returns what it makes.

    ``count``: how often a thread executes it; ``bytes``: what a thread moves each time, 0 for what is no access of
    memory; ``conflicts``: how many times longer an access to shared memory takes than without bank conflicts (0: not
    known while tracing).
    """

    emit: Callable[[], Any]
    count: int
    bytes: int = 0
    conflicts: int = 1

    def __str__(self) -> str:
        said = [f"{self.count} x {self.bytes} bytes a thread" if self.bytes else f"{self.count} a thread"]
        if self.bytes:
            ways = {0: "bank conflicts not known", 1: "no bank conflicts"}
            said.append(ways.get(self.conflicts, f"{self.conflicts}-way bank conflicts"))
        return ", ".join(said)


@dataclass(frozen=True)
class Atom:
    """``plan``: of a specification; raises `Unfit`. ``does``: what it is, for who reads an explanation."""

    name: str
    does: str
    plan: Callable[[Any], Plan]


@dataclass(frozen=True)
class Candidate:
    """An atom, and either its plan or why it does not fit."""

    atom: Atom
    plan: Plan | None
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.atom.name}: {self.plan if self.plan is not None else f'no: {self.reason}'}"


def candidates(spec: Any, atoms: Sequence[Atom]) -> list[Candidate]:
    """What each atom of the table says to a specification."""
    found = []
    for atom in atoms:
        try:
            found.append(Candidate(atom, atom.plan(spec)))
        except Unfit as unfit:
            found.append(Candidate(atom, None, str(unfit)))
    return found


def choose(spec: Any, atoms: Sequence[Atom], using: str | None = None) -> Plan:
    """The plan of the first atom that fits, or of the one called ``using``. Raises TraceError where there is none."""
    names = [atom.name for atom in atoms]
    if using is not None and using not in names:
        raise trace_error(
            f"{spec} using {using!r}",
            rule=f"the instructions for it are {', '.join(names)}",
            fix="leave `using` out, or name one of them",
        )
    reasons = []
    for atom in atoms:
        if using in (None, atom.name):
            try:
                return atom.plan(spec)
            except Unfit as unfit:
                reasons.append(f"{atom.name}: {unfit}")
    raise trace_error(
        f"{spec}" + (f" using {using!r}" if using else ": no instruction does it"),
        rule="; ".join(reasons),
        fix="leave `using` out, and nv.explain says which instructions fit" if using else "change what the rule names",
    )


def explained(spec: Any, atoms: Sequence[Atom], using: str | None = None) -> str:
    """The specification, and a line for each atom; the one that is taken is marked."""
    lines, taken = [str(spec)], False
    for one in candidates(spec, atoms):
        is_taken = not taken and one.plan is not None and using in (None, one.atom.name)
        taken = taken or is_taken
        lines.append(f"{'->' if is_taken else '  '} {one}")
    return "\n".join(lines)
