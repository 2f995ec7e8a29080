"""Tiles in shared memory: where an element lies, in bytes.

One model covers every layout that TMA writes and wgmma reads. A tile of ``rows x cols`` elements,
row-major as in global memory, is stored as *panels*: panel ``p`` holds the columns
``[p*w, (p+1)*w)`` of all rows, one row after the other, where ``w`` elements fill the swizzle's
width (32, 64 or 128 bytes). Within a panel the 16-byte units are permuted by the swizzle. One TMA
box writes one panel. ``swizzle=0`` is a plain dense tile; ``swizzle=16`` is wgmma's "no swizzle"
form, whose panels are 16 bytes wide (PTX ISA, "Core matrices").

Sources: PTX ISA, "Asynchronous Warpgroup Level Majorness, Shared Memory Layout and Strides",
"Matrix Descriptor Format", "Tensor swizzling modes".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from nvdsl.errors import layout_error
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.layout.algebra import coalesce, composition
from nvdsl.layout.core import Layout
from nvdsl.layout.strides import X

if TYPE_CHECKING:
    from nvdsl.values.traced import Value
    from nvdsl.values.typing import Int

SWIZZLES = (0, 16, 32, 64, 128)

ALIGNMENT = {swizzle: max(arch.SWIZZLE_ROWS * swizzle, arch.TMA_SMEM_ALIGNMENT) for swizzle in SWIZZLES}
"""Bytes of alignment that a tile needs: its swizzle's pattern starts there, and TMA accepts it."""


@overload
def swizzle_offset(offset: int, swizzle: int) -> int: ...
@overload
def swizzle_offset(offset: Value, swizzle: int) -> Value: ...


def swizzle_offset(offset: Int, swizzle: int) -> Int:
    """Permute a byte offset within a tile: XOR bits [4, 4+n) with bits [7, 7+n), n = log2(swizzle/16).

    Works on Python ints and on traced integer values. ``offset`` counts from a base that is aligned
    to ``ALIGNMENT[swizzle]``. Raises LayoutError for a swizzle that there is not.
    """
    if swizzle not in SWIZZLES:
        raise layout_error(f"an offset in a swizzle of {swizzle!r} bytes", rule="TMA and wgmma exchange units of 16 "
                           "bytes within rows of 32, 64 or 128 (PTX ISA, Tensor swizzling modes)",
                           fix="swizzle=128, 64 or 32; 0 or 16 for none")  # fmt: skip
    if swizzle <= 16:
        return offset
    mask = swizzle // 16 - 1
    return offset ^ (((offset >> 7) & mask) << 4)


# Eight rows of a panel, by the swizzle's width. The rows' strides in bits are 128 plus the 16 bytes by which the units
# of the next line are exchanged.
_ROWS: dict[int, tuple[Any, Any]] = {
    16: (8, 16),
    32: ((4, 2), (32, X(0x90))),
    64: ((2, 4), (64, X(0x90))),
    128: (8, X(0x90)),
}


@dataclass(frozen=True)
class TileLayout:
    """Layout of a ``rows x cols`` tile in shared memory; sizes in elements, offsets in bytes.

    ``panel_stride`` is the distance in bytes between two panels. It is larger than a panel of this
    tile when the tile is a range of rows of a taller one. ``pitch`` is the distance between two rows of a
    dense tile that is a range of columns of a wider one; 0 where the rows lie one behind the other.
    """

    rows: int
    cols: int
    itemsize: int
    swizzle: int
    panel_stride: int
    pitch: int = 0

    @classmethod
    def of(cls, rows: int, cols: int, itemsize: int, swizzle: int) -> TileLayout:
        """The layout of a whole tile. Raises ValueError where the columns don't fill the panels."""
        if swizzle not in SWIZZLES:
            raise ValueError(f"swizzle is one of {SWIZZLES} bytes, not {swizzle}")
        row_bytes = cols * itemsize
        if swizzle and row_bytes % swizzle and row_bytes > swizzle:
            raise ValueError(
                f"a row of {cols} elements is {row_bytes} bytes, not a multiple of the {swizzle}-byte swizzle"
            )
        if swizzle and row_bytes < swizzle:
            raise ValueError(
                f"a row of {cols} elements is {row_bytes} bytes, narrower than the {swizzle}-byte swizzle"
            )
        return cls(rows, cols, itemsize, swizzle, rows * (swizzle or row_bytes))

    @property
    def panel_bytes(self) -> int:
        """Width of a panel's row in bytes."""
        return self.swizzle or self.cols * self.itemsize

    @property
    def row_stride(self) -> int:
        """The distance between two rows of a panel, in bytes."""
        return self.pitch or self.panel_bytes

    @property
    def panel_cols(self) -> int:
        """Columns of a panel, in elements."""
        return self.panel_bytes // self.itemsize

    @property
    def panels(self) -> int:
        """How many panels lie one behind the other; each is as wide as the swizzle."""
        return self.cols // self.panel_cols

    @property
    def bytes(self) -> int:
        """Bytes of data in the tile (what a TMA load of it adds to an mbarrier's transaction count)."""
        return self.rows * self.cols * self.itemsize

    @property
    def span(self) -> int:
        """Bytes from the tile's first to its last one; of a part of a taller tile more than `bytes`."""
        return (self.panels - 1) * self.panel_stride + (self.rows - 1) * self.row_stride + self.panel_bytes

    @property
    def alignment(self) -> int:
        """The tile starts at a multiple of so many bytes."""
        return ALIGNMENT[self.swizzle]

    @overload
    def offset(self, row: int, col: int) -> int: ...
    @overload
    def offset(self, row: Value, col: Int) -> Value: ...
    @overload
    def offset(self, row: int, col: Value) -> Value: ...

    def offset(self, row: Int, col: Int) -> Int:
        """Byte offset of element (row, col), Python ints or traced integers."""
        width = self.panel_cols
        if self.panels == 1:
            linear = row * self.row_stride + col * self.itemsize
        else:
            linear = (
                (col // width) * self.panel_stride
                + row * self.row_stride
                + (col % width) * self.itemsize
            )
        return swizzle_offset(linear, self.swizzle)

    def as_layout(self) -> Layout:
        """The tile in the algebra: (row, column) to a byte offset, the same as `offset`.

        >>> print(TileLayout.of(64, 64, 2, 128).as_layout())
        ((8,8),64):((X(0x90),1024),X(0x2))

        Raises LayoutError for a number of rows that ends within a pattern of 8 and doesn't divide it.
        """
        if not self.swizzle:
            return Layout((self.rows, self.cols), (self.row_stride, self.itemsize))
        shape, stride = _ROWS[self.swizzle]
        col = X(self.itemsize) if self.swizzle > 16 else self.itemsize
        eight = Layout(
            ((shape, -(-self.rows // 8)), (self.panel_cols, self.panels)),
            ((stride, 8 * self.swizzle), (col, self.panel_stride)),
        )
        return coalesce(composition(eight, (self.rows, self.cols)), (None, None))

    def take_rows(self, rows: int) -> TileLayout:
        """The layout of ``rows`` consecutive rows of this tile (starting at a multiple of 8 where it has a swizzle)."""
        return replace(self, rows=rows)

    def take_panels(self, cols: int) -> TileLayout:
        """The layout of ``cols`` consecutive columns: whole panels, or any of a dense tile."""
        pitch = self.row_stride if not self.swizzle and cols != self.cols else self.pitch
        return replace(self, cols=cols, pitch=pitch)
