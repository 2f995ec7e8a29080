"""The picture of a swizzled tile, against the tables of the PTX ISA (Tensor swizzling modes), copied by hand."""

from xml.etree import ElementTree

import pytest

from nvdsl.layout import TileLayout
from nvdsl.layout.draw.swizzle import Drawing

# Which 16-byte unit of its row lies at each place of the eight lines of 128 bytes (PTX ISA, figures of the modes).
LINES_128 = ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"]
LINES_64 = ["0123", "0123", "1032", "1032", "2301", "2301", "3210", "3210"]
LINES_32 = ["01"] * 4 + ["10"] * 4


@pytest.mark.parametrize(("swizzle", "cols", "rows"), [(128, 64, LINES_128), (64, 32, LINES_64), (32, 16, LINES_32)])
def test_units_lie_where_the_tables_say(swizzle, cols, rows):
    memory = Drawing(TileLayout.of(8, cols, 2, swizzle), "f16").memory()
    units = [unit for line in memory for unit in line if unit is not None]
    assert [str(unit.place) for unit in units] == list("".join(rows))
    assert [unit.row for unit in units] == [row for row in range(8) for _ in rows[0]]


def test_every_unit_is_there_once():
    drawing = Drawing(TileLayout.of(16, 128, 2, 128), "f16")
    units = [(u.row, u.col) for line in drawing.memory() for u in line if u]
    assert sorted(units) == [(u.row, u.col) for row in drawing.array() for u in row]
    assert drawing.memory()[16][0].col == 64  # the second panel, behind 16 rows of the first


def test_svg_labels_each_unit_twice():
    picture = ElementTree.fromstring(Drawing(TileLayout.of(8, 32, 4, 128), "f32").svg())
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "8 x 32 f32, 128-byte swizzle" in words
    for row in range(8):
        for col in range(0, 32, 4):
            assert words.count(f"r{row} c{col}-{col + 3}") == 2


def test_text_shows_the_lines_of_memory():
    lines = [line.plain for line in Drawing(TileLayout.of(8, 64, 2, 128), "f16").text()]
    assert lines[1].split() == ["0", *(word for c in range(0, 64, 8) for word in ("r0", f"c{c}-{c + 7}"))]
    assert lines[2].split()[:5] == ["128", "r1", "c8-15", "r1", "c0-7"]
    assert len(lines) == 10
