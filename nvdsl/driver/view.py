"""Views: the memory of an array with another shape and other strides, whatever library the array is from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from nvdsl.driver import arrays
from nvdsl.driver.array_libraries import ArrayLibrary, NumPy
from nvdsl.driver.array_spec import ArraySpec, Described, Memory, spec_of
from nvdsl.errors import ArgumentError


class View:
    """Device memory with a spec of its own. An argument for a kernel, as any array is."""

    __slots__ = ("memory", "spec")

    def __init__(self, spec: ArraySpec, memory: Memory) -> None:
        self.spec, self.memory = spec, memory


class Viewed(ArrayLibrary):
    """Views, as `arrays.describe` meets them."""

    def describe(self, array: Any) -> Described:
        return array.spec, array.memory


arrays.register(View, Viewed())


def strided(array: Any, shape: Sequence[int], strides: Sequence[int], start: int = 0) -> Any:
    """The same memory as ``array``, with ``shape``, ``strides`` and ``start`` in elements, from its first element on.

    A `View` of a device array; of a host array, a NumPy array (read-only where the array is). Nothing is checked:
    the caller's shape and strides stay within the array. Raises ArgumentError for what is no array.
    """
    described = arrays.describe(array)
    if described is None:
        raise ArgumentError(f"{type(array).__qualname__} is no array", fix="pass a NumPy, torch, CuPy or JAX array")
    spec, (address, place, owner) = described
    if address or place.device >= 0:
        moved = address + start * spec.dtype.bytes
        return View(spec_of(tuple(shape), spec.dtype, tuple(strides)), (moved, place, owner))
    host = place.library.host_view(owner)
    host = host if isinstance(place.library, NumPy) else host.view(spec.dtype.numpy)
    size = host.dtype.itemsize
    flat = host if start == 0 else _from(host, start)
    return numpy.lib.stride_tricks.as_strided(
        flat, tuple(shape), tuple(s * size for s in strides), writeable=not place.readonly
    )


def _from(host: numpy.ndarray, start: int) -> numpy.ndarray:
    """A one-element array whose element is ``start`` elements behind the first of ``host``."""
    at = numpy.lib.stride_tricks.as_strided(host, (start + 1,), (host.dtype.itemsize,))
    return at[start:]
