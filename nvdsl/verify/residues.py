"""What is known of an integer whose value isn't: its lowest bits.

`block * 64 + 8` may be anything, but its lowest six bits are those of 8. A residue is ``(bits, value)``: of the
integer's lowest bits, as many as ``bits`` (at most `BITS`) are known, and they are those of ``value`` (an int, or an
array with one element for each thread). They are kept by sums, differences and products, in any width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.walk import defining, yielded
from nvdsl.mlir import ir
from nvdsl.values import extents
from nvdsl.verify.threads import Threads

BITS = 8
"""More than any alignment asks for that is measured in elements."""

_UNKNOWN = (0, 0)
_SAME = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci")

Residue = tuple[int, Any]


class Residues:
    """Of the integers of the kernel that ``threads`` runs."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._memory: dict[int, Residue] = {}

    def of(self, value: Any) -> Residue:
        """The lowest bits of ``value``, in each round of the loops around it."""
        key = hash(value)
        if key not in self._memory:
            known = self._threads.of(value)
            self._memory[key] = self._find(value) if known is None else (BITS, known)
        return self._memory[key]

    def _find(self, value: Any) -> Residue:
        op = defining(value)
        if op is None:
            return self._argument(value)
        if op.name in _SAME:
            bits, low = self.of(op.operands[0])
            return _width(op.operands[0], bits), low
        if op.name in ("arith.select", "scf.if"):
            number = ir.OpResult(value).result_number
            branches = list(op.operands)[1:] if op.name == "arith.select" else [yielded(r)[number] for r in op.regions]
            return _either(*map(self.of, branches))
        compute = _COMPUTE.get(op.name)
        return compute(*map(self.of, op.operands)) if compute else _UNKNOWN

    def _argument(self, value: Any) -> Residue:
        """A loop's variable is its first value and some steps; an argument is a multiple of what it promises."""
        op, number = value.owner.owner.operation, ir.BlockArgument(value).arg_number
        if op.name == "func.func":
            multiple = extents.multiple_of(value)
            return min((multiple & -multiple).bit_length() - 1, BITS), 0
        if op.name != "scf.for" or number:
            return _UNKNOWN
        first, step = self.of(op.operands[0]), self.of(op.operands[2])
        return _sum(first, _product(step, _UNKNOWN))


def _sum(a: Residue, b: Residue) -> Residue:
    return min(a[0], b[0]), a[1] + b[1]


def _difference(a: Residue, b: Residue) -> Residue:
    return min(a[0], b[0]), a[1] - b[1]


def _product(a: Residue, b: Residue) -> Residue:
    """Zeros at the end of one factor add to what is known of the other."""
    bits = min(a[0] + _zeros(b), b[0] + _zeros(a), BITS)
    return bits, a[1] * b[1] if bits else 0


def _shifted(a: Residue, by: Residue) -> Residue:
    if by[0] < BITS or isinstance(by[1], np.ndarray):
        return _UNKNOWN
    return _product(a, (BITS, 1 << by[1])) if by[1] < BITS else (BITS, 0)


def _masked(a: Residue, b: Residue) -> Residue:
    """Zeros at the end of one stay zeros, whatever the other is."""
    bits = max(min(a[0], b[0]), _zeros(a), _zeros(b))
    return bits, a[1] & b[1] & _low(min(a[0], b[0]))


def _either(a: Residue, b: Residue) -> Residue:
    for bits in range(min(a[0], b[0]), 0, -1):
        if np.all((a[1] - b[1]) & _low(bits) == 0):
            return bits, a[1]
    return _UNKNOWN


def _zeros(a: Residue) -> int:
    """How many of the lowest bits are 0 in all threads."""
    bits = 0
    while bits < a[0] and not np.any(a[1] >> bits & 1):
        bits += 1
    return bits


def _low(bits: int) -> int:
    return (1 << bits) - 1


def _width(value: Any, bits: int) -> int:
    return min(bits, value.type.width) if isinstance(value.type, ir.IntegerType) else bits


_COMPUTE = {
    "arith.addi": _sum, "arith.subi": _difference, "arith.muli": _product, "arith.shli": _shifted,
    "arith.andi": _masked,
}  # fmt: skip
