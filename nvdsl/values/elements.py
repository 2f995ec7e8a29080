"""Element types by MLIR's own names ("f16", "f8E4M3FN", "i32", "index"), and the bits of their values.

MLIR integers carry no sign. Inside the host program an integer is a Python int in two's complement
(i1: 0 or 1), a float is a Python float that was rounded to its type.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy

from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType

_OTHER_NAMES = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "bool_": "i1"}


def mlir_name(dtype: DType) -> str:
    """MLIR's name of the type: ``mlir_name(nv.e4m3) == "f8E4M3FN"``, ``mlir_name(nv.u8) == "i8"``."""
    if dtype.is_unsigned:
        return f"i{dtype.bits}"
    return _OTHER_NAMES.get(dtype.name, dtype.name)


ELEMENTS: dict[str, DType] = {mlir_name(dtype): dtype for dtype in dtypes.ALL if not dtype.is_unsigned}


def integer(dtype: DType) -> Callable[[int], int]:
    """The function that wraps a Python int to the type's width, two's complement (bool: 0 or 1)."""
    if dtype.bits == 1:
        return lambda value: value & 1
    mask, half = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    return lambda value: ((value + half) & mask) - half


def rounding(dtype: DType) -> Callable[[float], float]:
    """The function that rounds a Python float to a float type (overflow: infinity)."""
    if dtype is dtypes.f64:
        return float
    if dtype is dtypes.f32:
        return lambda value: ctypes.c_float(value).value
    narrow = _narrow(dtype)
    return lambda value: float(narrow(value))


def bit_pattern(dtype: DType) -> Callable[[Any], int]:
    """The function that gives the bits of a value of the type, as an unsigned int."""
    if not dtype.is_float:
        mask = (1 << dtype.bits) - 1
        return lambda value: int(value) & mask
    if dtype is dtypes.f64:
        return lambda value: ctypes.c_uint64.from_buffer(ctypes.c_double(value)).value
    if dtype is dtypes.f32:
        return lambda value: ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
    narrow = _narrow(dtype)
    return lambda value: int.from_bytes(narrow(value).tobytes(), "little")


def from_bits(dtype: DType) -> Callable[[int], float]:
    """The function that gives the float whose bits are an unsigned int."""
    return lambda bits: float(numpy.frombuffer(bits.to_bytes(dtype.bytes, "little"), dtype.numpy)[0])


def _narrow(dtype: DType) -> Callable[[float], Any]:
    def convert(value: float) -> Any:
        with numpy.errstate(over="ignore", invalid="ignore"):
            return numpy.float64(value).astype(dtype.numpy)

    return convert
