"""What decides when an ``scf.while`` ends."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import identity
from nvdsl.mlir import ir

_COMPUTING = ("arith.", "math.", "index.", "gpu.", "nvvm.shfl", "nvvm.vote", "nvvm.redux", "nvvm.read.ptx.sreg")
_TIMERS = ("clock", "timer")


def deciding(loop: Any) -> frozenset[int] | None:
    """The numbers of the carried values that the loop's condition is made of, in this turn or in later ones. None where
    it may be made of memory, too, or of what else others change: the loop may wait for them."""
    before = loop.regions[0].blocks[0]
    pending, seen, found = [list(before.operations)[-1].operands[0]], set(), set()
    while pending:
        value = pending.pop()
        if identity(value) in seen:
            continue
        seen.add(identity(value))
        is_argument = isinstance(value.owner, ir.Block)
        op = value.owner.owner.operation if is_argument else value.owner.operation
        if not _is_in(op, loop):
            continue
        if len(op.regions):
            number = ir.BlockArgument(value).arg_number if is_argument else ir.OpResult(value).result_number
            if op == loop and is_argument and value.owner == before:
                found.add(number)
            pending += _handed_over(op, number, is_argument)
        elif op.name.startswith(_COMPUTING) and not any(word in op.name for word in _TIMERS):
            pending += list(op.operands)
        else:
            return None
    return frozenset(found)


def is_endless(loop: Any) -> bool:
    """Whether no turn changes what decides when it ends: once it is entered, it never does."""
    numbers = deciding(loop)
    if numbers is None:
        return False
    before, after = (region.blocks[0] for region in loop.regions)
    passed, yielded = list(list(before.operations)[-1].operands)[1:], list(list(after.operations)[-1].operands)
    kept = {identity(after.arguments[i]): identity(value) for i, value in enumerate(passed)}
    return all(kept.get(identity(yielded[i])) == identity(before.arguments[i]) for i in numbers)


def _handed_over(op: Any, number: int, is_argument: bool) -> list[Any]:
    """What becomes an argument of a block in ``op``, or a result of it."""
    ends = [list(list(block.operations)[-1].operands) for region in op.regions for block in region.blocks]
    if op.name == "scf.if":
        return [op.operands[0], *(operands[number] for operands in ends)]
    if op.name == "scf.while":  # its condition hands on all but the first operand
        (test, *onward), again = ends
        return [test, *(x for values in (onward, again, list(op.operands)) for x in values[number : number + 1])]
    if op.name == "scf.for":
        carried = number - is_argument  # the first argument is the loop's variable
        bounds = list(op.operands)[:3]
        return bounds if carried < 0 else [*bounds, ends[0][carried], op.operands[3 + carried]]
    return [*op.operands, *(x for operands in ends for x in operands)]


def _is_in(op: Any, loop: Any) -> bool:
    """Whether ``op`` is ``loop``, or in it."""
    while op is not None and op != loop:
        op = op.parent
    return op is not None
