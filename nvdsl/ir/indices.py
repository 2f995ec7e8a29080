"""Which sums and products of i32 are not meant to wrap around: those that become an index, a coordinate or a loop's
bound, by sums and products alone, are compared with an index, or are stored in 64 bits. Hashes and random numbers are
meant to."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import identity

SIGNS = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}
_LINEAR = (*SIGNS, "arith.extsi")
_COMPARED = (*_LINEAR, "arith.floordivsi", "arith.divsi", "arith.remsi", "arith.andi", "arith.shrsi", "arith.select")
_PLACES = ("arith.index_cast", "llvm.getelementptr", "nvvm.cp.async.bulk.tensor", "nvvm.cp.async.bulk.prefetch.tensor")
_STORES = ("memref.store", "llvm.store", "llvm.atomicrmw")
_SIGNED = (2, 3, 4, 5)  # arith.cmpi's slt, sle, sgt, sge

_THROUGH = {"place": _LINEAR, "compared": _COMPARED, "stored": _LINEAR}
"""What a value becomes -> the operations on the way."""

Found = dict[tuple[Any, str], bool]
"""What was found of the values of a module."""


def is_of_i32(op: Any) -> bool:
    """Whether ``op`` is a sum or a product of i32, which `is_place` and `is_stored_wide` are asked about."""
    return op.name in SIGNS and str(op.results[0].type) == "i32"


def is_place(op: Any, found: Found) -> bool:
    """Whether the result is meant as a place."""
    return _leads(op.results[0], "place", found)


def is_stored_wide(op: Any, found: Found) -> bool:
    """Whether the result is stored in 64 bits."""
    return _leads(op.results[0], "stored", found)


def _leads(value: Any, to: str, found: Found) -> bool:
    """Whether ``value`` becomes what ``to`` says."""
    key = identity(value), to
    known = found.get(key)
    if known is None:
        known = found[key] = any(_is_use(use.owner, value, to, found) for use in value.uses)
    return known


def _is_use(user: Any, value: Any, to: str, found: Found) -> bool:
    if user.name in _THROUGH[to]:
        return _leads(user.results[0], to, found)
    if to == "stored":
        return user.name in _STORES and str(value.type) == "i64"
    if user.name == "arith.cmpi" and to == "place" and int(user.attributes["predicate"]) in _SIGNED:
        return any(_leads(x, "compared", found) for x in user.operands if identity(x) != identity(value))
    if user.name == "scf.for":
        return identity(value) in map(identity, list(user.operands)[:3])  # a bound or the step
    return user.name.startswith(_PLACES)
