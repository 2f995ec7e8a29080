"""``describe``: what any array is, in about a microsecond, without importing its library."""

from __future__ import annotations

import sys
from typing import Any

from nvdsl.driver.array_libraries import ArrayLibrary, CuPy, Interchange, Jax, NumPy, Torch
from nvdsl.driver.array_spec import ArraySpec, Described, Memory, Place, spec_of

__all__ = ["ArraySpec", "Described", "Memory", "Place", "describe", "spec_of"]

NUMPY = NumPy()
_LIBRARIES: tuple[tuple[str, str, ArrayLibrary], ...] = (
    ("numpy", "ndarray", NUMPY),
    ("torch", "Tensor", Torch()),
    ("cupy", "ndarray", CuPy()),
    ("jax", "Array", Jax()),
)
_INTERCHANGE = Interchange()
_seen: dict[type, ArrayLibrary] = {}  # by the exact type of an array seen before


def describe(array: Any) -> Described | None:
    """``(ArraySpec, Memory)`` of an array: NumPy, torch, CuPy, JAX, or anything with ``__dlpack__`` or
    ``__cuda_array_interface__``; None for what is no array.

    Raises ``ArgumentError`` for an array that a kernel can't take (its dtype, its device, no memory)."""
    library = _seen.get(type(array)) or library_of(array)
    return None if library is None else library.describe(array)


def library_of(array: Any) -> ArrayLibrary | None:
    """The library that an array is of; None for what is no array."""
    library = _seen.get(type(array))
    if library is None:
        library = _find(array)
        if library is not None:
            _seen[type(array)] = library
    return library


def register(kind: type, library: ArrayLibrary) -> None:
    """From now on ``library`` describes what is exactly of type ``kind``."""
    _seen[kind] = library


def _find(array: Any) -> ArrayLibrary | None:
    for module, name, library in _LIBRARIES:
        if isinstance(array, getattr(sys.modules.get(module), name, ())):
            return library
    if hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__"):
        return _INTERCHANGE
    return None
