"""Bits of integers: how many are set, how many zeros come first, and all in reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.errors import TraceError, trace_error
from nvdsl.mlir import ir
from nvdsl.values import arith, dtypes
from nvdsl.values.elementwise import Elementwise, Many, of_each
from nvdsl.values.traced import Value, as_value, wrap


def popc(x: Value | Many) -> Any:
    """How many bits of the integer ``x`` are 1, an i32 (PTX ISA, ``popc``)."""
    return _of_integer(popc, x, lambda bits: dtypes.i32(_count("math.ctpop", bits)))


def clz(x: Value | Many) -> Any:
    """How many zeros stand before the highest 1 of the integer ``x``, an i32: all of its type's bits if it is 0 (PTX
    ISA, ``clz``). ``31 - nv.clz(x)`` is the place of the highest 1 of 32 bits, ``nv.clz(nv.brev(x))`` that of the
    lowest."""
    return _of_integer(clz, x, lambda bits: dtypes.i32(_count("math.ctlz", bits)))


def brev(x: Value | Many) -> Any:
    """The bits of the integer ``x`` in reverse order, of its type (PTX ISA, ``brev``)."""
    return _of_integer(brev, x, lambda bits: wrap(arith.intrinsic("llvm.bitreverse", bits.type, bits), bits.dtype))


def _count(name: str, x: Value) -> Value:
    return wrap(arith.emit(name, x.type, x), x.dtype)


def _of_integer(function: Callable[..., Any], x: Any, emit: Callable[[Value], Value]) -> Any:
    if isinstance(x, Elementwise):
        return of_each(function, x)
    if not isinstance(x, ir.Value):
        raise _no_bits(function.__name__, repr(x))
    value = as_value(x)
    value = dtypes.i64(value) if value.dtype is dtypes.index else value
    if value.dtype.kind != "int":
        raise _no_bits(function.__name__, value.dtype.name)
    return emit(value)


def _no_bits(name: str, what: str) -> TraceError:
    return trace_error(
        f"nv.{name} of {what}",
        rule=f"{name} takes a traced integer of 8 to 64 bits: how many it has decides the result",
        fix="write nv.u32(x); nv.bitcast(x, nv.u32) has the bits of a float",
    )
