"""Steps: what a schedule is a list of."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

from nvdsl.errors import ArgumentError, NvdslError, ScheduleError, Where, frames
from nvdsl.errors.records import dataclass
from nvdsl.mlir import ir
from nvdsl.schedule.work import Refusal, Work


@dataclass(frozen=True)
class Step:
    """One step of a schedule. ``name``: its function's, ``arguments``: as they were written, ``says``: what it changes
    in the IR, ``where``: the line of the schedule that has it."""

    name: str
    arguments: str
    says: str
    where: Where | None
    _rewrite: Callable[[Work], None]

    def __str__(self) -> str:
        return f"{self.name}({self.arguments})"

    def __call__(self, work: Work) -> None:
        """Apply it. Raises ScheduleError, which names the step, where it does not fit what the steps before have
        made."""
        try:
            self._rewrite(work)
            work.unmark()
            work.module.operation.verify()
        except Refusal as refusal:
            raise self._error(refusal.message, refusal.rule, refusal.fix) from None
        except ir.MLIRError as error:
            first = error.error_diagnostics[0].message if error.error_diagnostics else str(error)
            raise self._error(first.strip().partition("\n")[0], "MLIR refuses what the step does", "") from None

    def _error(self, message: str, rule: str, fix: str) -> NvdslError:
        return ScheduleError(f"step {self}: {message}", where=self.where, rule=rule, fix=fix)


def step(rewrite: Callable[..., None]) -> Callable[..., Step]:
    """Make a step of a function ``rewrite(work, ...)`` that changes ``work.module`` in place.

    The function that this returns takes the further arguments, and gives a `Step` for a schedule's list. The first
    paragraph of the docstring is what `nvdsl show` says of it. See `Work` for what a rewrite finds there.
    """
    signature = inspect.signature(rewrite)
    parameters = list(signature.parameters.values())[1:]
    says = " ".join((inspect.getdoc(rewrite) or "").partition("\n\n")[0].split())

    @functools.wraps(rewrite)
    def make(*args: Any, **kwargs: Any) -> Step:
        given = signature.replace(parameters=parameters).bind(*args, **kwargs).arguments  # else TypeError, at his line
        for one in parameters:
            if one.annotation in ("int", int) and not isinstance(given.get(one.name, 0), Integral):
                raise ArgumentError(f"{rewrite.__name__}() with {one.name} = {given[one.name]!r}",
                                    where=frames.caller(), rule=f"{one.name} is a whole number")  # fmt: skip
        written = [repr(a) for a in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
        return Step(
            rewrite.__name__, ", ".join(written), says, frames.caller(), lambda work: rewrite(work, *args, **kwargs)
        )

    make.__signature__ = signature.replace(parameters=parameters, return_annotation=Step)  # type: ignore[attr-defined]
    return make
