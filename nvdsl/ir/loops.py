"""What decides when an ``scf.while`` ends, and what it does until then."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import identity, terminator, walk
from nvdsl.mlir import ir

_COMPUTING = ("arith.", "math.", "index.", "gpu.", "nvvm.shfl", "nvvm.vote", "nvvm.redux", "nvvm.read.ptx.sreg")
_HANDING_ON = ("scf.yield", "scf.condition")
_QUIET = (*_COMPUTING, *_HANDING_ON)
_TIMERS = ("clock", "timer")


def deciding(loop: Any) -> frozenset[int] | None:
    """The numbers of the carried values that the loop's condition is made of, in this turn or in later ones. None where
    it may be made of memory, too, or of what else others change: the loop may wait for them."""
    numbers, reads = _made_of(loop, [_condition(loop)])
    return None if reads else numbers


def acting(loop: Any) -> frozenset[int]:
    """The numbers of the carried values on which it depends what the loop does: when it ends, which branches it takes,
    what it reads and writes. The others it only computes."""
    roots = [_condition(loop)]
    for op in walk(loop):
        if (op.name == "gpu.printf" or not op.name.startswith(_QUIET)) and op != loop:
            roots += list(op.operands)
    return _made_of(loop, roots)[0]


def _condition(loop: Any) -> Any:
    return terminator(loop.regions[0].blocks[0]).operands[0]


def _made_of(loop: Any, values: list[Any]) -> tuple[frozenset[int], bool]:
    """The numbers of the carried values that values are made of; whether of memory, too, or of what else others
    change."""
    before, reads = loop.regions[0].blocks[0], False
    pending, seen, found = values, set(), set()
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
        else:
            reads = reads or not op.name.startswith(_COMPUTING) or any(word in op.name for word in _TIMERS)
            pending += list(op.operands)
    return frozenset(found), reads


def is_endless(loop: Any) -> bool:
    """Whether no turn changes what decides when it ends: once it is entered, it never does."""
    numbers = deciding(loop)
    if numbers is None:
        return False
    before, after = (region.blocks[0] for region in loop.regions)
    passed, yielded = list(terminator(before).operands)[1:], list(terminator(after).operands)
    kept = {identity(after.arguments[i]): identity(value) for i, value in enumerate(passed)}
    return all(kept.get(identity(yielded[i])) == identity(before.arguments[i]) for i in numbers)


def _handed_over(op: Any, number: int, is_argument: bool) -> list[Any]:
    """What becomes an argument of a block in ``op``, or a result of it."""
    ends = [list(terminator(block).operands) for region in op.regions for block in region.blocks]
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
