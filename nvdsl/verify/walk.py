"""Finding ops in a module, and what is known about their operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.mlir import ir


def find(root: Any, *names: str) -> list[Any]:
    """All operations called one of ``names``, in program order."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit)
    return found


def ancestors(op: Any) -> Iterator[tuple[Any, int]]:
    """(enclosing op, number of its region that holds ``op``), innermost first."""
    block = op.operation.block
    while True:
        region, parent = block.region, block.owner.operation
        number = next(i for i, r in enumerate(parent.regions) if r == region)
        yield parent, number
        if parent.name in ("func.func", "builtin.module", "gpu.module"):
            return
        block = parent.block


def defining(value: Any) -> Any | None:
    """The op that makes ``value``, or None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def yielded(region: Any) -> list[Any]:
    """What the terminator of ``region`` hands on; [] for an `else` that isn't there."""
    if not len(region.blocks):
        return []
    operations = region.blocks[0].operations
    return list(operations[len(operations) - 1].operation.operands)


def constant(value: Any) -> int | None:
    """The integer that ``value`` is known to be, or None."""
    op = defining(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None
