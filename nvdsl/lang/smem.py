"""``nv.smem``: arrays, tiles and stacks of tiles in the block's shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from nvdsl.errors import trace_error
from nvdsl.ir.declared import Declared
from nvdsl.lang.tile import Tile
from nvdsl.lang.tile_stack import TileStack
from nvdsl.layout import SWIZZLES, TileLayout
from nvdsl.ops.smem import get_dynamic_shared_memory
from nvdsl.values import dtypes, scope
from nvdsl.values.extents import constant_fix
from nvdsl.values.python_numbers import plain
from nvdsl.values.typing import ElementType, Shape

if TYPE_CHECKING:
    from nvdsl.lang.array import Array


@overload
def smem(shape: int | tuple[int], dtype: ElementType, *, swizzle: int = 0) -> Array: ...
@overload
def smem(shape: tuple[int, int], dtype: ElementType, *, swizzle: int = 0) -> Tile: ...
@overload
def smem(shape: tuple[int, int, int], dtype: ElementType, *, swizzle: int = 0) -> TileStack: ...
@overload  # the number of axes is not known
def smem(shape: Sequence[int], dtype: ElementType, *, swizzle: int = 0) -> Any: ...


def smem(shape: Shape, dtype: ElementType, *, swizzle: int = 0) -> Array | Tile | TileStack:
    """Allocate shared memory of a block, aligned as its swizzle needs.

    ``shape`` is in elements: ``(n,)`` gives an `Array`, ``(rows, cols)`` a `Tile`, and ``(stages, rows, cols)`` a
    `TileStack` with one tile for each stage. ``swizzle`` is 0 (dense), 16 (wgmma's form without a swizzle), 32, 64 or
    128 bytes; an `Array` has none. Raises TraceError if a row doesn't fill the width of the swizzle.
    """
    shape = tuple(plain(extent) for extent in (shape if isinstance(shape, Sequence) else (shape,)))
    kernel = scope.current("nv.smem")
    if not 1 <= len(shape) <= 3 or not all(isinstance(s, int) and s > 0 for s in shape):
        raise trace_error(
            f"nv.smem of shape {shape}",
            rule="a shape is 1 to 3 positive Python ints: (n,), (rows, cols) or (stages, rows, cols)",
            fix=constant_fix("take sizes from array shapes or keyword arguments of the host function", shape)
            if len(shape) <= 3
            else "one axis of stages: nv.smem((a * b, rows, cols), dtype), whose tile (i, j) is [i * b + j]",
        )
    dtype = dtypes.element(dtype)
    allowed = SWIZZLES if len(shape) > 1 else (0,)
    if swizzle not in allowed:
        raise trace_error(
            f"nv.smem({shape}, {dtype.name}, swizzle={swizzle!r})",
            rule=f"the swizzle of a {len(shape)}-D shape is one of {allowed} bytes",
            fix="nv.smem((rows, cols), nv.f16, swizzle=128), or a.dtype for the type of array a",
        )
    if len(shape) == 1:
        offset = kernel.allocate(shape[0] * dtype.bytes, 128)
        return get_dynamic_shared_memory(shape, dtype.ir, offset).remember_dtype(dtype)
    try:
        layout = TileLayout.of(shape[-2], shape[-1], dtype.bytes, swizzle)
    except ValueError as error:
        raise trace_error(
            str(error),
            rule="a tile's rows fill whole panels of the swizzle's width (PTX ISA, Tensor swizzling modes)",
            fix=f"use a multiple of {max(swizzle, 16) // dtype.bytes} columns, or a narrower swizzle",
        ) from None
    stride = -(-layout.bytes // layout.alignment) * layout.alignment
    stages = shape[0] if len(shape) == 3 else 1
    offset = kernel.allocate(stages * stride, layout.alignment)
    kernel.tiles.append(Declared(offset, stages, stride, layout.rows, layout.cols, dtype.bytes, swizzle))
    tile = Tile(layout, dtype, offset)
    return tile if len(shape) == 2 else TileStack(stages, stride, tile)
