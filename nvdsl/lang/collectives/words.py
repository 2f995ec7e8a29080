"""What collectives are given: numbers, vectors and tuples of both; and these as registers of 32 bits.

Shuffles and exchanges through shared memory move 32 bits. Two 16-bit elements of a vector share a word, a 64-bit number
takes two words, and a narrower number one word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.values import arith, casts, dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.python_numbers import is_number
from nvdsl.values.traced import Value, as_value, wrap

Build = Callable[[Sequence[Value]], Any]
"""Puts leaves together to what they were taken from."""


def leaves(x: Any, what: str) -> tuple[list[Value], Build]:
    """The numbers and vectors in ``x``, and how they are put together again. ``what``: the collective, for errors."""
    if isinstance(x, (tuple, list)) and x:
        parts = [leaves(part, what) for part in x]
        kind = type(x)

        def build(values: Sequence[Value]) -> Any:
            made, at = [], 0
            for found, inner in parts:
                made.append(inner(values[at : at + len(found)]))
                at += len(found)
            return kind(*made) if hasattr(kind, "_fields") else kind(made)

        return [leaf for found, _ in parts for leaf in found], build
    if is_number(x) or isinstance(x, Value | np.integer | np.floating):
        value = as_value(x)
        if len(value.shape) < 2 and value.dtype is not dtypes.tf32 and (value.dtype.bits > 1 or not value.shape):
            return [value], lambda values: values[0]
    raise trace_error(
        f"{what} of {_named(x)}",
        rule="a collective takes a number, a vector of numbers, or a tuple of these, from each thread",
        fix="load the thread's element first: x[i]; combine the elements that one thread has before the threads meet",
    )


def _named(x: Any) -> str:
    if isinstance(x, Value):
        return f"a vector of shape {x.shape} of {x.dtype.name}" if x.shape else f"a traced {x.dtype.name}"
    return repr(x) if not isinstance(x, ir.Value) else f"a value of type {x.type}"


def count(x: Value) -> int:
    """How many words ``x`` takes."""
    elements = x.shape[0] if x.shape else 1
    bits = elements * x.dtype.bits
    return bits // 32 if bits % 32 == 0 else elements


def split(x: Value) -> list[Value]:
    """``x`` as words. A number of 32 bits is its own word; any other word is an i32."""
    if not x.shape:
        return _split_number(x)
    elements = x.shape[0]
    if elements * x.dtype.bits % 32:
        return [word for i in range(elements) for word in _split_number(x[i])]
    type = ir.VectorType.get([count(x)], dtypes.i32.ir)
    words = x if x.type == type else arith.emit("vector.bitcast", type, x)
    return [wrap(arith.extract(words, dtypes.i32.ir, [i]), dtypes.i32) for i in range(count(x))]


def join(words: Sequence[Value], like: Value) -> Value:
    """The value of ``like``'s type that was split into ``words``."""
    t = like.dtype
    if not like.shape:
        return _join_number(words, t)
    elements = like.shape[0]
    if elements * t.bits % 32:
        return wrap(arith.pack([_join_number([word], t) for word in words]), t)
    packed = arith.pack([as_type(word, dtypes.i32) for word in words])
    return wrap(packed if packed.type == like.type else arith.emit("vector.bitcast", like.type, packed), t)


def _split_number(x: Value) -> list[Value]:
    t = x.dtype
    if t.bits == 32:
        return [x]
    if t is dtypes.bool_:
        return [dtypes.i32(x)]
    unsigned = dtypes.by_name(f"u{t.bits}")
    bits = unsigned(x) if t is dtypes.index else wrap(casts.reinterpret(x, unsigned), unsigned)
    if t.bits < 32:
        return [dtypes.i32(bits)]
    return [dtypes.i32(bits), dtypes.i32(bits >> 32)]


def _join_number(words: Sequence[Value], t: DType) -> Value:
    if t.bits == 32:
        return as_type(words[0], t)
    if t is dtypes.bool_:
        return words[0] != 0
    unsigned = dtypes.by_name(f"u{t.bits}")
    bits = unsigned(as_type(words[0], dtypes.u32))
    if t.bits > 32:
        bits = bits | unsigned(as_type(words[1], dtypes.u32)) << 32
    return t(bits) if t is dtypes.index else wrap(casts.reinterpret(bits, t), t)


def as_type(word: Value, t: DType) -> Value:
    """The bits of a word as a type of 32 bits."""
    return wrap(casts.reinterpret(word, t), t)
