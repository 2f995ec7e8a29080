"""Which accesses of a few contiguous elements at once the hardware has: their size, and where they may start."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd
from typing import TYPE_CHECKING, Any

from nvdsl.errors import trace_error
from nvdsl.ir.linear import Linear, greatest_divisor, known_divisor, linear
from nvdsl.mlir import ir
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.extents import constant_fix
from nvdsl.values.traced import Value, as_value, stored

if TYPE_CHECKING:
    from nvdsl.values.typing import Int

WIDEST = 16
"""Bytes of the widest load or store of a thread (PTX ISA, ld.v4.b32)."""

_ALIGNED = "an access of several elements is aligned to its size (PTX ISA, Addresses as operands)"


def size(count: int, dtype: DType, stride: Int) -> int:
    """Bytes of an access of ``count`` elements that lie ``stride`` elements apart, any number for one. TraceError
    for what is none."""
    shown = f"a vector access of {count!r} x {dtype.name}"
    if not isinstance(count, int):
        raise trace_error(
            shown,
            rule="one access moves a number of elements that is known while tracing",
            fix=constant_fix("loop over the elements with nv.range(n)", count),
        )
    if dtype is dtypes.bool_:
        raise trace_error(
            shown,
            rule="a bool is one bit in a register and a byte in memory: vectors of them are not moved at once",
            fix="keep the flags in an array of nv.u8",
        )
    total = count * dtype.bytes
    if count < 1 or total not in (1, 2, 4, 8, WIDEST) or count > 1 and (not isinstance(stride, int) or stride != 1):
        raise trace_error(
            f"{shown} ({total} bytes), stride {stride if isinstance(stride, int) else 'unknown'}",
            rule="one access moves 1, 2, 4, 8 or 16 contiguous bytes (PTX ISA, ld/st)",
            fix="choose a count that gives at most 16 bytes and an array whose last axis is contiguous",
        )
    return total


def converted(value: Any, dtype: DType) -> Value:
    """A vector that is to be stored where elements are ``dtype``. Raises TraceError for what is none."""
    if not isinstance(value, ir.Value) or len(as_value(value).shape) != 1:
        raise trace_error(
            f"store_vector of {'a traced number' if isinstance(value, ir.Value) else repr(value)}",
            rule="it stores a vector: some elements at once",
            fix="array[i] = value, or nv.vector([a, b]) to build a vector",
        )
    value = as_value(value)
    return value if value.dtype is dtype else stored(value, dtype)


def check_aligned(
    size: int, what: str, base: Int, axes: Sequence[tuple[Int, Any, int]], itemsize: int = 1
) -> None:
    """Refuse an access of ``size`` bytes that is surely misaligned, or is in rows that it cannot be meant for.

    ``base``: the byte at which the array starts. ``axes``: (index, bytes from one to the next, extent) of each; the
    last one is contiguous. A distance that is traced is in elements of ``itemsize`` bytes: rows of which nothing is
    promised may lie anywhere. The simulator and debug mode check the rest where the kernel runs.
    """
    for index, step, _ in axes:
        if isinstance(step, ir.Value) and greatest_divisor(index) * greatest_divisor(step) * itemsize % size:
            return
    axes = [one for one in axes if not isinstance(one[1], ir.Value)]
    if gcd(known_divisor(base), *(known_divisor(i) * step for i, step, extent in axes if extent != 1)) % size == 0:
        return
    terms = [linear(index).times(step) for index, step, extent in axes if extent != 1]
    total = reduce(Linear.plus, terms, linear(base))
    step = gcd(total.step(), size)
    rest = total.constant % step
    if rest:
        place = f"a multiple of {step} bytes, plus {rest}" if total.terms else f"byte {total.constant}"
        raise trace_error(
            f"{what} at {place}: no multiple of {size}",
            rule=_ALIGNED,
            fix=f"start at a multiple of {size} bytes, or take fewer elements",
        )
    *rows, (column, itemsize, _) = axes
    if step == size or linear(column).times(itemsize).step() % size:
        return
    apart = (step for index, step, extent in rows if extent != 1 and linear(index).times(step).step() % size)
    uneven = next(apart, None)
    if uneven is None:  # of where the array starts nothing is known
        return
    raise trace_error(
        f"{what} in rows that are {uneven} bytes apart: not every row starts at a multiple of {size}",
        rule=_ALIGNED,
        fix=f"make rows a multiple of {size} bytes apart, or take vectors of {gcd(uneven, size)} bytes",
    )
