"""How large a traced index can become, where the launch and the constants around it say so.

`largest` is of numbers that are never negative: ids of threads and blocks, loops' variables, and what sums, products,
quotients, remainders and minima make of them.
"""

from __future__ import annotations

import re
from typing import Any

from nvdsl.ir.linear import linear
from nvdsl.ir.operands import launch_sizes
from nvdsl.ir.walk import ancestors, constant, defining
from nvdsl.mlir import ir

_DEPTH = 16
"""Operations that are looked through: what is computed in more is taken for unknown."""


def largest(value: Any, depth: int = _DEPTH) -> int | None:
    """The largest number that ``value``, an int or a traced integer, can be. None where it isn't known, or where it
    may be negative."""
    known = linear(value)
    total = known.constant
    for term, count in known.terms.values():
        one = _largest(term, depth) if depth else None
        if one is None or count < 0:
            return None
        total += count * one
    return total if known.constant >= 0 else None


def _largest(value: Any, depth: int) -> int | None:
    op = defining(value)
    if op is None:
        return _of_argument(value, depth)
    ids = {"gpu.block_id": 0, "gpu.thread_id": 1, "gpu.cluster_block_id": 2}
    if op.name in ids or op.name == "nvvm.read.ptx.sreg.cluster.ctarank":
        return _of_id(op, ids.get(op.name))
    if op.name == "nvvm.shfl.sync":  # a value that some lane has
        return largest(op.operands[1], depth - 1)
    if op.name == "arith.select":
        both = [largest(x, depth - 1) for x in list(op.operands)[1:]]
        return None if None in both else max(both)  # type: ignore[type-var]
    if op.name not in _RULES:
        return None
    a, b = op.operands
    return _RULES[op.name](largest(a, depth - 1), largest(b, depth - 1), constant(b))


def _least(a: int | None, b: int | None, _: Any) -> int | None:
    """Of two that are both known not to be negative, or one of them a mask."""
    return a if b is None else b if a is None else min(a, b)


def _quotient(a: int | None, _: Any, divisor: int | None) -> int | None:
    return None if a is None or not divisor or divisor < 0 else a // divisor


def _remainder(a: int | None, _: Any, divisor: int | None) -> int | None:
    return None if a is None or not divisor or divisor < 0 else min(a, divisor - 1)


def _shifted(a: int | None, _: Any, count: int | None) -> int | None:
    return None if a is None or count is None or count < 0 else a >> count


def _product(a: int | None, b: int | None, _: Any) -> int | None:
    return None if a is None or b is None else a * b


def _both(a: int | None, b: int | None, _: Any) -> int | None:
    return None if a is None or b is None else min(a, b)


_RULES = {
    "arith.andi": _least, "arith.minsi": _both, "arith.minui": _least, "arith.divui": _quotient,
    "arith.divsi": _quotient, "arith.remui": _remainder, "arith.remsi": _remainder, "arith.shrui": _shifted,
    "arith.shrsi": _shifted, "arith.muli": _product,
}  # fmt: skip


def _of_argument(value: Any, depth: int) -> int | None:
    """A loop's variable, from a first one on that is not negative."""
    op = value.owner.owner.operation
    if op.name != "scf.for" or ir.BlockArgument(value).arg_number:
        return None
    first, end = largest(op.operands[0], depth - 1), largest(op.operands[1], depth - 1)
    return None if first is None or end is None else max(end - 1, 0)


def _of_id(op: Any, group: int | None) -> int | None:
    """An id of the grid (0), the block (1), or a cluster (2: along an axis; None: its rank)."""
    launch = next((one for one, _ in ancestors(op) if one.name == "gpu.launch"), None)
    if launch is None:
        return None
    if group is None:
        sizes = [constant(size) for size in launch_sizes(launch)[2]]
        if None in sizes:
            return None
        total = 1
        for size in sizes:
            total *= size or 1
        return total - 1
    sizes = [constant(size) for size in launch_sizes(launch)[group]]
    axis = re.search(r"dim ([xyz])", str(op.attributes["dimension"]))
    size = sizes["xyz".index(axis[1])] if axis and sizes else 1 if group == 2 else None
    return None if size is None else size - 1
