"""Weights of 4 and 8 bits in packed registers, as f16 or bf16 registers of an A operand.

Integers become floats without conversions: put into the mantissa of 128 (bf16) or 1024 (f16), whose last bit counts 1,
``v`` is the float ``128 + v``, and a subtraction leaves ``v``, exactly. f16 has room for 4 bits more to the left, where
``v`` is ``1024 + 16 v``: a multiply-add takes the place of a shift. bf16 has no room for 8 bits; they go by way of f32
(8388608 + v). e4m3 has an instruction. All of it is exact: scales are applied to sums.

A word holds eight weights of 4 bits: the pair of register ``i`` is its nibbles ``i`` and ``i + 4``. Or it holds four of
8 bits: the pairs of two registers, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import nvdsl as nv
from nvdsl.lang.accumulator import pack_pair

BITS = {"u4": 4, "u8": 8, "e4m3": 8}
"""What weights are stored as: integers without a sign, beside a zero point; or floats."""

_MAGIC = {nv.f16: (0x64006400, 1024.0), nv.bf16: (0x43004300, 128.0)}
_NUMPY = {nv.f16: np.float16, nv.bf16: ml_dtypes.bfloat16}


def zero_pair(kind: str, dtype: nv.DType, zero: Any, row: int) -> Any:
    """What `dequantized` subtracts for the weights of a thread's row 0 or 1, of its zero point (f32)."""
    if kind == "u8" and dtype is nv.bf16:
        return zero + 8388608.0
    if _is_shifted(kind, dtype, row):
        return pack_pair(-64.0 - zero, -64.0 - zero, dtype)
    base = _MAGIC[dtype][1]
    return pack_pair(zero + base, zero + base, dtype)


def _is_shifted(kind: str, dtype: nv.DType, row: int) -> bool:
    """Whether the weights of a thread's row lie 4 bits to the left."""
    return kind == "u4" and dtype is nv.f16 and row == 1


NIBBLES = 0x000F000F
"""The first four bits of each half of a word."""


def unpacked(words: Sequence[Any], kind: str, dtype: nv.DType, nibbles: Any) -> list[Any]:
    """What `dequantized` takes, of packed ``words`` (i32): as much as can be done while wgmma still reads the registers
    of A. ``nibbles``: `NIBBLES`, best read from memory: ptxas, where it knows a constant, fills a register with it for
    each use."""
    if kind != "u4":
        return list(words)
    magic, low = _MAGIC[dtype][0], nv.u32(nibbles)
    left = [4 if _is_shifted(kind, dtype, i % 2) else 0 for i in range(4)]
    return [nv.u32(word) >> 4 * i - left[i] & low << left[i] | magic for word in words for i in range(4)]


def dequantized(words: Sequence[Any], kind: str, dtype: nv.DType, zeros: Sequence[Any]) -> list[Any]:
    """The registers of an A operand: eight weights for each 16 columns, of two rows. ``words``: `unpacked` ones.
    ``zeros``: what `zero_pair` gives for both rows; not read for e4m3."""
    if kind == "u4":
        shifted = [_is_shifted(kind, dtype, row) for row in (0, 1)]
        return [
            _sixteenth_and(pair, zeros[i % 2]) if shifted[i % 2] else _difference(pair, zeros[i % 2], dtype)
            for i, pair in enumerate(words)
        ]
    if kind == "e4m3":
        halves = [_floats(nv.u32(word) >> 16 * i) for word in words for i in (0, 1)]
        return halves if dtype is nv.f16 else [_as_bf16(pair) for pair in halves]
    if dtype is nv.f16:
        pairs = [_bytes(word, 0x64646464, 0x4140 + 0x0202 * i) for word in words for i in (0, 1)]
        return [_difference(pair, zeros[i % 2], dtype) for i, pair in enumerate(pairs)]
    found = []
    for i, (word, first) in enumerate((word, first) for word in words for first in (0, 2)):
        wide = [nv.bitcast(_bytes(word, 0x4B000000, 0x7540 + first + j), nv.f32) for j in (0, 1)]
        low, high = (x - zeros[i % 2] for x in wide)
        found.append(pack_pair(low, high, nv.bf16))
    return found


def _difference(pair: Any, zero: Any, dtype: nv.DType) -> Any:
    """Of two 16-bit floats and two others."""
    kind = _NUMPY[dtype]

    def meaning(x: Any, y: Any) -> Any:
        return (_halves(x, kind) - _halves(y, kind)).astype(kind).view(np.int32)[..., 0]

    return _instruction(f"sub.rn.{dtype.name}x2 $0, $1, $2;", meaning, nv.i32(pair), nv.i32(zero))


def _sixteenth_and(pair: Any, other: Any) -> Any:
    """``pair / 16 + other``, of two f16 and two others."""

    def meaning(x: Any, y: Any) -> Any:
        wide = _halves(x, np.float16).astype(np.float64) / 16 + _halves(y, np.float16)
        return wide.astype(np.float16).view(np.int32)[..., 0]

    text = "{ .reg .b32 part; mov.b32 part, 0x2C002C00; fma.rn.f16x2 $0, $1, part, $2; }"
    return _instruction(text, meaning, nv.i32(pair), nv.i32(other))


def _floats(pair: Any) -> Any:
    """Two e4m3, in the low half of a word, as f16."""

    def meaning(x: Any) -> Any:
        bytes = np.ascontiguousarray(x.astype(np.uint16)).view(ml_dtypes.float8_e4m3fn).reshape(*x.shape, 2)
        return bytes.astype(np.float16).view(np.int32)[..., 0]

    text = "{ .reg .b16 low, high; mov.b32 {low, high}, $1; cvt.rn.f16x2.e4m3x2 $0, low; }"
    return _instruction(text, meaning, nv.i32(pair))


def _as_bf16(pair: Any) -> Any:
    """Two f16 that are bf16, too."""

    def meaning(x: Any) -> Any:
        return _halves(x, np.float16).astype(ml_dtypes.bfloat16).view(np.int32)[..., 0]

    text = (
        "{ .reg .b16 low, high; .reg .f32 x, y; mov.b32 {low, high}, $1; cvt.f32.f16 x, low; cvt.f32.f16 y, high; "
        "cvt.rn.bf16x2.f32 $0, y, x; }"
    )
    return _instruction(text, meaning, pair)


def _bytes(word: Any, other: int, selector: int) -> Any:
    """Bytes of a word (0 to 3) and of another one (4 to 7) by the digits of a selector (PTX ISA, prmt)."""

    def meaning(x: Any) -> Any:
        given = [x.view(np.uint32) >> 8 * i & 0xFF for i in range(4)] + [other >> 8 * i & 0xFF for i in range(4)]
        found = sum(np.uint32(given[selector >> 4 * i & 7]) << np.uint32(8 * i) for i in range(4))
        return np.broadcast_to(np.asarray(found, np.uint32), x.shape).view(np.int32)

    return _instruction(f"prmt.b32 $0, $1, {other:#x}, {selector:#x};", meaning, nv.i32(word))


def _halves(x: Any, kind: Any) -> Any:
    return np.ascontiguousarray(x).view(kind).reshape(*x.shape, 2)


def _instruction(text: str, meaning: Callable[..., Any], *operands: Any) -> Any:
    return nv.ptx(text, *operands, result=nv.i32, meaning=meaning, volatile=False)
