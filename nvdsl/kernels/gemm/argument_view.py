"""How a kernel sees the arrays of a call, and what it is compiled for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nvdsl.call.extents import Bound, DynamicSpec, Parameters
from nvdsl.driver.array_spec import ArraySpec, Described, Memory, spec_of
from nvdsl.driver.arrays import NUMPY
from nvdsl.errors.records import dataclass
from nvdsl.kernels.gemm.dynamic import restrided
from nvdsl.kernels.gemm.problem import Matrix


@dataclass(frozen=True)
class ArgumentView:
    """How a kernel sees one array: its shape and strides, and where each launch's part of it starts (in elements).
    ``dynamic``: what the kernel is compiled for, as `nvdsl.kernels.gemm.dynamic` says. ``retyped``: it sees elements of
    another type."""

    spec: ArraySpec
    starts: tuple[int, ...]
    dynamic: DynamicSpec
    retyped: bool = False

    @staticmethod
    def of(matrix: Matrix, starts: Sequence[int], dynamic: DynamicSpec) -> ArgumentView:
        return ArgumentView(spec_of(matrix.shape, matrix.dtype, matrix.strides), tuple(starts), dynamic)

    def offset(self, launch: int) -> int:
        """Bytes from the array's element [0, ..., 0] to the first one of launch number ``launch``."""
        return self.starts[launch] * self.spec.dtype.bytes

    def compiled_for(self, spec: ArraySpec) -> DynamicSpec:
        """What a kernel is compiled for, for an argument of this spec: host arrays may be staged as packed copies."""
        return self.dynamic if spec.strides == self.spec.strides else restrided(self.dynamic, spec.strides)

    def described(self, source: np.ndarray | Memory, launch: int) -> Described:
        """The argument of launch number ``launch``. ``source``: device memory, or a C-contiguous host array."""
        start, spec = self.starts[launch], self.spec
        if isinstance(source, tuple):
            address, place, owner = source
            return spec, (address + self.offset(launch), place, owner)
        kind = np.dtype(spec.dtype.numpy) if self.retyped else source.dtype
        strides = tuple(step * kind.itemsize for step in spec.strides)
        memory = source.reshape(-1).view(np.uint8)  # NumPy's as_strided knows no 8-bit floats
        view = np.ndarray(spec.shape, kind, memory, start * kind.itemsize, strides)
        return NUMPY.describe(view)


def bound(arguments: Sequence[tuple[ArgumentView | None, Any]], sizes: Mapping[str, int]) -> Bound:
    """What a call is compiled for, and the extents and strides that its run needs. ``arguments``: how the kernel sees
    each (None: it is no array), and its spec; ``sizes``: of the extents, by name."""
    specs = [spec if view is None else view.compiled_for(spec) for view, spec in arguments]
    wanted = Parameters(specs)
    strides = [arguments[i][1].strides[k] for i, k, _ in wanted.strides]
    return Bound(specs, [*(sizes[name] for name in wanted.extents), *strides])


def array_of(name: str) -> str:
    """The array that a slot shows: "a words" is another view of "a"."""
    return name.partition(" ")[0]
