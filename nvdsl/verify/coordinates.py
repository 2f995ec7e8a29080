"""TMA copies at coordinates where there can be none: each would be an illegal instruction.

The innermost coordinate is a multiple of 16 bytes, also of a box that is all outside of the array; what is not one is
found where it is known, or where its lowest bits are (`nvdsl.verify.residues`). Stores and reductions have no negative
coordinate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.ir import tensor_copies
from nvdsl.ir.location import where
from nvdsl.ir.tensor_copies import TensorCopy
from nvdsl.values import dtypes
from nvdsl.verify import certain
from nvdsl.verify.context import Context, contexts
from nvdsl.verify.program import Node, Program
from nvdsl.verify.reach import Reach
from nvdsl.verify.residues import Residue, Residues

_ILLEGAL = "else it is an illegal instruction on the GPU (measured on an H200: docs/hardware.md)"


def check(program: Program) -> None:
    for context in contexts(program):
        lowest = Residues(context.threads)
        for node in context.kernel.find(*tensor_copies.COPIES):
            _check_copy(context, node, lowest)


def _check_copy(context: Context, node: Node, lowest: Residues) -> None:
    copy = tensor_copies.of(node.op)
    if copy is None:
        return
    reach = context.reaches.of(node, copy.predicate)
    if 0 in reach.trips or not reach.lanes.any():
        return
    for number, coordinate in enumerate(copy.coordinates):
        aligned = number > 0 or _is_multiple(copy, lowest.of(coordinate))
        if aligned and not copy.out:
            continue  # what `certain.values` finds takes longer than all else here
        at = certain.values(context, node, coordinate, reach)
        if not aligned:
            _check_multiple(node, copy, at, lowest.of(coordinate), reach)
        if copy.out:
            _check_sign(node, copy, number, at, reach)


def _is_multiple(copy: TensorCopy, residue: Residue) -> bool:
    """Whether the lowest bits say that the coordinate is right, whatever it is."""
    multiple = arch.TMA_COORDINATE_MULTIPLE // dtypes.from_ir(copy.box.element_type).bytes
    bits, low = residue
    return 1 << bits >= multiple and not np.any(np.asarray(low) % multiple)


def _check_multiple(node: Node, copy: TensorCopy, at: list[Any], residue: Residue, reach: Reach) -> None:
    dtype = dtypes.from_ir(copy.box.element_type)
    multiple = arch.TMA_COORDINATE_MULTIPLE // dtype.bytes
    bits, low = residue
    known = min(1 << bits, multiple)
    wrong = certain.first(at, lambda x: x % multiple != 0, reach)
    left = certain.first([low], lambda x: x % known != 0, reach)
    if wrong is not None:
        found = f"{wrong}, {wrong * dtype.bytes:,} bytes of {dtype.name}"
    elif left is not None:
        found = f"always {left % known} {dtype.name} past a multiple of {known}"
    else:
        return
    raise VerifyError(
        f"the innermost coordinate of this {copy.what} is {found}",
        where=where(node.op),
        rule=f"it is a multiple of {arch.TMA_COORDINATE_MULTIPLE} bytes, here of {multiple} elements, {_ILLEGAL}",
        fix=f"start the box at the multiple of {multiple} before it, or copy with ordinary loads and stores",
    )


def _check_sign(node: Node, copy: TensorCopy, number: int, at: list[Any], reach: Reach) -> None:
    wrong = certain.first(at, lambda x: x < 0, reach)
    if wrong is not None:
        raise VerifyError(
            f"coordinate {number} of this {copy.what}, the innermost being 0, is {wrong}",
            where=where(node.op),
            rule=f"what goes to global memory has no negative coordinate, {_ILLEGAL}",
            fix="start the box inside of the array: a load may begin before it, a store or reduction may not",
        )
