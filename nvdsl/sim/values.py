"""Values of a warp: how they are kept, and the arithmetic on them.

A value that is the same in all lanes is a Python number: an int in two's complement (i1: bool), a NumPy float
of the exact type. One that differs between lanes is a NumPy array of 32. A vector has its elements along the first
axes and the lanes along the last one, which has length 1 where all lanes agree. What inactive lanes hold is
arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.mlir import ir

LANES = WARP_SIZE

FLOATS: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "tf32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
_INTS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_UINTS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Element:
    """A scalar type: its bits, and the NumPy type of varying values. ``bytes``: its size in memory."""

    __slots__ = ("bits", "bytes", "dtype", "is_float", "name", "unsigned")

    def __init__(self, name: str, bits: int, dtype: Any, is_float: bool) -> None:
        self.name, self.bits, self.is_float = name, bits, is_float
        self.dtype = np.dtype(dtype)
        self.bytes = max(bits // 8, 1)
        self.unsigned = np.dtype(_UINTS.get(bits, np.uint8))


_elements: dict[Any, Element] = {}
"""By text; by the classes of MLIR's types of which each has one type; integers by their width."""

_CLASSES = (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type, ir.IndexType)
_SHAPED = (ir.VectorType, ir.MemRefType)


def element(type: Any) -> Element:
    """The scalar type of an MLIR scalar, vector or memref type, or of its text. ValueError for others."""
    found = _elements.get(type.__class__)
    if found is not None:
        return found
    if isinstance(type, _SHAPED):
        return element(type.element_type)
    signless = isinstance(type, ir.IntegerType) and type.is_signless
    key = type.width if signless else str(type)
    found = _elements.get(key)
    if found is None:
        found = _elements[key] = _element(f"i{key}" if signless else key)
    if isinstance(type, _CLASSES):
        _elements[type.__class__] = found
    return found


def _element(name: str) -> Element:
    if name in FLOATS:
        return Element(name, 32 if name == "tf32" else 8 * np.dtype(FLOATS[name]).itemsize, FLOATS[name], True)
    if name == "index" or name.startswith("!llvm.ptr"):
        return Element(name, 64, np.int64, False)
    if name == "i1":
        return Element(name, 1, np.bool_, False)
    if name.startswith("i") and name[1:].isdigit() and int(name[1:]) in _INTS:
        return Element(name, int(name[1:]), _INTS[int(name[1:])], False)
    raise ValueError(f"the simulator has no values of type {name}")


def is_uniform(x: Any) -> bool:
    """Whether a scalar or vector value is the same in all lanes."""
    return not isinstance(x, np.ndarray) or x.ndim == 0 or x.shape[-1] == 1


def wrap(x: int, bits: int) -> Any:
    """A Python int in two's complement of ``bits`` (1: a bool)."""
    if bits == 1:
        return bool(x & 1)
    half = 1 << (bits - 1)
    return x if -half <= x < half else ((x + half) & ((1 << bits) - 1)) - half


def lanes(x: Any, e: Element) -> Any:
    """A scalar as an array of 32."""
    if isinstance(x, np.ndarray):
        return x
    return np.full(LANES, x, e.dtype)


def column(x: Any, e: Element) -> Any:
    """A scalar as an array whose last axis is 32 or 1."""
    if isinstance(x, np.ndarray):
        return x
    return np.array([x], e.dtype)


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """An array in this shape, broadcast: a copy. (In a fifth of the time that np.broadcast_to takes for a view.)"""
    made = np.empty(shape, x.dtype)
    made[...] = x
    return made


def scalar(x: Any, e: Element) -> Any:
    """A 0-d or length-1 array (or NumPy scalar) as a uniform value."""
    return x.reshape(-1)[0] if e.is_float else x.reshape(-1)[0].item()


def unsigned(x: Any, e: Element) -> Any:
    """An integer value read as unsigned."""
    if isinstance(x, np.ndarray):
        return x if e.bits == 1 else x.view(e.unsigned)
    return x & ((1 << e.bits) - 1) if e.bits > 1 else int(x)


def integer_type(type: Any) -> Any:
    """The NumPy type of a varying integer of this MLIR type; None for what is no integer."""
    try:
        e = element(type)
    except ValueError:
        return None
    return None if e.is_float else e.dtype


def select(condition: Any, a: Any, b: Any, kind: Any = None) -> Any:
    """``a`` where the condition is true, else ``b``; scalars, vectors, tuples and lists of registers.

    ``kind``: `integer_type` of an integer, which two Python ints can't tell.
    """
    if not isinstance(condition, np.ndarray) or condition.shape == (1,):
        return a if condition else b
    if a is b:
        return a
    if isinstance(a, tuple | list):
        return type(a)(select(condition, x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "registers") or hasattr(b, "registers"):
        return select(condition, registers(a), registers(b))
    if a is None or b is None:
        return b if a is None else a
    if kind is None or hasattr(a, "dtype") or hasattr(b, "dtype"):
        kind = a.dtype if hasattr(a, "dtype") else b.dtype if hasattr(b, "dtype") else np.int64
    return np.where(condition, np.asarray(a, kind), np.asarray(b, kind))


def registers(x: Any) -> Any:
    """A struct of registers as a list; a wgmma's result is read."""
    return x.registers() if hasattr(x, "registers") else x


def integer_op(f: Callable[[Any, Any], Any], bits: int) -> Callable[[Any, Any], Any]:
    """A binary op on two's complement integers, given on unbounded ints and on wrapping arrays alike."""
    half, full = 1 << max(bits - 1, 0), (1 << bits) - 1

    def apply(x: Any, y: Any) -> Any:
        r = f(x, y)
        if r.__class__ is int:
            return r if -half <= r < half else ((r + half) & full) - half
        return r

    return apply
