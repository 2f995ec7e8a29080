"""Addresses of memrefs, for the instructions that take pointers rather than memrefs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, llvm, memref, scf
from nvdsl.values import dtypes
from nvdsl.values.dtypes import from_ir
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Bool, Int, Pointer

GENERIC, GLOBAL, SHARED, SHARED_CLUSTER = 0, 1, 3, 7
"""LLVM NVPTX address spaces (shared::cta is 3, shared::cluster is 7)."""


def pointer_type(space: int) -> ir.Type:
    return ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")


def i32(value: Int) -> Value:
    """``value`` (int or traced integer of any width) as an i32 value."""
    require_integer(value)
    return dtypes.i32(value)


def index(value: Int) -> Value:
    """``value`` (int or traced integer of any width) as an index value."""
    require_integer(value)
    return dtypes.index(value)


def require_integer(value: object) -> None:
    """Raises TraceError for a float, and for a vector. A conversion would cut a float silently, where an index, a count
    or a number of bytes stands."""
    if isinstance(value, Value) and value.shape:
        raise trace_error(
            f"{value.shape[0]} numbers where one integer belongs",
            rule="indices, coordinates, counts and numbers of bytes are integers",
            fix="v[0] is the first element of a vector",
        )
    if isinstance(value, float | np.floating) or isinstance(value, Value) and value.dtype.is_float:
        raise trace_error(
            f"{f'a traced {value.dtype.name}' if isinstance(value, Value) else value} where an integer belongs",
            rule="indices, coordinates, counts and numbers of bytes are integers",
            fix="divide integers with //, or convert with nv.i32(x), which rounds toward zero",
        )


def condition(value: Bool) -> Value:
    """``value``, a Python bool or a traced one, as an i1 value."""
    value = as_value(value)
    if str(value.type) != "i1":
        raise trace_error(
            f"a condition of type {value.dtype.name}",
            rule="a condition, or a predicate, is a bool (i1)",
            fix="compare it: `x != 0`",
        )
    return value


def predicate(value: Bool | None) -> Value | None:
    """``None``, or a condition as an i1 value."""
    return None if value is None else condition(value)


PREDICATED = "nvdsl.predicated"
"""The attribute of an ``scf.if`` that `under` made: its one side effect becomes a predicated instruction."""


@contextmanager
def under(value: Bool | None) -> Iterator[None]:
    """What is emitted in this context runs where the condition ``value`` holds; always if it is None.

    It is one side effect, with what makes its operands: where it can, the lowering makes it one predicated instruction.
    """
    if value is None:
        yield
        return
    branch = scf.IfOp(condition(value))
    branch.operation.attributes[PREDICATED] = ir.UnitAttr.get()
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.yield_([])


def base_address(ref: ir.Value, space: int = SHARED) -> Pointer:
    """Pointer to a memref's first element."""
    as_index = memref.extract_aligned_pointer_as_index(ref)
    as_integer = arith.index_cast(ir.IntegerType.get_signless(64), as_index)
    return byte_offset(llvm.inttoptr(pointer_type(space), as_integer), _offset_of_view(ref))


def _offset_of_view(ref: ir.Value) -> Int:
    """Bytes from a memref's aligned pointer, which its views share, to its first element."""
    ty = ir.MemRefType(ref.type)
    offset = ty.get_strides_and_offset()[1]
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        offset = memref.ExtractStridedMetadataOp(ref).offset
    return offset * from_ir(ty.element_type).bytes


def element_address(array: ir.Value, keys: Sequence[Int], strides: Sequence[int], space: int = SHARED) -> Pointer:
    """Pointer to the element ``keys`` of a memref, whose ``strides`` are in elements."""
    steps = [index(key) * stride for key, stride in zip(keys, strides, strict=True)]
    return address_of(array, sum(steps[1:], steps[0]) * from_ir(array.type.element_type).bytes, space)


def byte_offset(pointer: Pointer, offset: Int) -> Pointer:
    """``pointer + offset`` bytes; ``offset`` is an int or a traced integer, of 64 bits if it is index."""
    if isinstance(offset, int) and offset == 0:
        return pointer
    i8 = ir.IntegerType.get_signless(8)
    static = [offset] if isinstance(offset, int) else [-(2**31)]  # LLVM's marker for "dynamic"
    dynamic = [] if isinstance(offset, int) else [_integer(offset)]
    return llvm.getelementptr(pointer.type, pointer, dynamic, static, i8, None)


def _integer(value: Value) -> Value:
    if isinstance(value.type, ir.IndexType):
        return arith.index_cast(ir.IntegerType.get_signless(64), value)
    return i32(value)


def address_of(ref: ir.Value, byte: Int = 0, space: int = SHARED) -> Pointer:
    """Pointer to byte ``byte`` of a memref's buffer."""
    return byte_offset(base_address(ref, space), byte)
