"""Which sums and products of i32 are meant as places: what becomes an index, a coordinate or a bound of a loop, by sums
and products alone, or is compared with an index. Hashes and random numbers are meant to wrap around, these are not."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import identity

SIGNS = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}
_LINEAR = (*SIGNS, "arith.extsi")
_COMPARED = (*_LINEAR, "arith.floordivsi", "arith.divsi", "arith.remsi", "arith.andi", "arith.shrsi", "arith.select")
_PLACES = ("arith.index_cast", "llvm.getelementptr", "nvvm.cp.async.bulk.tensor", "nvvm.cp.async.bulk.prefetch.tensor")
_SIGNED = (2, 3, 4, 5)  # arith.cmpi's slt, sle, sgt, sge

Found = dict[tuple[Any, bool], bool]
"""What was found of the values of a module."""


def is_place(op: Any, found: Found) -> bool:
    """Whether the sum or product that ``op`` makes of i32 is meant as a place."""
    return op.name in SIGNS and str(op.results[0].type) == "i32" and _leads(op.results[0], _LINEAR, found)


def _leads(value: Any, through: tuple[str, ...], found: Found) -> bool:
    """Whether ``value`` becomes an index through operations called ``through``."""
    key = identity(value), through is _LINEAR
    known = found.get(key)
    if known is None:
        known = found[key] = any(_is_use(use.owner, value, through, found) for use in value.uses)
    return known


def _is_use(user: Any, value: Any, through: tuple[str, ...], found: Found) -> bool:
    if user.name in through:
        return _leads(user.results[0], through, found)
    if user.name == "arith.cmpi" and through is _LINEAR and int(user.attributes["predicate"]) in _SIGNED:
        return any(_leads(x, _COMPARED, found) for x in user.operands if identity(x) != identity(value))
    if user.name == "scf.for":
        return identity(value) in map(identity, list(user.operands)[:3])  # a bound or the step
    return user.name.startswith(_PLACES)
