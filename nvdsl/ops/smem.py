"""Dynamic shared memory, and the warp's matrix loads and stores.

All shared memory of a kernel is one dynamic block (up to 232,448 bytes), aligned to 1024 bytes so that
every swizzle's pattern starts where its tile does. mbarriers live behind the data in the same block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, llvm, memref, nvvm
from nvdsl.ops.pointer import address_of, i32, index
from nvdsl.ops.ptx import unpack
from nvdsl.values import scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Int, Pointer

if TYPE_CHECKING:
    from nvdsl.lang.array import Array

DYNAMIC = ir.ShapedType.get_dynamic_size()


def smem_space() -> ir.Attribute:
    """The memory space attribute of shared memory."""
    return ir.Attribute.parse("#gpu.address_space<workgroup>")


def get_dynamic_shared_memory(
    shape: Sequence[int] | None = None, ty: ir.Type | DType | None = None, offset: Int = 0
) -> Array:
    """The block's dynamic shared memory as bytes, or a dense view of it.

    ``shape`` and ``ty`` (an `nvdsl.DType`, or an ir.Type): the view's elements; ``offset``: its start in bytes, an int
    or a traced integer. A view of a DType without a sign reads its elements without one. Raises TraceError for another
    type.
    """
    scope.current("get_dynamic_shared_memory")
    i8 = ir.IntegerType.get_signless(8)
    dynamic = gpu.dynamic_shared_memory(
        ir.MemRefType.get((DYNAMIC,), i8, memory_space=smem_space())
    )
    if shape is None:
        return dynamic
    dtype, element = (ty, ty.ir) if isinstance(ty, DType) else (None, ty)
    if not isinstance(element, ir.Type):
        raise trace_error(
            f"a view of {ty!r} of shared memory",
            rule="its elements are of an nvdsl type, or of an ir.Type",
            fix="get_dynamic_shared_memory((n,), nv.f32, offset)",
        )
    found = memref.view(ir.MemRefType.get(list(shape), element, memory_space=smem_space()), dynamic, index(offset), [])
    return found if dtype is None else found.remember_dtype(dtype)


def smem_pointer(offset: Int = 0) -> Pointer:
    """Address of byte ``offset`` of the block's dynamic shared memory, ``!llvm.ptr<3>``."""
    return address_of(get_dynamic_shared_memory(), offset)


def smem_address(offset: Int = 0) -> Value:
    """The same address as an i32 value (a shared::cta window offset)."""
    return i32(memref.extract_aligned_pointer_as_index(get_dynamic_shared_memory())) + offset


def _matrix_attributes() -> tuple[ir.Attribute, ir.Attribute]:
    return (
        ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m = 8, n = 8>"),
        ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>"),
    )


def stmatrix(pointer: Pointer, registers: Sequence[Value], *, transpose: bool = False) -> None:
    """Store 1, 2 or 4 8x8 matrices of 16-bit elements from a warp (``stmatrix.sync.aligned.m8n8.xN.b16``).

    ``pointer`` (``!llvm.ptr<3>``, 16-byte aligned): lane ``8*i + r`` gives the address of row ``r`` of matrix ``i``.
    ``registers``: i32 values; register ``i`` of lane ``l`` holds row ``l // 4``, columns ``l % 4 * 2`` and ``+1``.
    """
    _check_count(len(registers), "stmatrix")
    _check_pointer(pointer, "stmatrix")
    for register in map(as_value, registers):
        if str(register.type) != "i32":
            raise trace_error(
                f"stmatrix of a register of type {register.dtype.name}",
                rule="a register is an i32 that holds two 16-bit elements (PTX ISA, stmatrix)",
                fix="pack two with nv.pack_pair(low, high, nv.f16)",
            )
    shape, element = _matrix_attributes()
    layout = nvvm.MMALayout.col if transpose else nvvm.MMALayout.row
    nvvm.stmatrix(pointer, list(registers), layout, shape, element)


def ldmatrix(pointer: Pointer, count: int, *, transpose: bool = False) -> list[Value]:
    """Load 1, 2 or 4 8x8 matrices of 16-bit elements into a warp (``ldmatrix.sync.aligned.m8n8.xN.b16``).

    Addresses and registers as in `stmatrix`. Returns ``count`` i32 values.
    """
    _check_count(count, "ldmatrix")
    _check_pointer(pointer, "ldmatrix")
    shape, element = _matrix_attributes()
    layout = nvvm.MMALayout.col if transpose else nvvm.MMALayout.row
    i32_ = ir.IntegerType.get_signless(32)
    result = i32_ if count == 1 else llvm.StructType.get_literal([i32_] * count)
    loaded = nvvm.LdMatrixOp(pointer, count, layout, shape, element, results=[result]).result
    return [loaded] if count == 1 else unpack(loaded)


def _check_pointer(pointer: Pointer, name: str) -> None:
    if str(getattr(pointer, "type", type(pointer).__name__)) != "!llvm.ptr<3>":
        raise trace_error(
            f"{name} at {pointer!r}",
            rule=f"each lane passes the address of a row in shared memory, !llvm.ptr<3> (PTX ISA, {name})",
            fix=f"tile.{name}(...) takes a row and a column of a tile; tile.pointer(byte) is an address in it",
        )


def _check_count(count: int, name: str) -> None:
    if count not in (1, 2, 4):
        raise trace_error(
            f"{name} of {count} matrices",
            rule=f"{name} moves 1, 2 or 4 matrices (PTX ISA, {name})",
            fix="split the registers into groups of 4",
        )
