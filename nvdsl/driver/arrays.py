"""``describe``: what any array is, in about a microsecond, without importing its library."""

from __future__ import annotations

import sys
from typing import Any

from nvdsl.driver.containers import Container, CuPy, Interchange, Jax, NumPy, Torch
from nvdsl.driver.spec import ArraySpec, Described, Memory, Place, spec_of

__all__ = ["ArraySpec", "Described", "Memory", "Place", "describe", "spec_of"]

_LIBRARIES: tuple[tuple[str, str, Container], ...] = (
    ("numpy", "ndarray", NumPy()),
    ("torch", "Tensor", Torch()),
    ("cupy", "ndarray", CuPy()),
    ("jax", "Array", Jax()),
)
_INTERCHANGE = Interchange()
_containers: dict[type, Container] = {}  # by the exact type of an array seen before


def describe(array: Any) -> Described | None:
    """``(ArraySpec, Memory)`` of an array: NumPy, torch, CuPy, JAX, or anything with ``__dlpack__`` or
    ``__cuda_array_interface__``; None for what is no array.

    Raises ``ArgumentError`` for an array that a kernel can't take (its dtype, its device, no memory)."""
    container = _containers.get(type(array)) or container_of(array)
    return None if container is None else container.describe(array)


def container_of(array: Any) -> Container | None:
    """The library that an array is of; None for what is no array."""
    container = _containers.get(type(array))
    if container is None:
        container = _find(array)
        if container is not None:
            _containers[type(array)] = container
    return container


def register(kind: type, container: Container) -> None:
    """From now on ``container`` describes what is exactly of type ``kind``."""
    _containers[kind] = container


def _find(array: Any) -> Container | None:
    for module, name, container in _LIBRARIES:
        if isinstance(array, getattr(sys.modules.get(module), name, ())):
            return container
    if hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__"):
        return _INTERCHANGE
    return None
