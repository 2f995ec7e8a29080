"""Stores of the threads where a predicate holds: ``x.store(i, value, predicate=p)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import under
from nvdsl.values import arith, dtypes
from nvdsl.values.traced import Value, as_value, stored
from nvdsl.values.typing import Bool, Index, Number

if TYPE_CHECKING:
    from nvdsl.lang.atomics import HasElements


def store(target: HasElements, key: Index, value: Number, *, predicate: Bool | None = None) -> None:
    """``target[key] = value`` by the threads where ``predicate`` holds: one predicated instruction (``@p st``).

    Beside ``if p: target[key] = value`` there is no branch, which at the end of a persistent loop takes ring positions
    out of uniform registers. The index is checked where the predicate holds. A vector goes to neighbouring elements as
    one access, aligned as `Array.vector` says. Raises TraceError as the subscript and `Array.store_vector` do.
    """
    given: Value = stored(value, target.dtype)
    count = given.shape[0] if given.shape else 1
    dtype = target.dtype
    if dtype is dtypes.bool_:
        given = dtypes.u8(given)
    elif not dtype.arithmetic:  # LLVM has no 8-bit floats
        given = as_value(arith.emit("arith.bitcast", arith.like(given.type, dtypes.u8.ir), given))
    with under(predicate):
        llvm.StoreOp(given, target._element_place(key, count), alignment=count * dtype.bytes)
