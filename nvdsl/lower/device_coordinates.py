"""Debug mode: the coordinates of TMA copies, of which those that the GPU takes for an illegal instruction are reported.

Coordinates out of bounds are legal, and not looked at: the hardware clips the box.
"""

from __future__ import annotations

from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir import tensor_copies
from nvdsl.ir.location import where
from nvdsl.ir.tensor_copies import TensorCopy
from nvdsl.ir.walk import walk
from nvdsl.lower import debug_ptx
from nvdsl.lower.device_log import Site
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.lower.watchdog import add_site, to_i32, to_i64
from nvdsl.mlir import ir
from nvdsl.values.elements import ELEMENTS

_EQUAL, _NOT_LESS = 0, 5  # arith's CmpIPredicate: eq, sge


def check_coordinates(device: Any, kernels: Kernels, _: Any) -> None:
    """Each copy stops the kernel where its innermost coordinate is no multiple of 16 bytes, and where it goes to global
    memory at a negative coordinate."""
    for function, kernel in functions(device, kernels):
        for op in walk(function):
            copy = tensor_copies.of(op) if op.name in tensor_copies.COPIES else None
            if copy is not None:
                with ir.InsertionPoint(op), op.location:
                    _check(op, copy, kernel)


def _check(op: Any, copy: TensorCopy, kernel: Kernel) -> None:
    element = str(copy.box.element_type)
    multiple = arch.TMA_COORDINATE_MULTIPLE // ELEMENTS[element].bytes
    column = copy.coordinates[0]
    left = new("arith.andi", column.type, column, _constant(column, multiple - 1))
    holds = _compare(_EQUAL, left)
    for coordinate in copy.coordinates if copy.out else ():
        holds = new("arith.andi", holds.type, holds, _compare(_NOT_LESS, coordinate))
    if copy.predicate is not None:
        skipped = new("arith.xori", holds.type, copy.predicate, _constant(copy.predicate, 1))
        holds = new("arith.ori", holds.type, holds, skipped)
    types = tuple(str(x.type) for x in copy.coordinates)
    site = Site("illegal-copy", where(op), copy.what, element, count=multiple, types=types)
    values = [to_i64(x) for x in copy.coordinates]
    debug_ptx.emit(debug_ptx.require(add_site(kernel, site), len(values)), to_i32(holds), *values)


def _compare(predicate: int, value: Any) -> Any:
    """``value`` compared with 0."""
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
    return new("arith.cmpi", ir.IntegerType.get_signless(1), value, _constant(value, 0), predicate=number)


def _constant(like: Any, value: int) -> Any:
    return new("arith.constant", like.type, value=ir.IntegerAttr.get(like.type, value))
