"""Who finds a mutant: the verifier, or the simulator under which schedule; and at which line."""

from __future__ import annotations

import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any

from nvdsl import sim
from nvdsl.call.module import verify_module
from nvdsl.errors import NvdslError, SimError, TraceError, VerifyError
from nvdsl.mlir import ir
from tests.sim.mutants.edges import Edges
from tests.sim.mutants.operators import Mutant, mutants
from tests.sim.mutants.touched import recorded

SCHEDULES = {
    "late": sim.Options(), "eager": sim.Options(delivery="eager"), "reverse": sim.Options(order="reverse"),
    **{f"random {s}": sim.Options(delivery="random", order="random", seed=s) for s in range(4)},
}  # fmt: skip
"""In which order they are tried: the first that reports counts."""


@dataclass(frozen=True)
class Verdict:
    """``by``: "verifier", "simulator", or "" when nobody reports. ``kind``: the simulator's word for it. ``schedule``:
    under which. ``place``: of the report, "line" (the changed op's own), "edge", "listed" (a deadlock: the line of one
    of the waits that it lists), "elsewhere"; for survivors "right numbers" or "wrong numbers"."""

    by: str
    kind: str
    schedule: str
    place: str
    message: str = ""

    @property
    def good(self) -> bool:
        return self.place in ("line", "edge", "listed")


def _waits(error: NvdslError) -> set[tuple[str, int]]:
    """Where the warps of a deadlock wait."""
    if getattr(error, "kind", "") != "deadlock":
        return set()
    found = (re.search(r" waits? for .* at (.+):(\d+)$", line) for line in error.details)  # type: ignore[attr-defined]
    return {(match[1], int(match[2])) for match in found if match}


class Subject:
    """A correct kernel: its mutants and the edges that say which lines are right."""

    def __init__(self, name: str, case: Any) -> None:
        self.name, self.case = name, case
        self.module = case.program.module
        self.mutants = mutants(self.module)

    @functools.cached_property
    def edges(self) -> Edges:
        self.case.reset()
        with recorded() as touched:
            self.case.program.run()
        self.case.check()
        return Edges(self.module, touched)

    def judge(self, mutant: Mutant) -> Verdict:
        changed = mutant.apply(self.module)
        try:
            with changed.context, ir.Location.unknown():
                verify_module(changed)
        except (TraceError, VerifyError) as error:
            return Verdict("verifier", "", "", self._place(mutant, error), str(error))
        numbers = "right numbers"
        for schedule, options in SCHEDULES.items():
            self.case.reset()
            program = dataclasses.replace(self.case.program, module=changed)
            try:
                program.run(options)
            except SimError as error:
                return Verdict("simulator", error.kind, schedule, self._place(mutant, error), str(error))
            except NvdslError as error:
                return Verdict("lowering", "", schedule, self._place(mutant, error), str(error))
            if not self._right():
                numbers = "wrong numbers"
        return Verdict("", "", "", numbers)

    def _place(self, mutant: Mutant, error: NvdslError) -> str:
        at = None if error.where is None else (error.where.file, error.where.line)
        if at is not None and at == mutant.line:
            return "line"
        lines = self.edges.lines(mutant.number)
        if at in lines:
            return "edge"
        return "listed" if _waits(error) & lines else "elsewhere"

    def _right(self) -> bool:
        try:
            self.case.check()
        except AssertionError:
            return False
        return True
