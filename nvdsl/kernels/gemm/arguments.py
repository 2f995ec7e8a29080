"""The arrays of a call of ``matmul``: what they are, where they lie, and whether they overlap."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nvdsl.driver import arrays
from nvdsl.driver.arguments import Disjoint
from nvdsl.driver.array_libraries import NumPy
from nvdsl.driver.array_spec import ArraySpec, Memory, packed_strides, shares_elements, spec_of
from nvdsl.driver.staging import share_memory
from nvdsl.errors import ArgumentError
from nvdsl.kernels.gemm.problem import TMA_ALIGNMENT, Matrix


class Argument:
    """An array. ``spec``, ``aligned``: what a call is found by; ``memory``: where it lies; ``source``: what
    `dispatch.ArgumentView` views, the memory of a device array, a C-contiguous NumPy array for one of the host.
    ``host``: a host array as it lies in memory.

    Host arrays are staged as packed copies: ``source`` is that copy where one is needed. Columns stay columns.
    """

    __slots__ = ("aligned", "host", "memory", "name", "source", "spec")

    def __init__(self, name: str, spec: ArraySpec, aligned: bool, memory: Memory, source: Any, host: Any) -> None:
        self.name, self.spec, self.aligned, self.memory = name, spec, aligned, memory
        self.source, self.host = source, host

    @staticmethod
    def of(name: str, array: Any) -> Argument:
        """Raises ArgumentError for what is no array, and for an output that can't be written."""
        described = arrays.describe(array)
        if described is None:
            raise ArgumentError(
                f"{name} is a {type(array).__qualname__}", rule="matrices are NumPy, torch, CuPy or JAX arrays"
            )
        spec, memory = described
        address, place, owner = memory
        if name == "out" and place.readonly:
            raise ArgumentError(f"{name} is read-only", fix="leave it out: a new array is returned")
        if name == "out" and spec.overlaps_itself:
            raise _shares_elements(spec.strides, "elements")
        if address or place.device >= 0:
            return Argument(name, spec, address % TMA_ALIGNMENT == 0, memory, memory, None)
        host = place.library.host_view(owner)
        if not isinstance(place.library, NumPy) and host.dtype != spec.dtype.numpy:
            host = host.view(spec.dtype.numpy)  # ints that stand for a type that NumPy lacks
        if name == "out" and shares_elements(host.shape, host.strides, host.itemsize):
            raise _shares_elements(host.strides, "bytes")
        shape = host.shape
        if host.ndim >= 2 and abs(host.strides[-2]) < abs(host.strides[-1]) and min(shape[-2:]) > 1:
            host = host.swapaxes(-1, -2)
            steps = packed_strides(host.shape)
            spec = spec_of(shape, spec.dtype, (*steps[:-2], steps[-1], steps[-2]))
        return Argument(name, spec, True, memory, np.ascontiguousarray(host).reshape(host.shape), host)

    @property
    def matrix(self) -> Matrix:
        return Matrix(self.spec.dtype, self.spec.shape, self.spec.strides, self.aligned)

    def give_back(self) -> None:
        """Of an output: hand what was written to the packed copy to the caller's host array."""
        if self.host is not None and self.source is not self.host and self.host.size:
            self.host[...] = self.source

    @property
    def span(self) -> tuple[int, int]:
        """Bytes from element [0, ..., 0] to the first one in memory, and to behind the last."""
        return _span(self.spec)


@functools.lru_cache(maxsize=1024)
def _span(spec: ArraySpec) -> tuple[int, int]:
    """Bytes from an array's element [0, ..., 0] to its first one in memory, and to the one behind its last."""
    steps = [(n - 1) * step for n, step in zip(spec.shape, spec.strides, strict=True)]
    size = spec.dtype.bytes
    return size * sum(min(s, 0) for s in steps), size * (sum(max(s, 0) for s in steps) + 1)


def _shares_elements(strides: tuple[int, ...], unit: str) -> ArgumentError:
    return ArgumentError(
        f"elements of out share memory (strides {strides} {unit})",
        rule="each element of an output has a place of its own",
        fix="pass a contiguous array as out, or leave it out: a new array is returned",
    )


def disjoint(arguments: dict[str, Argument]) -> dict[str, Disjoint]:
    """What may not share memory with ``out``, by name: all inputs; but c may be out itself."""
    out = arguments["out"]
    return {
        name: Disjoint("out", out.span, name, x.span, or_same=name == "c" and x.spec == out.spec)
        for name, x in arguments.items()
        if x is not out
    }


def check_disjoint(arguments: dict[str, Argument]) -> None:
    """Raises ArgumentError where ``out`` shares memory with an input that it may not share any with."""
    out = arguments["out"]
    for name, pair in disjoint(arguments).items():
        other = arguments[name]
        if out.host is not None and other.host is not None:
            itself = name == "c" and other.spec == out.spec and _place(out.host) == _place(other.host)
            if not itself and share_memory(out.host, other.host):
                raise pair.error()
        (address, place, _), (start, where, _) = out.memory, other.memory
        if address and start and where.device == place.device:
            pair.check(address, start)


def _place(x: np.ndarray) -> tuple[int, tuple[int, ...]]:
    return x.ctypes.data, x.strides
