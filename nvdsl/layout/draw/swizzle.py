"""A tile as the array has it, and as it lies in shared memory: where the swizzle puts each 16-byte unit.

A unit keeps its colour in both halves of the picture. A line of shared memory is 128 bytes: all 32 banks once, so units
in one column of it share their banks.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.layout import TileLayout
from nvdsl.layout.draw import page
from nvdsl.layout.draw.svg import GREY, INK, LIGHT, PALETTE, PAPER, Svg
from nvdsl.layout.tile import SWIZZLES

UNIT, LINE = 16, 128

BYTES = {"f32": 4, "tf32": 4, "i32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "u8": 1}
"""Of an element of each type."""

MOST = 16_384
"""Bytes of a tile that a picture shows."""


@dataclass(frozen=True)
class Unit:
    """16 bytes: row ``row``, from column ``col`` on; the ``place``-th of its row."""

    row: int
    col: int
    place: int

    @property
    def colour(self) -> int:
        return self.place % len(PALETTE)


@dataclass(frozen=True)
class Drawing:
    """``tile``: at least one row of 16 bytes, of elements called ``dtype``."""

    tile: TileLayout
    dtype: str

    @property
    def _per(self) -> int:
        return UNIT // self.tile.itemsize

    def array(self) -> list[list[Unit]]:
        """The units in the order of the array."""
        count = self.tile.cols // self._per
        return [[Unit(r, c * self._per, c) for c in range(count)] for r in range(self.tile.rows)]

    def memory(self) -> list[list[Unit | None]]:
        """128-byte lines of shared memory, from the tile's start on; None where no unit lies."""
        offsets = {self.tile.offset(u.row, u.col) // UNIT: u for row in self.array() for u in row}
        lines = -(-(max(offsets) + 1) * UNIT // LINE)
        return [[offsets.get(line * 8 + i) for i in range(8)] for line in range(lines)]

    @property
    def title(self) -> str:
        mode = f"{self.tile.swizzle}-byte swizzle" if self.tile.swizzle > 16 else (
            "no swizzle, 16-byte columns" if self.tile.swizzle else "no swizzle")  # fmt: skip
        return f"{self.tile.rows} x {self.tile.cols} {self.dtype}, {mode}"

    def _label(self, unit: Unit) -> str:
        last = unit.col + self._per - 1
        return f"r{unit.row} c{unit.col}" if last == unit.col else f"r{unit.row} c{unit.col}-{last}"

    # --- SVG

    def svg(self) -> str:
        cell = max(68, 7 * max(len(self._label(u)) for row in self.array() for u in row) + 6)
        array, memory, high = self.array(), self.memory(), 24
        left, gap = 60, 110
        second = left + cell * len(array[0]) + gap
        width = second + cell * 8 + 24
        svg = Svg(width, 96 + high * max(len(array), len(memory)) + 44, self.title)
        svg.text(16, 28, self.title, size=17, bold=True)
        words = f"A cell is 16 bytes: {self._per} elements of row r, columns c. Colours: their place in the row."
        svg.text(16, 48, words, colour=GREY)
        svg.text(left, 80, "the array", bold=True)
        svg.text(second, 80, "shared memory, 128 bytes a line (each column: the same four banks)", bold=True)
        for y, row in enumerate(array):
            svg.text(left - 8, 96 + high * y + 16, f"row {y}", anchor="end", size=11, colour=GREY)
            for x, unit in enumerate(row):
                self._cell(svg, left + cell * x, 96 + high * y, cell, high, unit)
        for y, line in enumerate(memory):
            svg.text(second - 8, 96 + high * y + 16, f"byte {y * LINE:,}", anchor="end", size=11, colour=GREY)
            for x, found in enumerate(line):
                self._cell(svg, second + cell * x, 96 + high * y, cell, high, found)
        y = 96 + high * max(len(array), len(memory)) + 24
        svg.text(16, y, _rule(self.tile.swizzle), colour=GREY)
        return str(svg)

    def _cell(self, svg: Svg, x: float, y: float, width: float, height: float, unit: Unit | None) -> None:
        if unit is None:
            svg.rect(x, y, width, height, PAPER, stroke=LIGHT, radius=0)
            return
        tip = f"row {unit.row}, columns from {unit.col}: byte {self.tile.offset(unit.row, unit.col):,} of the tile"
        svg.rect(x, y, width, height, PALETTE[unit.colour], stroke=PAPER, tip=tip, radius=0)
        svg.text(x + width / 2, y + height / 2 + 4, self._label(unit), size=11, anchor="middle", colour=INK, mono=True)

    # --- HTML

    def html(self) -> str:
        """A page that begins with this tile, and in which any other one can be chosen."""
        tile = self.tile
        data = {"dtypes": BYTES, "dtype": self.dtype, "rows": tile.rows, "cols": tile.cols, "swizzle": tile.swizzle,
                "swizzles": SWIZZLES, "most": MOST}  # fmt: skip
        return page.html("swizzle", "nvdsl: swizzle explorer", data)

    # --- text

    def text(self) -> list[Any]:
        """Lines of the memory half, for rich."""
        from rich.text import Text

        memory = self.memory()
        width = max(len(self._label(u)) for line in memory for u in line if u is not None) + 2
        edge = len(f"{LINE * (len(memory) - 1):,}")
        lines = [Text(f"{self.title}: shared memory, 128 bytes a line; r row, c columns", style="bold")]
        for number, line in enumerate(memory):
            out = Text(f"{LINE * number:>{edge},}  ")
            for unit in line:
                label = "" if unit is None else self._label(unit)
                style = "" if unit is None else f"{INK} on {PALETTE[unit.colour]}"
                out.append(label.center(width), style)
            lines.append(out)
        return [*lines, Text(_rule(self.tile.swizzle), style="dim")]


def _rule(swizzle: int) -> str:
    if swizzle <= 16:
        return "No bits are permuted."
    top = 4 + (swizzle // 16 - 1).bit_length()
    bits = "bit 4" if top == 5 else f"bits 4 to {top - 1}"
    with_ = "bit 7" if top == 5 else f"bits 7 to {top + 2}"
    return f"{swizzle}-byte swizzle: {bits} of the byte's address, XOR {with_} (PTX ISA, Tensor swizzling modes)."
