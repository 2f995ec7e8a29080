"""cf.assert on the host: what a host function requires of its arguments, checked at each call."""

from __future__ import annotations

from typing import Any

from nvdsl.driver.host.builder import Builder, Frame, Handler, Step
from nvdsl.errors import ArgumentError
from nvdsl.ir.location import where
from nvdsl.ir.operands import string
from nvdsl.lang.requirements import FIX, RULE
from nvdsl.values.extents import arguments_behind, name_of


def _assert(builder: Builder, op: Any) -> Step:
    condition, line = builder.slot(op.operands[0]), where(op)
    behind = [(name_of(value), builder.slot(value)) for value in arguments_behind(op.operands[0])]
    message, rule, fix = (string(op, name) if name in op.attributes else "" for name in ("msg", RULE, FIX))
    message = message.removeprefix(f"{line}: ")  # which `assert` begins with

    def step(frame: Frame) -> None:
        if not frame[condition]:
            values = ", ".join(f"{name} = {frame[slot]}" for name, slot in behind)
            raise ArgumentError(message + (f" ({values})" if values else ""), where=line, rule=rule, fix=fix)

    return step


HANDLERS: dict[str, Handler] = {"cf.assert": _assert}
