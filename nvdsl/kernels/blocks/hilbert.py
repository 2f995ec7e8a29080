"""Tiles along Hilbert curves: however many tiles are in work at once, they lie close together.

Bands of ``side`` rows of tiles go there and back, one curve in each square of side x side tiles. With a side of 2:

    .--   .--.  .--.  .--.
    |     |  |  |  |  |  |
    '-----'  '--'  '--'  |
                         |
    .-----.  .--.  .--.  |
    |     |  |  |  |  |  |
    '--   '--'  '--'  '--'

A square's curve runs from corner to corner along one edge, so that squares side by side make one curve: to the right
along a band's lower edge, to the left along the next one's upper edge. The first square of a band lies on its side and
leads to the next band. What is too narrow for a square, on the right and below, is taken column by column.

Next to `schedule.row_groups` with the best group for a GPU's number of SMs this reads about as much; with a group that
is too large, or when other numbers of tiles are in work, less. It never jumps from one end of the matrix to the other.
"""

from __future__ import annotations

from typing import Any


def curve(d: Any, side: int) -> tuple[Any, Any]:
    """Point ``d`` (0 to side² - 1) of the Hilbert curve from (0, 0) to (side - 1, 0); ``side``: a power of two.

    From the lowest two bits up: they say in which quadrant the point is, and how what was found so far, the curve of
    half the side, lies in it. All sides are known when the kernel is traced: some ten shifts and XORs for each.
    """
    x: Any = 0
    y: Any = 0
    half = 1
    while half < side:
        right = d >> 1 & 1
        upper = (d ^ right) & 1
        lower = upper - 1  # -1: all bits, or 0
        turned = lower & -right & (half - 1)  # the last quadrant's curve is upside down
        exchanged = (x ^ y) & lower  # the first and the last one's are mirrored at the diagonal
        x, y = x ^ exchanged ^ turned, y ^ exchanged ^ turned
        x, y = x + right * half, y + upper * half
        d, half = d >> 2, half * 2
    return x, y


def up_and_down(t: Any, height: int) -> tuple[Any, Any]:
    """Row and column of number ``t``, column by column: the first one down, the next one up."""
    row, col = t % height, t // height
    return row + col % 2 * (height - 1 - 2 * row), col


def hilbert(t: Any, rows: int, cols: int, group: int) -> tuple[Any, Any]:
    """Bands of squares of ``group`` x ``group`` tiles (or of the next lower power of two)."""
    side = 1 << (group.bit_length() - 1)
    squares, bands = cols // side, rows // side
    band = t // (side * cols)
    odd = band % 2
    within = t - band * (side * cols)
    row, col = in_band(within + odd * (side * cols - 1 - 2 * within), side, squares)  # an odd band runs backwards,
    row = row + odd * (side - 1 - 2 * row)  # upside down
    if rows % side:
        if band == bands:  # the last rows
            row, col = up_and_down(within, rows % side)
            col = col + odd * (cols - 1 - 2 * col)
    return band * side + row, col


def in_band(t: Any, side: int, squares: int) -> tuple[Any, Any]:
    """Row and column of number ``t`` in a band that runs to the right: ``squares`` squares, then what is left."""
    square, d = t // (side * side), t % (side * side)
    along, away = curve(d, side)
    row, col = side - 1 - away, along
    if square == 0:
        row, col = col, row
    col = col + square * side
    if t >= squares * side * side:
        row, col = up_and_down(t - squares * side * side, side)
        row, col = side - 1 - row, col + squares * side
    return row, col
