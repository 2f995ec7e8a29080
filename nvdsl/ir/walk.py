"""Finding operations in a module, and what is known about their operands."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from nvdsl.mlir import ir


def walk(root: Any) -> list[Any]:
    """All operations in ``root``, itself included: inner ones before the one that holds them, else in program order."""
    found: list[Any] = []
    stopped: list[BaseException] = []
    note = _note(found, stopped)
    next(note)
    if not stopped:
        root.operation.walk(note.send)
    if stopped:
        raise stopped[0]
    return found


def _note(found: list[Any], stopped: list[BaseException]) -> Generator[Any, Any, None]:
    """Takes one operation after the other from the bindings' walk. That one turns whatever is raised in its callback
    into a RuntimeError, and so Ctrl-C, which Python raises wherever it is: here it ends the walk."""
    go_on = ir.WalkResult.ADVANCE
    try:
        while True:
            found.append((yield go_on))
    except GeneratorExit:
        return
    except BaseException as error:
        stopped.append(error)
        yield ir.WalkResult.INTERRUPT


def find(root: Any, *names: str) -> list[Any]:
    """The operations in ``root`` that are called one of ``names``, in the order of `walk`."""
    return [op for op in walk(root) if op.name in names]


def find_outside(root: Any, name: str, closed: tuple[str, ...]) -> list[Any]:
    """The operations called ``name`` that stand in no operation called one of ``closed``, in program order."""
    return [op for op in walk_outside(root, closed) if op.name == name]


def walk_outside(root: Any, closed: tuple[str, ...]) -> list[Any]:
    """The operations that stand in no operation called one of ``closed``: each before the ones in it."""
    found: list[Any] = []
    waiting = [root.operation]
    while waiting:
        op = waiting.pop()
        found.append(op)
        if op.name not in closed:
            inner = [o.operation for region in op.regions for block in region.blocks for o in block.operations]
            waiting += reversed(inner)
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


identity: Callable[[Any], int] = ir.Value.__hash__
"""A key for a value. (Traced values overload ``==``, so that they can't be keys themselves.)"""


def yielded(region: Any) -> list[Any]:
    """What the terminator of ``region`` hands on; [] for an `else` that isn't there."""
    return list(terminator(region.blocks[0]).operands) if len(region.blocks) else []


def terminator(block: Any) -> Any:
    """The last operation of a block, in a tenth of the time that a list of all takes."""
    operations = block.operations
    return operations[len(operations) - 1].operation


def constant(value: Any) -> int | None:
    """The integer that ``value`` is known to be, or None."""
    op = defining(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None
