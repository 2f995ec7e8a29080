"""The picture of any layout: addresses, owners, colours and bank conflicts."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from nvdsl.layout import MMA_C, Layout, X, composition, identity, make_layout_tv, parse, row_major, wgmma_accumulator
from nvdsl.layout.draw.layout import addresses, owners
from nvdsl_command import main

DOCS = Path(__file__).parents[4] / "docs"


def words(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_addresses_stand_at_their_coordinates():
    drawing = addresses(parse("(4,(4,2)):(4,(1,16))"))
    assert [[int(c.label) for c in row] for row in drawing.cells] == [
        [4 * i + j % 4 + 16 * (j // 4) for j in range(8)] for i in range(4)
    ]
    assert [c.colour for c in drawing.cells[1]] == [1, 1, 1, 1, 5, 5, 5, 5]
    assert all(words(drawing.svg()).count(str(a)) >= 1 for a in range(32))


def test_one_mode_is_a_row_and_more_than_two_go_on_to_the_right():
    assert len(addresses(Layout(5, 3)).cells) == 1
    deep = addresses(row_major(2, 3, 4))
    assert (len(deep.cells), len(deep.cells[0])) == (2, 12)
    assert [int(c.label) for c in deep.cells[0]][:4] == [0, 4, 8, 1]


@pytest.mark.parametrize(
    ("stride", "down"), [(128, "8 times as long"), (144, "no bank conflicts"), (X(0x90), "no bank conflicts")]
)
def test_banks(stride, down):
    drawing = addresses(Layout((8, 8), (stride, X(16) if isinstance(stride, X) else 16)), 16)
    assert any(note.startswith("Lanes down a column, 16 bytes each: " + down) for note in drawing.notes)
    first = [row[0].colour for row in drawing.cells]
    assert len(set(first)) == (1 if stride == 128 else 8)
    assert "bank" in drawing.cells[0][0].tip


def test_owners_of_a_fragment():
    drawing = owners(MMA_C)
    assert (len(drawing.cells), len(drawing.cells[0])) == (16, 8)
    assert [c.label for c in drawing.cells[9]][:3] == ["T4 V2", "T4 V3", "T5 V2"]
    assert [c.colour for c in drawing.cells[0]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [c.colour for c in owners(MMA_C, "value").cells[8]] == [2, 3] * 4
    assert all(words(drawing.svg()).count(c.label) == 1 for row in drawing.cells for c in row)


def test_owners_of_a_copy():
    shape, tv = make_layout_tv(row_major(4, 2), row_major(1, 4))
    drawing = owners(composition(identity(*shape), tv))
    assert [c.label for c in drawing.cells[1]] == [f"T{2 + j // 4} V{j % 4}" for j in range(8)]


def test_what_several_hold_and_nobody_holds():
    broadcast = owners(parse("(4,2):(0@1,1@1)"))
    assert [c.label for c in broadcast.cells[0]] == ["T0 V0 +3", "T0 V1 +3"]
    gaps = owners(parse("(2,2):(2@0,1@1)"))
    assert gaps.cells[1] == [None, None] and gaps.text()[4].plain.split() == ["1", ".", "."]
    ElementTree.fromstring(gaps.svg())


def test_command(capsys, tmp_path):
    assert main(["draw", "layout", "(2,3):(3,1)", "--text"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["0 0  1  2 ", "1 3  4  5 "]
    out = tmp_path / "a.svg"
    assert main(["draw", "layout", "wgmma_accumulator(8)", "--colour", "value", "--out", str(out)]) == 0
    assert "T127 V3" in words(out.read_text())
    assert main(["draw", "layout", "((4,2),4):((8,1),2)", "--tile", "2x16", "--text"]) == 0
    for name in ("mma_a(2)", "MMA_C", "matrix_values()", "FRAGMENT_ROWS"):
        assert main(["draw", "layout", name, "--text"]) == 0
    assert str(wgmma_accumulator(8)) not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["(4,4):(1,"], "is no layout"),
        (["wgmma_accumulator(7)"], "multiple of 8"),
        (["wgmma_accumulator(264)"], "multiples of 8 from 8 to 256"),
        (["mma_a(3)"], "1, 2, 4 or 8 bytes"),
        (["nothing"], "none of Hopper's"),
        (["wgmma_accumulator"], "none of Hopper's"),
        (["(128,128):(128,1)"], "a picture holds"),
        (["(2,2):(100@0,100@1)"], "reaches over 101x101"),
        (["(2,2):(-1,1)"], "negative"),
        (["(2,2):(-1@0,1@1)"], "from (0, 0) on"),
        (["(2,2):(1@0,1@2)"], "3 axes"),
        (["MMA_C", "--banks", "4"], "no banks"),
        (["MMA_C", "--tile", "4x4"], "--tile is for"),
        (["(4,4):(1,4)", "--tile", "4"], "an x between"),
    ],
)
def test_refused(arguments, says, capsys):
    assert main(["draw", "layout", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
