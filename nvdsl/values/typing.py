"""Names for what nvdsl's functions take and return, so that an editor shows them and a type checker holds them.

Most functions take a Python number where they take a traced value, and the aliases name these unions. ``nv.Int``,
``nv.Bool`` and ``nv.Number`` are for the annotations of a user's own helpers::

    def row_of(tile: nv.Int, rows: int) -> nv.Int: ...

A traced value does not tell a type checker its dtype: ``Value`` stands for every number that the kernel computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from nvdsl.mlir import ir
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value

Int: TypeAlias = int | Value
"""An integer: a Python int, or a traced integer."""

PlainInt: TypeAlias = int | np.integer
"""An integer that is known while tracing."""

Bool: TypeAlias = bool | Value
"""A condition: a Python bool, or a traced one."""

Number: TypeAlias = int | float | np.integer | np.floating | Value
"""A number: Python's, a NumPy scalar, or a traced value."""

Index: TypeAlias = Int | tuple[Int, ...]
"""A subscript that names one element: an integer for each axis."""

Slices: TypeAlias = slice | tuple[Int | slice, ...]
"""A subscript that names a view: slices, with integers beside them."""

Coords: TypeAlias = Sequence[Int]
"""One integer for each axis."""

Shape: TypeAlias = int | Sequence[int]
"""Extents in elements; an int is the extent of one axis."""

Pointer: TypeAlias = ir.Value
"""An address, ``!llvm.ptr``."""

ElementType: TypeAlias = DType | np.dtype | type[np.generic]
"""A type of elements: nvdsl's, or a NumPy dtype that is one of them."""

TypeLike: TypeAlias = DType | ir.Type | ir.Value
"""What says the type of a constant: an nvdsl dtype, an MLIR type, or a value of that type."""
