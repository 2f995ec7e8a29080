"""A traced integer as a sum of multiples: ``block * 64 + 8`` is 64 times something unknown, and 8.

What is known of an index while tracing: by which number two of them differ (the extent of ``x[row : row + 32]``), and
what an index is a multiple of (the alignment of an access).
"""

from __future__ import annotations

from math import gcd
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.ir.walk import constant, defining, identity
from nvdsl.mlir import ir
from nvdsl.values import extents

_PURE = ("arith.", "gpu.block_id", "gpu.thread_id", "gpu.cluster", "gpu.block_dim", "gpu.grid_dim", "nvvm.read.ptx.")
_SAME = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui")


@dataclass(frozen=True)
class Linear:
    """``constant`` plus, for each value, so many times it. ``terms``: what names a value -> (the value, how often)."""

    constant: int
    terms: dict[Any, tuple[Any, int]]

    def plus(self, other: Linear, times: int = 1) -> Linear:
        terms = dict(self.terms)
        for key, (value, count) in other.terms.items():
            total = terms.get(key, (value, 0))[1] + count * times
            terms[key] = (value, total)
        return Linear(self.constant + other.constant * times, {k: t for k, t in terms.items() if t[1]})

    def times(self, factor: int) -> Linear:
        return Linear(0, {}).plus(self, factor)

    def step(self) -> int:
        """All values that it can have differ by multiples of this; 0 where it is known."""
        return gcd(*(multiple_of(value) * count for value, count in self.terms.values()))


def linear(value: Any) -> Linear:
    """Of an int or a traced integer, through sums and products with constants."""
    if not isinstance(value, ir.Value):
        return Linear(int(value), {})
    known = constant(value)
    if known is not None:
        return Linear(known, {})
    op = defining(value)
    if op is not None:
        if op.name in _SAME:
            return linear(op.operands[0])
        if op.name in ("arith.addi", "arith.subi"):
            left, right = map(linear, op.operands)
            return left.plus(right, 1 if op.name == "arith.addi" else -1)
        if op.name in ("arith.muli", "arith.shli"):
            left, right = map(linear, op.operands)
            if op.name == "arith.shli" and not right.terms and 0 <= right.constant < 64:
                return left.times(1 << right.constant)
            if op.name == "arith.muli" and not (left.terms and right.terms):
                return right.times(left.constant) if right.terms else left.times(right.constant)
    return Linear(0, {_name(value, 4): (value, 1)})


def multiple_of(value: Any) -> int:
    """A number that ``value``, which `linear` does not take apart, is a multiple of: 1 where nothing is known."""
    op = defining(value)
    if op is None:
        loop = value.owner.owner.operation
        if loop.name == "func.func":
            return extents.multiple_of(value)
        if loop.name != "scf.for" or ir.BlockArgument(value).arg_number:
            return 1
        return gcd(*(x for bound in (0, 2) for x in _parts(loop.operands[bound])))
    if op.name == "arith.muli":
        left, right = (gcd(*_parts(x)) for x in op.operands)
        return left * right
    if op.name == "arith.andi":  # x & -8
        return max((mask & -mask for mask in map(constant, op.operands) if mask), default=1)
    return 1


def greatest_divisor(value: Any) -> int:
    """The greatest number that an int or a traced integer is known to be a multiple of; 0 for 0."""
    return gcd(*_parts(value))


def known_divisor(value: Any) -> int:
    """A number that an int or a traced integer is a multiple of, found in a tenth of the time: what two terms have in
    common is not seen, as in ``3 * x + 5 * x``."""
    if not isinstance(value, ir.Value):
        return int(value)
    op = defining(value)
    name = op.name if op is not None else ""
    if name == "arith.constant":
        return constant(value) or 0
    if name in _SAME:
        return known_divisor(op.operands[0])  # type: ignore[union-attr]
    if name in ("arith.addi", "arith.subi", "arith.muli"):
        left, right = map(known_divisor, op.operands)  # type: ignore[union-attr]
        return left * right if name == "arith.muli" else gcd(left, right)
    if name == "arith.select":
        return gcd(*map(known_divisor, list(op.operands)[1:]))  # type: ignore[union-attr]
    if name == "arith.shli":
        shift = constant(op.operands[1])  # type: ignore[union-attr]
        return known_divisor(op.operands[0]) << shift if shift is not None and 0 <= shift < 64 else 1  # type: ignore[union-attr]
    return multiple_of(value)


def _parts(value: Any) -> tuple[int, int]:
    known = linear(value)
    return known.constant, known.step()


def _name(value: Any, depth: int) -> Any:
    """The same for two values that the same pure ops compute of the same values: each use of an id is an op."""
    op = defining(value)
    if op is None or not depth or not op.name.startswith(_PURE):
        return identity(value)
    attributes = op.attributes
    return op.name, *((name, attributes[name]) for name in attributes), *(_name(x, depth - 1) for x in op.operands)
