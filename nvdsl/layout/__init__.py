"""Layouts: which thread touches which element, and where it lies (docs/layouts.md).

* `Layout`, written shape : stride; strides are integers, coordinates `E` or bits `X`. `row_major`, `column_major`,
  `identity`, `make_layout`; `parse` reads CuTe's notation, and ``str`` writes it
* the algebra: `coalesce`, `composition`, `complement`, `right_inverse`, `left_inverse`
* tiles and threads: `logical_divide`, `zipped_divide`, `tiled_divide`, `flat_divide`, `logical_product`,
  `blocked_product`, `raked_product`, `make_layout_tv`
* memory: `max_common_vector`, `upcast`, `bank_conflicts`, `rank_f2`
* Hopper's own: `wgmma_accumulator`, `wgmma_a`, `mma_a`, `mma_b`, `mma_c`, `MMA_C`, `matrix_values`, `matrix_rows`,
  `FRAGMENT_ROWS`, `FRAGMENT_COLS`, `tma_boxes`
* tiles of shared memory and wgmma's view of them: `TileLayout`, `swizzle_offset`, `Operand`
"""

from nvdsl.layout.algebra import coalesce, composition
from nvdsl.layout.bits import rank_f2
from nvdsl.layout.core import Layout
from nvdsl.layout.hopper import (
    FRAGMENT_COLS,
    FRAGMENT_ROWS,
    MMA_C,
    a_fragment_element,
    accumulator_element,
    matrix_rows,
    matrix_values,
    mma_a,
    mma_b,
    mma_c,
    tma_boxes,
    wgmma_a,
    wgmma_accumulator,
)
from nvdsl.layout.inverses import complement, left_inverse, right_inverse
from nvdsl.layout.make import column_major, identity, make_layout, row_major
from nvdsl.layout.memory import bank_conflicts, max_common_vector, upcast
from nvdsl.layout.notation import parse
from nvdsl.layout.operand import DESCRIPTOR_SWIZZLE, WGMMA_K_BYTES, Operand
from nvdsl.layout.strides import E, X
from nvdsl.layout.tile import ALIGNMENT, SWIZZLES, TileLayout, swizzle_offset
from nvdsl.layout.tiling import (
    blocked_product,
    flat_divide,
    logical_divide,
    logical_product,
    make_layout_tv,
    raked_product,
    tiled_divide,
    zipped_divide,
)

__all__ = [
    "ALIGNMENT", "DESCRIPTOR_SWIZZLE", "E", "FRAGMENT_COLS", "FRAGMENT_ROWS", "Layout", "MMA_C", "Operand",
    "SWIZZLES", "TileLayout", "WGMMA_K_BYTES", "X", "a_fragment_element", "accumulator_element", "bank_conflicts",
    "blocked_product", "coalesce", "column_major", "complement", "composition", "flat_divide", "identity",
    "left_inverse", "logical_divide", "logical_product", "make_layout", "make_layout_tv", "matrix_rows",
    "matrix_values", "max_common_vector", "mma_a", "mma_b", "mma_c", "parse", "raked_product", "rank_f2",
    "right_inverse", "row_major", "swizzle_offset", "tiled_divide", "tma_boxes", "upcast", "wgmma_a",
    "wgmma_accumulator", "zipped_divide",
]  # fmt: skip
