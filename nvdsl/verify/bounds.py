"""Traced indices that are surely outside of what they index: elements and parts of tiles, stages, vectors, mbarriers.

Wrappers state their indices beside the addresses that they make of them (`nvdsl.ops.bounds`). Arrays' indices are left
to the simulator and to debug mode.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.ir.location import mbarrier_group, where
from nvdsl.values import bounds
from nvdsl.verify import certain
from nvdsl.verify.context import Context, contexts
from nvdsl.verify.program import Node, Program

UNKNOWN = 1 << 62
"""In place of an extent that only a run knows: what is below 0 is outside all the same."""


def check(program: Program) -> None:
    for context in contexts(program):
        for node in context.kernel.find("gpu.printf"):
            stated = bounds.stated(node.op)
            if stated is not None:
                for axis, (value, extent) in enumerate(zip(node.op.operands, stated.extents, strict=False)):
                    on = f" on axis {axis}" if len(stated.extents) > 1 else ""
                    if isinstance(extent, bounds.Operand):
                        extent = UNKNOWN
                    _check(context, node, value, extent, f"index {{}}{on} of {stated.of}", multiple=stated.multiple)
        for group in context.groups:
            for event in group.events or ():
                name = mbarrier_group(where(group.node.op), ())
                _check(context, event.node, event.index, group.size, f"mbarrier {{}} of `{name}`", event.predicate)


def _check(
    context: Context, node: Node, value: Any, extent: int, what: str, predicate: Any = None, multiple: int = 1
) -> None:
    reach = context.reaches.of(node, predicate)
    if 0 in reach.trips or not reach.lanes.any():
        return
    found = certain.values(context, node, value, reach)
    outside = certain.first(found, lambda x: (x < 0) | (x >= extent), reach)
    if outside is not None:
        raise VerifyError(
            f"{what.format(outside)}: the last one is {extent - 1}",
            where=where(node.op),
            rule=bounds.RULE,
            fix=bounds.FIX,
        )
    between = certain.first(found, lambda x: x % multiple != 0, reach) if multiple > 1 else None
    if between is not None:
        raise VerifyError(
            f"{what.format(between)}: no multiple of {multiple}",
            where=where(node.op),
            rule="a part of a tile starts where the pattern of its swizzle does",
            fix=f"use a multiple of {multiple}",
        )
