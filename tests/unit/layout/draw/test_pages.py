"""Pages: they need nothing but themselves, and the swizzle explorer says what `nvdsl.layout` says."""

import json
import re

import pytest

from nvdsl.layout import TileLayout
from nvdsl.layout.draw import page
from nvdsl.layout.draw.swizzle import BYTES, MOST, Drawing
from nvdsl.layout.memory import conflicts_at


@pytest.mark.parametrize("name", ["slots", "swizzle"])
def test_pages_need_nothing_else(name):
    html = page.html(name, "a & b", {"text": "</script><b>"})
    assert "<title>a &amp; b</title>" in html
    assert html.count("</script>") == 2, "the data's own text does not end its element"
    assert set(re.findall(r"https?://[^\"']*", html)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|\bsrc=|<link|\burl\((?!#)", html)


SHAPES = [(8, 16), (8, 64), (40, 128), (16, 32), (64, 64), (13, 64), (3, 256)]


def tiles():
    for itemsize in sorted(set(BYTES.values())):
        for rows, cols in SHAPES:
            for swizzle in (0, 16, 32, 64, 128):
                if rows * cols * itemsize <= MOST and cols * itemsize % 16 == 0:
                    yield rows, cols, itemsize, swizzle


def explorer(tab, tmp_path):
    tab.show(Drawing(TileLayout.of(16, 64, 2, 128), "f16").html(), tmp_path)


def test_offsets_and_conflicts_are_the_layouts(tab, tmp_path):
    explorer(tab, tmp_path)
    points = 0
    for rows, cols, itemsize, swizzle in tiles():
        name = f"{{rows: {rows}, cols: {cols}, itemsize: {itemsize}, swizzle: {swizzle}}}"
        refused = tab.value(f"refuse({rows}, {cols}, {itemsize}, {swizzle})")
        try:
            tile = TileLayout.of(rows, cols, itemsize, swizzle)
        except ValueError as error:
            assert refused == str(error)
            continue
        assert refused == ""
        element = f"(_, i) => offset({name}, Math.floor(i / {cols}), i % {cols})"
        told = tab.value(f"Array.from({{length: {rows * cols}}}, {element})")
        assert told == [tile.offset(row, col) for row in range(rows) for col in range(cols)], name
        points += len(told)
        per = 16 // itemsize
        for row, col in [(0, 0), (rows // 2, cols // 2), (rows - 1, cols - 1), (rows // 3, cols // 3)]:
            eight = [tile.offset(r, col - col % per) for r in range(row - row % 8, min(row - row % 8 + 8, rows))]
            down = [tile.offset(r, col) for r in range(row - row % 32, min(row - row % 32 + 32, rows))]
            along = [tile.offset(row, c) for c in range(col - col % 32, min(col - col % 32 + 32, cols))]
            expected = [conflicts_at(eight, 16), conflicts_at(down, itemsize), conflicts_at(along, itemsize)]
            told = [tab.value(f"conflicts({name}, '{access}', {row}, {col})") for access in ("matrix", "column", "row")]
            assert told == expected, (name, row, col)
    assert points > 50_000


def test_the_pointer_and_the_keys_choose_an_element(tab, tmp_path):
    tile = TileLayout.of(16, 64, 2, 128)
    explorer(tab, tmp_path)
    cell = "document.querySelector('#memory g[data-row=\"3\"][data-col=\"16\"] rect')"
    box = json.loads(tab.value(f"JSON.stringify({cell}.getBoundingClientRect())"))
    tab.move_to(box["x"] + box["width"] * 5.5 / 8, box["y"] + box["height"] / 2)
    title = "document.getElementById('element-title').textContent"
    byte = tile.offset(3, 21)
    assert tab.value(title) == f"Row 3, column 21: byte {byte}, bank {byte // 4 % 32}"
    tab.value("document.getElementById('array').focus()")
    tab.press("ArrowDown")
    tab.press("ArrowRight", times=2)
    byte = tile.offset(4, 23)
    assert tab.value(title) == f"Row 4, column 23: byte {byte}, bank {byte // 4 % 32}"
    assert tab.problems == []


def test_a_tile_that_there_is_not(tab, tmp_path):
    explorer(tab, tmp_path)
    tab.value("document.getElementById('cols').value = 24")
    tab.value("document.getElementById('cols').dispatchEvent(new Event('input'))")
    assert "48 bytes, narrower than the 128-byte swizzle" in tab.value("document.getElementById('refused').textContent")
    assert tab.value("document.getElementById('shown').hidden")
