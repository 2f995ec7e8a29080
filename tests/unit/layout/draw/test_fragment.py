"""The picture of a wgmma fragment, against the figures of the PTX ISA (Register Fragments for wgmma.mma_async)."""

from xml.etree import ElementTree

import pytest

from nvdsl.layout.draw import fragment


def at(drawing, row, col):
    return next((c.lane, c.register) for c in drawing.cells if c.row == row and c.col <= col < c.col + c.span)


@pytest.mark.parametrize(
    ("row", "col", "expected"),
    [
        (0, 0, (0, 0)), (0, 1, (0, 1)), (0, 7, (3, 1)), (8, 0, (0, 2)), (15, 7, (31, 3)), (0, 8, (0, 4)),
        (9, 63, (7, 31)),
    ],
)  # fmt: skip
def test_f32_accumulator(row, col, expected):
    assert at(fragment.accumulator(64, "f32"), row, col) == expected


@pytest.mark.parametrize(("row", "col", "expected"), [(0, 0, (0, 0)), (0, 1, (0, 0)), (8, 0, (0, 1)), (0, 8, (0, 2))])
def test_f16_accumulator_has_two_elements_a_register(row, col, expected):
    assert at(fragment.accumulator(64, "f16"), row, col) == expected


@pytest.mark.parametrize(
    ("dtype", "size", "row", "col", "expected"),
    [
        ("f16", 2, 0, 0, (0, 0)), ("f16", 2, 8, 1, (0, 1)), ("f16", 2, 0, 8, (0, 2)), ("f16", 2, 15, 15, (31, 3)),
        ("tf32", 4, 0, 3, (3, 0)), ("tf32", 4, 0, 4, (0, 2)), ("e4m3", 1, 1, 19, (4, 2)),
    ],
)  # fmt: skip
def test_a_in_registers(dtype, size, row, col, expected):
    assert at(fragment.a(dtype, size), row, col) == expected


@pytest.mark.parametrize("drawing", [fragment.accumulator(8, "f32"), fragment.accumulator(256, "f16"),
                                     fragment.a("bf16", 2), fragment.a("e5m2", 1)], ids=str)  # fmt: skip
def test_each_element_is_held_once(drawing):
    held = [(c.row, col) for c in drawing.cells for col in range(c.col, c.col + c.span)]
    assert sorted(held) == [(row, col) for row in range(16) for col in range(drawing.columns)]


def test_svg_shows_all_cells():
    drawing = fragment.accumulator(64, "f32")
    picture = ElementTree.fromstring(drawing.svg())
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert all(words.count(f"T{c.lane} d{c.register}") == 1 for c in drawing.cells)


def test_text_says_how_it_goes_on():
    lines = [line.plain for line in fragment.accumulator(256, "f32").text()]
    assert lines[2].split()[:6] == ["row", "0", "T0", "d0", "T0", "d1"]
    assert lines[-1].startswith("and so on: 4 registers more every 8 columns")
