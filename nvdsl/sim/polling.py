"""Loops that poll: a turn that changes nothing, neither the loop's values nor memory, will be the same again; and what
decides that one is over."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.ir.location import where
from nvdsl.ir.walk import identity
from nvdsl.mlir import ir
from nvdsl.sim.machine import Waiting

STRETCH = 64
"""Turns of a loop, each unlike the one before, after which others may run. They are as many polls where what the loop
reads decides when it ends."""
COMPUTED = 8
"""Of a loop that computes when it ends: it does not wait for others, and most such loops end by themselves."""


def polling(at: Where | None, seen: int | None) -> Waiting:
    """What polls once. ``seen``: `Machine.changes` before a turn of a loop that changed nothing; None: the next turn
    may be another."""
    return Waiting(lambda: False, "a condition that it polls", at, spins=True, seen=seen)


def turning(at: Where | None, reads: bool) -> Waiting:
    """What a loop waits for after `STRETCH`. ``reads``: see `reads`."""
    if reads:
        return Waiting(lambda: False, "a condition that it polls", at, spins=True, turns=STRETCH)
    hint = "a loop has made hundreds of thousands of turns, and nothing else can go on: does it end?"
    return Waiting(lambda: False, "the end of its loop", at, lambda: hint, spins=True, turns=COMPUTED)


_COMPUTING = ("arith.", "math.", "index.", "gpu.", "nvvm.shfl", "nvvm.vote", "nvvm.redux", "nvvm.read.ptx.sreg")


def reads(loop: Any, condition: Any) -> bool:
    """Whether what decides when ``loop`` ends may come from memory, or from what else others change, in it."""
    pending, seen = [condition], set()
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
            pending += _handed_over(op, number, is_argument)
        elif op.name.startswith(_COMPUTING):
            pending += list(op.operands)
        else:
            return True
    return False


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


def unchanged(new: Any, old: Any) -> bool:
    """Whether two values have the same bits."""
    if new is old:
        return True
    if not isinstance(new, (int, float, np.generic, np.ndarray)) or new.__class__ is not old.__class__:
        return False
    return np.asarray(new).tobytes() == np.asarray(old).tobytes()


_BRANCHES = ("scf.if", "cf.cond_br")


def decided(value: Any) -> Where | None:
    """Where a loaded value decides whether a warp goes on: the loop or branch whose condition is made of it. None
    where nothing is decided by it, or not here: a value that a loop or a branch hands on is not followed."""
    pending, seen = [value], set()
    while pending:
        one = pending.pop(0)
        for use in one.uses:
            user, number = use.owner.operation, use.operand_number
            if user.name == "scf.condition" and number == 0:
                return where(user.parent)
            if user.name in _BRANCHES and number == 0:
                return where(user)
            if user.name == "scf.while":
                pending.append(user.regions[0].blocks[0].arguments[number])
            elif user not in seen and not len(user.regions):
                seen.add(user)
                pending += list(user.results)
    return None
