"""How a value changes with another one that it is computed from."""

from __future__ import annotations

import math

from nvdsl.ir.walk import defining, walk, yielded
from nvdsl.mlir import ir


def has_slope_one(result: ir.Value, of: ir.Value, *, shifted: bool = True) -> bool:
    """Whether ``result`` is ``of``, plus or minus what does not depend on it if it may be ``shifted``, or -infinity:
    however it is chosen, as long as the choice does not depend on it, either."""
    if _same(result, of):
        return True
    op = defining(result)
    if op is None:
        return False
    if shifted and op.name in ("arith.addf", "arith.subf"):
        one, other = op.operands
        if op.name == "arith.addf" and _depends(other, of):
            one, other = other, one
        return has_slope_one(one, of) and not _depends(other, of)
    if op.name == "arith.select":
        condition, *branches = op.operands
    elif op.name == "scf.if":
        condition, number = op.operands[0], ir.OpResult(result).result_number
        branches = [yielded(region)[number] for region in op.regions]
    else:
        return False
    return not _depends(condition, of) and all(
        _is_minus_infinity(x) or has_slope_one(x, of, shifted=shifted) for x in branches
    )


def _same(one: ir.Value, other: ir.Value) -> bool:
    return bool(ir.Value.__eq__(one, other))  # == of traced values would be a comparison in the kernel


def _is_minus_infinity(value: ir.Value) -> bool:
    op = defining(value)
    if op is None or op.name != "arith.constant":
        return False
    constant = op.attributes["value"]
    return isinstance(constant, ir.FloatAttr) and constant.value == -math.inf


def _depends(value: ir.Value, of: ir.Value) -> bool:
    """Arguments of blocks depend on nothing: those of a loop are of the turn before."""
    seen, left = set(), [value]
    while left:
        one = left.pop()
        if _same(one, of):
            return True
        op = defining(one)
        if op is not None and op not in seen:
            seen.add(op)
            left += [x for each in walk(op) for x in each.operands]
    return False
