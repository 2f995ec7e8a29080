"""Any layout as a grid: the address of each coordinate, or who holds each element of a tile.

Addresses stand in rows (mode 0) and columns (all other modes). A layout that gives coordinates of two axes is drawn on
the grid of these coordinates: which thread (mode 0) and which of its values (the other modes) is there.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.layout import Layout, make_layout
from nvdsl.layout.draw.svg import GREY, INK, LIGHT, PALETTE, PAPER, Svg, text_width
from nvdsl.layout.memory import BANK_BYTES, BANKS, conflicts_at

MOST = 4_096
"""Cells of a picture."""

UNIT = 16
"""Bytes of a colour where colours are banks: four banks, as eight colours are told apart and 32 are not."""


@dataclass(frozen=True)
class Cell:
    """``colour``: of the palette."""

    label: str
    colour: int
    tip: str


@dataclass(frozen=True)
class Drawing:
    """``cells[row][column]``; None where nothing is."""

    title: str
    notes: list[str]
    cells: list[list[Cell | None]] = field(repr=False)

    def svg(self) -> str:
        longest = max(len(cell.label) for row in self.cells for cell in row if cell is not None)
        wide, high, left = max(6.6 * longest + 8, 26), 24, 66
        top = 62 + 18 * len(self.notes)
        least = max(text_width(line) for line in [self.title, self.title, *self.notes]) + 40
        svg = Svg(max(left + wide * len(self.cells[0]) + 24, least), top + high * len(self.cells) + 20, self.title)
        svg.text(16, 28, self.title, size=17, bold=True)
        for i, line in enumerate(self.notes):
            svg.text(16, 48 + 18 * i, line, colour=GREY)
        for column in range(len(self.cells[0])):
            svg.text(left + wide * (column + 0.5), top - 6, str(column), size=10, anchor="middle", colour=GREY)
        for i, row in enumerate(self.cells):
            y = top + high * i
            svg.text(left - 8, y + 16, str(i), size=11, anchor="end", colour=GREY)
            for j, cell in enumerate(row):
                x = left + wide * j
                if cell is None:
                    svg.rect(x, y, wide, high, PAPER, stroke=LIGHT, radius=0)
                    continue
                svg.rect(x, y, wide, high, PALETTE[cell.colour], stroke=PAPER, tip=cell.tip, radius=0)
                svg.text(x + wide / 2, y + 16, cell.label, size=11, anchor="middle", colour=INK, mono=True)
        return str(svg)

    def text(self) -> list[Any]:
        """Lines for rich, which drops the colours where there is no terminal."""
        from rich.text import Text

        wide = max(len(cell.label) for row in self.cells for cell in row if cell is not None) + 2
        edge = len(str(len(self.cells) - 1))
        head = " " * edge + "".join(str(j).center(wide) for j in range(len(self.cells[0])))
        lines = [Text(self.title, style="bold"), *(Text(note, style="dim") for note in self.notes), Text(head.rstrip())]
        for i, row in enumerate(self.cells):
            out = Text(f"{i:>{edge}}")
            for cell in row:
                if cell is None:
                    out.append(".".center(wide))
                else:
                    out.append(cell.label.center(wide), f"{INK} on {PALETTE[cell.colour]}")
            lines.append(out)
        return lines


def addresses(layout: Layout, bytes: int | None = None) -> Drawing:
    """Where each coordinate lies. ``bytes``: the addresses are bytes of shared memory, accessed so many at a time; the
    colours are banks then, and the notes say what conflicts there are. Else neighbouring addresses share a colour.
    """
    rows, columns = _two_modes(layout)
    both = make_layout(rows, columns)
    grid = [[both(i, j) for j in range(columns.size)] for i in range(rows.size)]
    if bytes is None:
        step = max(1, -(-(1 + max(map(max, grid))) // len(PALETTE)))
        each = f" A colour is {step} addresses in a row." if step > 1 else ""
        notes = [f"Row: mode 0; column: {_others(layout)}.{each}"]
    else:
        step = UNIT
        colours = f"A colour is {UNIT // BANK_BYTES} of the {BANKS} banks."
        notes = [f"Row: mode 0; column: {_others(layout)}. Addresses are bytes. {colours}", *_conflicts(grid, bytes)]

    def cell(i: int, j: int, address: int) -> Cell:
        bank = f", bank {address // BANK_BYTES % BANKS}" if bytes else ""
        return Cell(str(address), address // step % len(PALETTE), f"({i}, {j}): {address}{bank}")

    cells: list[list[Cell | None]] = [[cell(i, j, a) for j, a in enumerate(row)] for i, row in enumerate(grid)]
    return Drawing(str(layout), notes, cells)


def _two_modes(layout: Layout) -> tuple[Layout, Layout]:
    modes = list(layout)
    if len(modes) == 1:
        return Layout(1, 0), modes[0]
    return modes[0], modes[1] if len(modes) == 2 else make_layout(*modes[1:])


def _others(layout: Layout) -> str:
    return "mode 1" if len(layout) <= 2 else f"modes 1 to {len(layout) - 1}, the first one fastest"


def _conflicts(grid: list[list[int]], bytes: int) -> list[str]:
    """What it costs to read down a column, and along a row, with one coordinate a lane."""
    found = []
    for name, accesses in (("down a column", list(zip(*grid, strict=True))), ("along a row", grid)):
        ways = max(conflicts_at(lanes, bytes) for lanes in accesses)
        if len(accesses[0]) > 1:
            cost = "no bank conflicts" if ways == 1 else f"{ways} times as long as without bank conflicts"
            found.append(f"Lanes {name}, {bytes} bytes each: {cost}.")
    return found


def owners(layout: Layout, colour: str = "thread") -> Drawing:
    """Who holds each element: ``layout`` gives coordinates of two axes. ``colour``: "thread" or "value"."""
    threads, values = _two_modes(layout) if len(layout) > 1 else (layout[0], Layout(1, layout.zero))
    both = make_layout(threads, values)
    held: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for t in range(threads.size):
        for v in range(values.size):
            row, col = both(t, v)
            held.setdefault((row, col), []).append((t, v))
    height, width = (1 + max(place[axis] for place in held) for axis in (0, 1))
    most = {"thread": threads.size, "value": values.size}[colour]

    def cell(place: tuple[int, int]) -> Cell | None:
        if place not in held:
            return None
        (t, v), *others = held[place]
        number = t if colour == "thread" else v
        tip = f"row {place[0]}, column {place[1]}: " + ", ".join(f"thread {t} value {v}" for t, v in held[place][:8])
        return Cell(f"T{t} V{v}" + (f" +{len(others)}" if others else ""), number % len(PALETTE), tip)

    again = f": each {len(PALETTE)} {colour}s they begin anew" if most > len(PALETTE) else ""
    notes = [f"T: thread (mode 0), V: its value ({_others(layout)}). Colours: the {colour}{again}."]
    if any(len(all) > 1 for all in held.values()):
        notes.append("+n: so many others hold the same element.")
    return Drawing(str(layout), notes, [[cell((i, j)) for j in range(width)] for i in range(height)])
