"""Where an element of a tile lies: pure integer functions over bytes, no MLIR and no NumPy.

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

from dataclasses import dataclass
from typing import Any

SWIZZLES = (0, 16, 32, 64, 128)

# Bytes of alignment that a tile needs so that its swizzle pattern starts at phase 0 (the pattern
# repeats every 8 rows) and so that TMA accepts it (128).
ALIGNMENT = {0: 128, 16: 128, 32: 256, 64: 512, 128: 1024}

# The 2-bit field of a wgmma matrix descriptor.
DESCRIPTOR_SWIZZLE = {16: 0, 128: 1, 64: 2, 32: 3}

WGMMA_K_BYTES = 32
"""Bytes of K that one wgmma consumes, for every type: k16 of f16, k8 of tf32, k32 of fp8 and int8."""


def swizzle_offset(offset: Any, swizzle: int) -> Any:
    """Permute a byte offset within a tile: XOR bits [4, 4+n) with bits [7, 7+n), n = log2(swizzle/16).

    Works on Python ints and on traced integer values. ``offset`` counts from a base that is aligned
    to ``ALIGNMENT[swizzle]``.
    """
    if swizzle <= 16:
        return offset
    mask = swizzle // 16 - 1
    return offset ^ (((offset >> 7) & mask) << 4)


@dataclass(frozen=True)
class TileLayout:
    """Layout of a ``rows x cols`` tile in shared memory; sizes in elements, offsets in bytes.

    ``panel_stride`` is the distance in bytes between two panels. It is larger than a panel of this
    tile when the tile is a range of rows of a taller one.
    """

    rows: int
    cols: int
    itemsize: int
    swizzle: int
    panel_stride: int

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
        """Width of a panel's row in bytes (the distance between two rows)."""
        return self.swizzle or self.cols * self.itemsize

    @property
    def panel_cols(self) -> int:
        return self.panel_bytes // self.itemsize

    @property
    def panels(self) -> int:
        return self.cols // self.panel_cols

    @property
    def bytes(self) -> int:
        """Bytes of data in the tile (what a TMA load of it adds to an mbarrier's transaction count)."""
        return self.rows * self.cols * self.itemsize

    @property
    def span(self) -> int:
        """Bytes from the tile's first to its last one; of a part of a taller tile more than `bytes`."""
        return (self.panels - 1) * self.panel_stride + self.rows * self.panel_bytes

    @property
    def alignment(self) -> int:
        return ALIGNMENT[self.swizzle]

    def offset(self, row: Any, col: Any) -> Any:
        """Byte offset of element (row, col), Python ints or traced integers."""
        width = self.panel_cols
        if self.panels == 1:
            linear = row * self.panel_bytes + col * self.itemsize
        else:
            linear = (
                (col // width) * self.panel_stride
                + row * self.panel_bytes
                + (col % width) * self.itemsize
            )
        return swizzle_offset(linear, self.swizzle)

    def take_rows(self, rows: int) -> TileLayout:
        """The layout of ``rows`` consecutive rows of this tile (starting at a multiple of 8)."""
        return TileLayout(rows, self.cols, self.itemsize, self.swizzle, self.panel_stride)

    def take_panels(self, cols: int) -> TileLayout:
        """The layout of ``cols`` consecutive columns, whole panels."""
        return TileLayout(self.rows, cols, self.itemsize, self.swizzle, self.panel_stride)


# --- wgmma operands ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """How wgmma walks a tile: the leading and stride byte offsets of its matrix descriptor.

    ``major`` is ``"k"`` when K runs along the tile's rows (contiguous), ``"mn"`` when M or N does.
    """

    layout: TileLayout
    major: str

    @property
    def leading_bytes(self) -> int:
        """LBO: K-major without swizzle, between 16-byte columns; MN-major, between panels along M or N
        (swizzled) or between groups of 8 k (not swizzled); unused (16) for swizzled K-major."""
        if self.layout.swizzle > 16:
            return 16 if self.major == "k" else self.layout.panel_stride
        return self.layout.panel_stride if self.major == "k" else 8 * 16

    @property
    def stride_bytes(self) -> int:
        """SBO: between groups of 8 rows of a panel; MN-major without swizzle, between panels."""
        if self.layout.swizzle == 16 and self.major == "mn":
            return self.layout.panel_stride
        return 8 * self.layout.panel_bytes

    def k_offset(self, step: int) -> int:
        """Byte offset of the ``step``-th wgmma along K from the operand's start."""
        if self.major == "mn":  # K runs over the rows: 16 of them a step (MN-major is 16-bit only)
            return step * (WGMMA_K_BYTES // self.layout.itemsize) * self.layout.panel_bytes
        start = step * WGMMA_K_BYTES
        panel, within = divmod(start, self.layout.panel_bytes)
        return panel * self.layout.panel_stride + within

    def mn_offset(self, start: int) -> int:
        """Byte offset of row (K-major) or column (MN-major) ``start``, a multiple of 64 (8 for N)."""
        if self.major == "k":
            return start * self.layout.panel_bytes
        return (start // self.layout.panel_cols) * self.layout.panel_stride

    def descriptor_constant(self) -> int:
        """All fields of the 64-bit matrix descriptor but the start address (PTX ISA, "Matrix Descriptor
        Format": bits 16-29 LBO >> 4, 32-45 SBO >> 4, 62-63 swizzle mode)."""
        return (
            (self.leading_bytes >> 4 & 0x3FFF) << 16
            | (self.stride_bytes >> 4 & 0x3FFF) << 32
            | DESCRIPTOR_SWIZZLE[self.layout.swizzle] << 62
        )


# --- register fragments --------------------------------------------------------------------------


def accumulator_element(thread: Any, register: int) -> tuple[Any, Any]:
    """(row, column) in an m64nN accumulator of 32-bit ``register`` of ``thread`` (0..127).

    PTX ISA, "Register Fragments for wgmma.mma_async": four registers repeat every 8 columns.
    """
    row = thread // 32 * 16 + thread % 32 // 4 + register // 2 % 2 * 8
    col = register // 4 * 8 + thread % 4 * 2 + register % 2
    return row, col


def a_fragment_element(thread: Any, register: int, itemsize: int) -> tuple[Any, Any]:
    """(row, first column) in an m64kK A operand held in registers; a 32-bit register holds
    ``4 // itemsize`` consecutive columns (PTX ISA, register fragments of A for .f16, .tf32, .e4m3)."""
    per_register = 4 // itemsize
    row = thread // 32 * 16 + thread % 32 // 4 + register % 2 * 8
    col = thread % 4 * per_register + register // 2 * (4 * per_register)
    return row, col
