"""Reading and editing a traced module: where values come from, constants, copies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from nvdsl.ir.location import where
from nvdsl.ir.walk import walk
from nvdsl.lower.compiler import _copy
from nvdsl.mlir import ir


def copy(module: Any) -> tuple[Any, list[Any]]:
    """A copy of a module, and its operations in the order in which `walk` gives those of the original."""
    made = _copy(module)
    return made, walk(made.operation)


def defining(value: Any) -> Any | None:
    """The operation that makes a value, None for a block's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant(value: Any) -> int | None:
    """The integer that a value is known to be, booleans as 0 and 1."""
    op = defining(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr | ir.BoolAttr) else None


def sources(value: Any) -> list[Any]:
    """The values that a value is computed from, one step back; through loops and branches."""
    op = defining(value)
    if op is not None:
        if op.name == "scf.if":
            i = ir.OpResult(value).result_number
            return [op.operands[0], *(_last(op, region).operands[i] for region in range(len(op.regions)))]
        if op.name == "scf.for":
            i = ir.OpResult(value).result_number
            return [op.operands[3 + i], _last(op, 0).operands[i]]
        if op.name == "scf.while":
            return [_last(op, 0).operands[1 + ir.OpResult(value).result_number]]
        return list(op.operands)
    owner, i = value.owner.owner.operation, ir.BlockArgument(value).arg_number
    if owner.name == "scf.while":
        first = value.owner == owner.regions[0].blocks[0]
        return [owner.operands[i], _last(owner, 1).operands[i]] if first else [_last(owner, 0).operands[1 + i]]
    if owner.name != "scf.for":
        return []
    if i == 0:
        return list(owner.operands)[:3]
    return [owner.operands[2 + i], _last(owner, 0).operands[i - 1]]


def _last(op: Any, region: int) -> Any:
    """The op that ends a region."""
    operations = op.regions[region].blocks[0].operations
    return operations[len(operations) - 1].operation


def carried(op: Any, i: int) -> list[Any]:
    """The values that get the value of operand ``i`` of an op of a loop or a branch."""
    owner = op if op.name in ("scf.for", "scf.while") else op.parent.operation
    regions = [region.blocks[0].arguments for region in owner.regions if len(region.blocks)]
    if owner.name == "scf.for":
        i = i - 3 if op.name == "scf.for" else i
        return [owner.results[i], regions[0][i + 1]] if i >= 0 else []
    if owner.name == "scf.while":
        if op.name == "scf.condition":
            return [owner.results[i - 1], regions[1][i - 1]] if i else []
        return [regions[0][i]]
    return [owner.results[i]] if len(owner.results) else []


def is_wgmma_asm(op: Any) -> bool:
    return op.name == "llvm.inline_asm" and "wgmma.mma_async" in ir.StringAttr(op.attributes["asm_string"]).value


def slice_of(values: list[Any]) -> list[Any]:
    """The values that ``values`` are computed from, themselves included."""
    found: dict[int, Any] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        key = ir.Value.__hash__(value)
        if key not in found:
            found[key] = value
            todo += sources(value)
    return list(found.values())


def looping(values: list[Any]) -> set[int]:
    """The hashes of those values that are computed from a loop's arguments."""
    computed_from = {ir.Value.__hash__(value): value for value in slice_of(values)}
    users: dict[int, list[int]] = {}
    for key, value in computed_from.items():
        for source in sources(value):
            users.setdefault(ir.Value.__hash__(source), []).append(key)
    todo = [key for key, value in computed_from.items() if is_loop_argument(value)]
    found = set(todo)
    while todo:
        new = [user for user in users.get(todo.pop(), ()) if user not in found]
        found.update(new)
        todo += new
    return found


def is_loop_argument(value: Any) -> bool:
    return defining(value) is None and value.owner.owner.operation.name in ("scf.for", "scf.while")


def inside(op: Any, names: tuple[str, ...]) -> bool:
    """Whether an op called one of ``names`` (their first letters) is in one of the op's regions."""
    return any(inner.name.startswith(names) for inner in walk(op) if inner != op)


def group_size(group: Any) -> int:
    """Number of mbarriers of a group."""
    match = re.search(r"num_barriers = (\d+)", str(group.type))
    return int(match[1]) if match else 1


def segments(op: Any) -> list[list[int]]:
    """Numbers of the operands, by group, of an op with several groups of them."""
    groups, start = [], 0
    for length in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        groups.append(list(range(start, start + length)))
        start += length
    return groups


def enclosing(op: Any) -> Iterator[Any]:
    parent = op.parent
    while parent is not None and parent.operation.name != "builtin.module":
        yield parent.operation
        parent = parent.operation.parent


def most_registers(op: Any) -> int:
    """What the threads of the block around ``op`` take when each has the most that setmaxnreg gives."""
    launch = next(one for one in enclosing(op) if one.name == "gpu.launch")
    start = sum(int(s) for s in list(launch.attributes["operandSegmentSizes"])[:4])
    return 248 * math.prod(constant(launch.operands[start + i]) or 1 for i in range(3))


# --- edits: each changes one operand of an op in place


def before(op: Any) -> Any:
    """New ops go before ``op``, with its source line."""
    return ir.InsertionPoint(op)


def literal(type_: Any, value: int) -> Any:
    attribute = ir.BoolAttr.get(bool(value)) if str(type_) == "i1" else ir.IntegerAttr.get(type_, value)
    return ir.Operation.create("arith.constant", [type_], attributes={"value": attribute}).results[0]


def set_constant(op: Any, operand: int, value: int) -> None:
    with before(op), op.location:
        op.operands[operand] = literal(op.operands[operand].type, value)


def add(op: Any, operand: int, change: int, modulo: int | None = None) -> None:
    """Add to an operand; ``modulo``: and keep it from 0 on below that."""
    known = constant(op.operands[operand])
    if known is not None:
        set_constant(op, operand, known + change if modulo is None else (known + change) % modulo)
        return
    _compute(op, operand, "arith.addi", change)
    if modulo is not None:
        _compute(op, operand, "arith.remsi", modulo)


def flip(op: Any, operand: int) -> None:
    _compute(op, operand, "arith.xori", 1)


def _compute(op: Any, operand: int, name: str, by: int) -> None:
    value = op.operands[operand]
    with before(op), op.location:
        op.operands[operand] = ir.Operation.create(name, [value.type], [value, literal(value.type, by)]).results[0]


def line_of(op: Any) -> tuple[str, int] | None:
    at = where(op)
    return None if at is None else (at.file, at.line)
