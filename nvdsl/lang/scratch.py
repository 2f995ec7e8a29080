"""Device memory of a host function's own: between its kernels, gone when the call is."""

from __future__ import annotations

from nvdsl.errors import trace_error
from nvdsl.lang.array import Array
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu
from nvdsl.values import scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import const
from nvdsl.values.typing import Shape

ARBITRARY = "nvdsl.arbitrary"
"""The attribute of a gpu.alloc whose contents are read before they are written."""


def empty(shape: Shape, dtype: DType, *, arbitrary: bool = False) -> Array:
    """A new array in device memory, in a host function: ``shape`` in elements, C-contiguous, not initialized.

    Reading an element that no kernel wrote, or adding to it, is an error in the simulator. ``arbitrary``: the kernels
    are right whatever the memory holds; the simulator then fills it with random bytes.

    It is taken and given back in the order of the call's stream (``cuMemAllocAsync``), so it costs a few microseconds
    and no synchronization. It ends with the call. For rows that start at multiples of 16 bytes, as TMA needs them,
    make it wider and take a part: ``nv.empty((rows, 104), nv.f16)[:, :100]``.

    Raises TraceError in a kernel, and for a shape that is not of plain ints above 0.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    _check("nv.empty", shape, extents)
    memory = gpu.alloc(ir.MemRefType.get(list(extents), dtype.ir), None, [], [], [])
    if arbitrary:
        memory.owner.attributes[ARBITRARY] = ir.UnitAttr.get()
    made: Array = memory.remember_dtype(dtype)
    return made


def zeros(shape: Shape, dtype: DType) -> Array:
    """The same as `empty`, but filled with zeros on the call's stream (``cuMemsetD8Async`` and its like)."""
    memory = empty(shape, dtype)
    gpu.memset(None, [], memory, const(0, dtype.ir))
    return memory


def _check(what: str, shape: Shape, extents: tuple[int, ...]) -> None:
    scope.outside(what, fix="make the array before the kernel; a block's shared memory is nv.smem")
    if not extents or not all(isinstance(extent, int) and extent > 0 for extent in extents):
        raise trace_error(
            f"{what}({shape!r})", rule="a shape has ints above 0", fix="skip what has no elements in plain Python"
        )
