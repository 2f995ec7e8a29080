"""The arrays of a call of ``matmul``: what they are, where they lie, and whether they overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.driver import arrays
from nvdsl.driver.containers import NumPy
from nvdsl.driver.spec import Memory, packed_strides
from nvdsl.errors import ArgumentError
from nvdsl.kernels.problem import TMA_ALIGNMENT, Matrix


class Argument:
    """An array. ``matrix``: its shape and strides; ``memory``: where it lies; ``source``: what `roads.Slot` views, the
    memory of a device array, a C-contiguous NumPy array for one of the host."""

    __slots__ = ("_host", "matrix", "memory", "name", "source")

    def __init__(self, name: str, matrix: Matrix, memory: Memory, source: Any, host: Any = None) -> None:
        self.name, self.matrix, self.memory, self.source, self._host = name, matrix, memory, source, host

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
        if address or place.device >= 0:
            matrix = Matrix(spec.dtype, spec.shape, spec.strides, address % TMA_ALIGNMENT == 0)
            return Argument(name, matrix, memory, memory)
        host = place.container.host_view(owner)
        if not isinstance(place.container, NumPy) and host.dtype != spec.dtype.numpy:
            host = host.view(spec.dtype.numpy)  # ints that stand for a type that NumPy lacks
        # A call stages host arrays as packed copies: this is that copy, where one is needed. Columns stay columns.
        turned = host.ndim >= 2 and abs(host.strides[-2]) < abs(host.strides[-1]) and min(host.shape[-2:]) > 1
        host = host.swapaxes(-1, -2) if turned else host
        matrix = Matrix(spec.dtype, host.shape, packed_strides(host.shape))
        matrix = matrix.transposed if turned else matrix
        return Argument(name, matrix, memory, np.ascontiguousarray(host).reshape(host.shape), host)

    def give_back(self) -> None:
        """Of an output: hand what was written to the packed copy to the caller's host array."""
        if self._host is not None and self.source is not self._host and self._host.size:
            self._host[...] = self.source

    @property
    def extent(self) -> tuple[int, int]:
        """First address, and the one behind the last, of a device array."""
        size, start = self.matrix.dtype.bytes, self.memory[0]
        steps = [(n - 1) * step for n, step in zip(self.matrix.shape, self.matrix.strides, strict=True)]
        return start + size * sum(min(s, 0) for s in steps), start + size * (sum(max(s, 0) for s in steps) + 1)


def overlap(out: Argument, *inputs: Argument) -> None:
    """Raises ArgumentError where ``out`` shares device memory with an input."""
    if not isinstance(out.source, tuple):
        return
    first, end = out.extent
    for argument in inputs:
        if isinstance(argument.source, tuple) and argument.source[1].device == out.source[1].device:
            low, high = argument.extent
            if low < end and first < high:
                raise ArgumentError(
                    f"out and {argument.name} overlap in memory",
                    rule="blocks write parts of the result while others still read the operands",
                    fix="pass another array as out, or leave it out",
                )
