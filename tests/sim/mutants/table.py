"""docs/mutations.md: who finds which mutants, and the survivors with their reasons."""

from __future__ import annotations

import inspect
import linecache
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sim.mutants import edges
from tests.sim.mutants.judge import SCHEDULES, Verdict
from tests.sim.mutants.operators import Mutant
from tests.sim.mutants.survivors import ENTRIES, Entry, explain

ROOT = Path(__file__).parents[3]
PATH = ROOT / "docs" / "mutations.md"


@dataclass(frozen=True)
class Row:
    """One judged mutant."""

    subject: str
    mutant: Mutant
    verdict: Verdict

    @property
    def entry(self) -> Entry | None:
        return explain(self.subject, self.mutant, self.verdict)

    @property
    def line(self) -> str:
        """`file:line`, and the source there."""
        if self.mutant.line is None:
            return ""
        file, number = self.mutant.line
        source = linecache.getline(file, number).strip().partition("  #")[0]
        return f"`{os.path.relpath(file, ROOT)}:{number}` `{source}`"

    def __str__(self) -> str:
        found = f"{self.verdict.by} {self.verdict.kind}".strip()
        found = found or "nobody reports it"
        return f"{self.subject}: {self.mutant.name} at {self.line}: {found}, {self.verdict.place}"


def unexplained(rows: Sequence[Row]) -> list[Row]:
    """Mutants that nobody reports, or at another line, without a reason."""
    return [row for row in rows if not row.verdict.good and row.entry is None]


def unused(rows: Sequence[Row]) -> list[Entry]:
    """Reasons that no mutant needs."""
    needed = {row.entry for row in rows}
    return [entry for entry in ENTRIES if entry not in needed]


def rate(rows: Sequence[Row]) -> float:
    """Per cent of the mutants that are reported with a right line."""
    return 100 * sum(row.verdict.good for row in rows) / len(rows)


def bugs(rows: Sequence[Row]) -> list[Row]:
    """Without the mutants that are as right as the kernel: nobody reports them, their numbers are right, and the reason
    says so."""
    return [row for row in rows if not _is_none(row)]


def _is_none(row: Row) -> bool:
    excused = row.entry is not None and row.entry.reason.startswith("no bug here")
    return excused and row.verdict.place == "right numbers"


def reported(rows: Sequence[Row]) -> float:
    """Per cent of the mutants that are reported, at any line."""
    return 100 * sum(bool(row.verdict.by) for row in rows) / len(rows)


def text(rows: Sequence[Row], every: int = 1) -> str:
    """The page. ``every``: the rows are of each ``every``-th mutant of a kernel."""
    which = "" if every == 1 else f" (a sample: every {every}th of each kernel's; `make mutants` tries all)"
    places = Counter(row.verdict.place for row in rows)
    by = Counter(row.verdict.by for row in rows)
    parts = [
        "# Mutations",
        "Written by `make mutants`; don't edit.",
        f"{len(rows)} mutants{which} of {len({r.subject for r in rows})} correct kernels: {rate(rows):.1f} % are "
        f"reported with the right line. {len(rows) - len(bugs(rows))} are no bugs, as right as the kernel itself; of "
        f"the others **{reported(bugs(rows)):.1f} %** are reported, {rate(bugs(rows)):.1f} % with the right line. The "
        f"verifier finds {by['verifier']}, the simulator {by['simulator']}"
        + (f", the lowering {by['lowering']}" if by["lowering"] else "")
        + f"; {by['']} are reported by nobody and {places['elsewhere']} at another line: these are listed below, each "
        "with the reason.",
        "A mutant is a traced kernel with one change: a fence, wait, arrive, init, commit, barrier or copy deleted; "
        "one byte count, arrival count, parity, swizzle, stride, phase, slot, distance, barrier number, thread count, "
        "register count, multicast mask, membermask, index of a tile, memory order, scope or state space wrong; an "
        "init done twice; all lanes where there was one, or one where there were all. The rate speaks of these "
        "classes and of these kernels, and of no other class (`make hunt` mutates kernels that nobody wrote). "
        "The verifier sees it first, then the simulator under "
        f"{', '.join(SCHEDULES)}; the first that raises an error counts. Exchanged coordinates of a copy are no "
        "mutants: which part of an array a kernel wants is nobody's rule, and the numbers show it.",
        "## The right line",
        inspect.cleandoc(edges.__doc__ or "").partition("\n\n")[2],
        "A deadlock has many places, those of all warps that wait: it is also right when one of the waits that it "
        f"lists is on the edge (*listed*: {places['listed']} mutants). The others name the changed line itself "
        f"({places['line']}), or one of its edge ({places['edge']}).",
        "## By kernel",
        _table("kernel", [(row.subject, row) for row in rows]),
        "## By mutation",
        _table("mutation", [(row.mutant.kind, row) for row in rows]),
        "## What the simulator calls it",
        _kinds(rows),
        "## Not reported, or at another line",
        _survivors(rows),
    ]
    return "\n\n".join(parts) + "\n"


def _table(title: str, named: Sequence[tuple[str, Row]]) -> str:
    lines = [
        f"| {title} | mutants | verifier | simulator | the line | the edge | listed | elsewhere | nobody | right |",
        "| --- |" + " ---: |" * 9,
    ]
    for name in [*dict.fromkeys(name for name, _ in named), "all"]:
        rows = [row for its, row in named if name in (its, "all")]
        by, place = Counter(r.verdict.by for r in rows), Counter(r.verdict.place for r in rows)
        numbers = (
            len(rows), by["verifier"], by["simulator"], place["line"], place["edge"], place["listed"],
            place["elsewhere"], by[""],
        )  # fmt: skip
        lines.append(f"| {name} | " + " | ".join(map(str, numbers)) + f" | {rate(rows):.0f} % |")
    return "\n".join(lines)


def _kinds(rows: Sequence[Row]) -> str:
    kinds = Counter(row.verdict.kind for row in rows if row.verdict.by == "simulator")
    schedules = Counter(row.verdict.schedule for row in rows if row.verdict.by == "simulator")
    found = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    first = ", ".join(f"{name} {schedules[name]}" for name in SCHEDULES if schedules[name])
    return f"{found}.\n\nFirst under: {first}."


def _survivors(rows: Sequence[Row]) -> str:
    lines = []
    for entry in ENTRIES:
        mine = [row for row in rows if row.entry is entry]
        if mine:
            lines.append(f"- {entry.reason}:")
            shown = Counter(f"{r.subject}: {r.mutant.name}, {r.line}; {r.verdict.place}" for r in mine)
            lines += [f"  - {what}" + (f" ({count} times)" if count > 1 else "") for what, count in shown.items()]
    lines += [f"- **not explained**: {row}" for row in unexplained(rows)]
    return "\n".join(lines)
