"""What a kernel is compiled for of an array of a product: never its sizes, only what needs other code.

That is the element type, which axes repeat (stride 0), and which one is contiguous. Where TMA reads or writes an array,
or an epilogue reads two elements at a time, it is also that rows start at multiples of 16 bytes. And where an epilogue
reads a whole matrix, it is of what the columns are a multiple, which saves registers. A run knows all else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nvdsl.call.extents import ALIGNMENT, DynamicSpec, Stride
from nvdsl.kernels.gemm.problem import Matrix
from nvdsl.lang.extents import Extent

UNITS = (64, 16, 8)
"""Multiples of columns for which an epilogue that reads whole matrices is compiled."""


def restrided(spec: DynamicSpec, strides: Sequence[int]) -> DynamicSpec:
    """The same with other strides. What repeats along an axis still does: its first element is read in place of others.
    """
    whole = ALIGNMENT // spec.dtype.bytes
    last = max((i for i, step in enumerate(strides) if step == 1), default=None)
    repeats = [step == 0 for step in spec.strides]
    steps = [1 if i == last else Stride(math.gcd(step, whole)) for i, step in enumerate(strides)]
    steps = [0 if repeated else step for repeated, step in zip(repeats, steps, strict=True)]
    return DynamicSpec(spec.dtype, spec.axes, tuple(steps))


def dynamic(
    matrix: Matrix, axes: Sequence[str], *, grid: int, multiples: Mapping[str, int], near: bool = True
) -> DynamicSpec:
    """``axes``: the names of the extents; ``grid``: rows start at multiples of so many elements; ``multiples``:
    promises; ``near``: whether the kernel is told which axis is contiguous."""
    contiguous = max((i for i, step in enumerate(matrix.strides) if step == 1 and near), default=None)
    strides = [
        1 if i == contiguous else 0 if step == 0 else Stride(grid) for i, step in enumerate(matrix.strides)
    ]
    return DynamicSpec(matrix.dtype, tuple(Extent(name, multiples.get(name, 1)) for name in axes), tuple(strides))


def unit(cols: int) -> int:
    """What columns are surely a multiple of, as an epilogue that reads whole matrices is told."""
    return next((unit for unit in UNITS if cols % unit == 0), 1)
