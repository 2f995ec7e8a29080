"""What one array is: an ArraySpec (what a kernel is specialized for) and a Place (where its memory lies)."""

from __future__ import annotations

import functools
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy

from nvdsl.errors.records import dataclass
from nvdsl.values.dtypes import DType
from nvdsl.values.elements import mlir_name

if TYPE_CHECKING:
    from nvdsl.driver.array_libraries import ArrayLibrary


@dataclass(frozen=True)
class ArraySpec:
    """Element type, shape and strides (in elements). Hashable, the hash is computed once.

    A dimension of one element has the stride of a C-contiguous array there, for its own says nothing.
    Host arrays are staged as a packed copy, so that their strides are C-contiguous whatever they were; but for those
    that stand for device arrays (`Place`)."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.dtype, self.shape, self.strides)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def overlaps_itself(self) -> bool:
        """Whether two elements share memory: an axis of stride 0, or strides that meet."""
        return self.strides != packed_strides(self.shape) and shares_elements(self.shape, self.strides)

    @property
    def element(self) -> str:
        """MLIR's name of the element type."""
        return mlir_name(self.dtype)

    def __str__(self) -> str:
        dims = "x".join(map(str, self.shape)) or "scalar"
        packed = self.strides == packed_strides(self.shape)
        return f"{dims} {self.dtype.name}" + ("" if packed else f", strides {self.strides}")


@dataclass(frozen=True, eq=False)
class Place:
    """``device``: ordinal of the GPU, -1 for host memory. ``stream_ordered``: the library frees and reuses
    the memory in the order of streams that nvdsl can launch on (torch, CuPy); for other device arrays a
    call waits for its kernels before it returns. ``stands_in``: host memory in the place of a device array, whose
    strides and alignment a kernel is to see (`array_libraries.stands_in`)."""

    library: ArrayLibrary
    device: int = -1
    readonly: bool = False
    stream_ordered: bool = True
    stands_in: bool = False

    @property
    def has_signature(self) -> bool:
        """Whether a call may be told by the array's signature, see `array_libraries.ArrayLibrary`."""
        return self.device >= 0 and bool(self.library.signature)


Memory = tuple[int, Place, Any]
"""Address of element [0, ..., 0] (0 for host arrays that a call stages as packed copies), place, array."""

Described = tuple[ArraySpec, Memory]


def spec_of(shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...] | None = None) -> ArraySpec:
    """The spec of an array that is not at hand; ``strides`` in elements, C-contiguous by default."""
    shape = tuple(shape)
    given = packed_strides(shape) if strides is None else canonical_strides(shape, tuple(strides))
    return ArraySpec(dtype, shape, given)


def packed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """C-contiguous strides in elements: ``packed_strides((4, 2, 3)) == (6, 3, 1)``."""
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


@functools.lru_cache(maxsize=1024)
def shares_elements(shape: tuple[int, ...], strides: tuple[int, ...], size: int = 1) -> bool:
    """Whether two elements of an array lie at one place. ``strides``, and the ``size`` of an element, in one unit."""
    axes = sorted((abs(step), n) for n, step in zip(shape, strides, strict=True) if n > 1)
    if 0 in shape:
        return False
    reach = size  # from the first element to behind the last one of the axes so far
    for step, n in axes:
        if step < reach:
            break
        reach += (n - 1) * step
    else:
        return False
    if any(step == 0 for step, _ in axes) or size > 1 and any(step % size for step, _ in axes):
        return True
    offsets = numpy.zeros(1, numpy.int64)  # strides that interleave, (2, 3) say: look at each element
    for step, n in axes:
        offsets = (offsets[:, None] + step * numpy.arange(n)).reshape(-1)
    return bool(len(numpy.unique(offsets)) < len(offsets))


def canonical_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, with the meaningless ones (of dimensions of one element, and all where there are none) made those
    of an array that is C-contiguous there."""
    if 0 in shape:
        return packed_strides(shape)
    result, step = [], 1
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        result.append(step if dim == 1 else stride)
        step = result[-1] * dim
    return tuple(reversed(result))
