"""Which lane and which of its registers hold each element of a wgmma fragment: the accumulator, or A in registers.

The picture shows warp 0: rows 0 to 15. Warp w of the warpgroup holds rows 16w to 16w + 15 in the same way. PTX ISA,
"Register Fragments for wgmma.mma_async"; the numbers are `nvdsl.layout`'s.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.layout import WGMMA_K_BYTES, a_fragment_element, accumulator_element
from nvdsl.layout.draw.svg import GREY, INK, PALETTE, PAPER, Svg

ROWS, LANES = 16, 32

BAND = 32
"""Columns that a picture has side by side."""


@dataclass(frozen=True)
class Cell:
    """``span`` neighbouring columns that one register of ``lane`` holds."""

    lane: int
    register: int
    row: int
    col: int
    span: int


@dataclass(frozen=True)
class Drawing:
    """``letter``: of the register, as PTX names the operand ("d", "a"). ``cells``: of warp 0."""

    title: str
    letter: str
    columns: int
    cells: list[Cell] = field(repr=False)

    def grid(self) -> list[list[Cell]]:
        """Cells by row and column."""
        rows: list[list[Cell]] = [[] for _ in range(ROWS)]
        for cell in sorted(self.cells, key=lambda c: (c.row, c.col)):
            rows[cell.row].append(cell)
        return rows

    def _label(self, cell: Cell) -> str:
        return f"T{cell.lane} {self.letter}{cell.register}"

    # --- SVG

    def svg(self) -> str:
        span = self.cells[0].span
        longest = max(len(self._label(cell)) for cell in self.cells)
        cell_width, high, left, top = max(6.1 * longest + 5, 22.0 * span), 22, 66, 96
        columns = min(self.columns, BAND)
        bands = -(-self.columns // BAND)
        width = max(left + cell_width * columns / span + 24, 720)
        svg = Svg(width, top + bands * (high * ROWS + 46) + 4, self.title)
        svg.text(16, 28, self.title, size=17, bold=True)
        each = f" ({span} elements in each)" if span > 1 else ""
        words = f"Warp 0; warp w of the warpgroup has rows 16w to 16w + 15. T: lane, {self.letter}: register{each}."
        svg.text(16, 48, words, colour=GREY)
        svg.text(16, 66, "The same colour is the same lane / 4; what lane 5 holds has a border.", colour=GREY)
        for band in range(bands):
            y = top + band * (high * ROWS + 46)
            first = band * BAND
            for col in range(first, min(first + BAND, self.columns), span):
                x = left + cell_width * (col - first) / span
                name = str(col) if span == 1 else f"{col}-{col + span - 1}"
                svg.text(x + cell_width / 2, y - 4, name, size=10, anchor="middle", colour=GREY)
            for row, cells in enumerate(self.grid()):
                svg.text(left - 8, y + high * row + 15, f"row {row}", size=11, anchor="end", colour=GREY)
                for cell in (c for c in cells if first <= c.col < first + BAND):
                    x = left + cell_width * (cell.col - first) / span
                    self._cell(svg, x, y + high * row, cell_width, high, cell)
        return str(svg)

    def _cell(self, svg: Svg, x: float, y: float, width: float, height: float, cell: Cell) -> None:
        mine = cell.lane == 5
        svg.rect(x + 0.5, y + 0.5, width - 1, height - 1, PALETTE[cell.lane // 4], stroke=INK if mine else PAPER,
                 line=1.5 if mine else 1, radius=0, tip=f"row {cell.row}, column {cell.col}")  # fmt: skip
        svg.text(x + width / 2, y + height / 2 + 4, self._label(cell), size=10, anchor="middle", mono=True)

    # --- text

    def text(self) -> list[Any]:
        """Lines for rich: of a wide accumulator the first 16 columns, after which the pattern repeats."""
        from rich.text import Text

        shown = min(self.columns, 16) if self.letter == "d" else self.columns
        width = max(len(self._label(cell)) for cell in self.cells) + 2
        head = Text("        ")
        for cell in self.grid()[0]:
            if cell.col < shown:
                name = str(cell.col) if cell.span == 1 else f"{cell.col}-{cell.col + cell.span - 1}"
                head.append(name.center(width))
        lines = [Text(f"{self.title}: warp 0; warp w has rows 16w to 16w + 15", style="bold"), head]
        for row, cells in enumerate(self.grid()):
            out = Text(f"row {row:>2}  ")
            for cell in cells:
                if cell.col < shown:
                    out.append(self._label(cell).center(width), f"{INK} on {PALETTE[cell.lane // 4]}")
            lines.append(out)
        if shown < self.columns:
            step = 4 if self.cells[0].span == 1 else 2
            lines.append(Text(f"and so on: {step} registers more every 8 columns, up to column {self.columns - 1}",
                              style="dim"))  # fmt: skip
        return lines


def accumulator(n: int, dtype: str) -> Drawing:
    """D of ``wgmma.m64nN``: an element a register, two of f16."""
    span = 2 if dtype == "f16" else 1
    cells = []
    for lane in range(LANES):
        for register in range(n // 2 // span):
            row, col = accumulator_element(lane, register * span)
            cells.append(Cell(lane, register, row, col, span))
    return Drawing(f"wgmma accumulator, m64n{n}, {dtype}", "d", n, cells)


def a(dtype: str, itemsize: int) -> Drawing:
    """A in registers, 64 rows of 32 bytes: four registers a lane."""
    cells = []
    for lane in range(LANES):
        for register in range(4):
            row, col = a_fragment_element(lane, register, itemsize)
            cells.append(Cell(lane, register, row, col, 4 // itemsize))
    k = WGMMA_K_BYTES // itemsize
    return Drawing(f"wgmma operand A in registers, m64k{k}, {dtype}", "a", k, cells)
