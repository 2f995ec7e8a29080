"""Device memory of a host function's own: between its kernels, gone when the call is."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.lang.array import Array
from nvdsl.lang.extents import is_static, shaped, shown
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, memref
from nvdsl.values import dtypes, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, const
from nvdsl.values.typing import Int

ARBITRARY = "nvdsl.arbitrary"
"""The attribute of a gpu.alloc whose contents are read before they are written."""
IN_TURN = "nvdsl.in_turn"
"""The attribute of a gpu.alloc to which threads add in an order that does not depend on the schedule."""
RESTORED = "nvdsl.restored"
"""The attribute of a gpu.memset of what is zero again at the end of the call."""


def empty(
    shape: Int | Sequence[Int], dtype: DType, *, arbitrary: bool = False, in_turn: bool = False
) -> Array:  # fmt: skip
    """A new array in device memory, in a host function: ``shape`` in elements, C-contiguous, not initialized.

    Reading an element that no kernel wrote, or adding to it, is an error in the simulator. ``arbitrary``: the kernels
    are right whatever the memory holds; the simulator then fills it with random bytes. ``in_turn``: sums of floats in
    it are the same bits each time, since a release and an acquire stand between two atomics, or bulk reductions, on one
    element; the simulator reports where none do.

    It is taken and given back in the order of the call's stream (``cuMemAllocAsync``), so there is no synchronization.
    It ends with the call. A call of torch or CuPy arrays like one before uses memory that is kept for its stream, up to
    64 MiB, so that it takes none. For rows that start at multiples of 16 bytes, as TMA needs them,
    make it wider and take a part: ``nv.empty((rows, 104), nv.f16)[:, :100]``.

    Extents may be traced values of the host function, named extents say. Raises TraceError in a kernel, and for a
    shape that is not of ints above 0 and traced integers.
    """
    array, memory = _empty("nv.empty", shape, dtype)
    for wanted, attribute in ((arbitrary, ARBITRARY), (in_turn, IN_TURN)):
        if wanted:
            memory.owner.attributes[attribute] = ir.UnitAttr.get()
    return array


def zeros(shape: Int | Sequence[Int], dtype: DType, *, restored: bool = False) -> Array:
    """The same as `empty`, but filled with zeros on the call's stream (``cuMemsetD8Async`` and its like).

    ``restored``: the kernels leave all of it as zeros, as a `TileQueue` leaves its counter. A call of torch or CuPy
    arrays like one before then takes such memory, and fills nothing. Its shape is of ints. The simulator checks it.
    """
    array, memory = _empty("nv.zeros", shape, dtype)
    if restored and not is_static(array.shape):
        raise trace_error(
            f"nv.zeros({shown(array.shape)}, restored=True)",
            rule="what is restored has a shape of ints: counters and flags",
            fix="leave out restored, or take as many as the largest problem has",
        )
    fill = gpu.MemsetOp(None, [], memory, const(0, dtype.ir))
    if restored:
        fill.attributes[RESTORED] = ir.UnitAttr.get()
    return array


def _empty(what: str, shape: Any, dtype: DType) -> tuple[Array, ir.Value]:
    """A new array, and its memory as the allocation gives it."""
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    _check(what, extents)
    if is_static(extents):
        array = memory = gpu.alloc(ir.MemRefType.get(list(extents), dtype.ir), None, [], [], [])
        array.remember_dtype(dtype)
    else:  # in 64 bits: the product of two extents may be beyond 32
        wide = [dtypes.index(n) for n in extents]
        steps = [math.prod(extents[k + 1 :]) if is_static(extents[k + 1 :]) else _product(wide[k + 1 :])
                 for k in range(len(extents))]  # fmt: skip
        kind = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], dtype.ir)
        memory = gpu.alloc(kind, None, [], [_product(wide)], [])
        first = memref.ReinterpretCastOp(ir.MemRefType.get([], dtype.ir), memory, [], [], [], [0], [], []).result
        array = shaped(first, dtype, extents, steps)
    return array, memory


def _product(values: Sequence[Value]) -> Value:
    return functools.reduce(operator.mul, values)


def _check(what: str, extents: tuple[Any, ...]) -> None:
    scope.outside(what, fix="make the array before the kernel; a block's shared memory is nv.smem")
    fits = all(_is_integer(n) if isinstance(n, Value) else isinstance(n, int) and n > 0 for n in extents)
    if not extents or not fits:
        raise trace_error(
            f"{what}({shown(extents)})",
            rule="a shape has ints above 0, and traced integers",
            fix="skip what has no elements in plain Python",
        )


def _is_integer(value: Value) -> bool:
    return not value.shape and value.dtype.kind in ("int", "index")
