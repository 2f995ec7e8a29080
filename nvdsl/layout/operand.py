"""How wgmma walks a tile in shared memory: its matrix descriptor.

Sources: PTX ISA, "Asynchronous Warpgroup Level Majorness, Shared Memory Layout and Strides", "Matrix Descriptor
Format".
"""

from __future__ import annotations

from nvdsl.errors.records import dataclass
from nvdsl.hopper.arch import WGMMA_K_BYTES, WGMMA_SWIZZLE_MODES
from nvdsl.layout.tile import TileLayout

DESCRIPTOR_SWIZZLE = {swizzle or 16: mode for swizzle, mode in WGMMA_SWIZZLE_MODES.items()}
"""The 2-bit field of a wgmma matrix descriptor, by the bytes of a panel's swizzle (16: none)."""


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
