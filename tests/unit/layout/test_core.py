"""Layouts themselves: evaluation, slices, notation, and what is refused."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from nvdsl import errors
from nvdsl.layout import E, Layout, X, column_major, identity, make_layout, parse, row_major
from tests.unit.layout.layouts import layouts, of_bits, of_coordinates, table


def test_an_integer_counts_with_the_first_mode_fastest():
    # arXiv 2603.02298, section 2.4.1
    layout = Layout(((2, 2), (4, 2)), ((1, 8), (2, 16)))
    assert layout(22) == layout(2, 5) == layout((0, 1), (1, 1)) == 26


def test_the_last_mode_is_unbounded():
    assert Layout((4, 2), (1, 10))(4 * 7 + 3) == 73
    assert Layout(4, 3)(9) == 27


@pytest.mark.parametrize(
    ("layout", "rows"),
    [  # the paper's six layouts compatible with (4,8), its section 2.4.2: the first two rows
        ("(4,8):(1,4)", [[0, 4, 8, 12, 16, 20, 24, 28], [1, 5, 9, 13, 17, 21, 25, 29]]),
        ("(4,8):(8,1)", [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]),
        ("(4,8):(1,5)", [[0, 5, 10, 15, 20, 25, 30, 35], [1, 6, 11, 16, 21, 26, 31, 36]]),
        ("(4,(4,2)):(4,(1,16))", [[0, 1, 2, 3, 16, 17, 18, 19], [4, 5, 6, 7, 20, 21, 22, 23]]),
        ("((2,2),(4,2)):((1,8),(2,16))", [[0, 2, 4, 6, 16, 18, 20, 22], [1, 3, 5, 7, 17, 19, 21, 23]]),
        ("((2,2),(2,4)):((0,2),(0,4))", [[0, 0, 4, 4, 8, 8, 12, 12]] * 2),
    ],
)
def test_layouts_of_the_paper(layout, rows):
    assert [[parse(layout)(i, j) for j in range(8)] for i in range(2)] == rows


def test_coordinates_and_bits():
    assert Layout((4, (4, 2)), (E(0, 1), (E(1, 0), E(6, 0))))(3, (2, 1)) == (8, 3)
    swizzled = Layout((8, 64), (X(0x90), X(2)))
    assert [swizzled(r, 8) for r in range(8)] == [128 * r + 16 * (1 ^ r) for r in range(8)]
    assert type(swizzled(3, 8)) is int
    assert identity(4, (2, 3))(3, (1, 2)) == (3, 5)
    assert identity(8, 8)(0) == (0, 0)


def test_numpy_arrays_are_coordinates():
    layout = Layout(((8, 4), 64), ((X(0x90), 1024), X(2)))
    i, j = np.arange(32)[:, None], np.arange(64)
    expected = [[layout(r, c) for c in range(64)] for r in range(32)]
    assert (layout(i, j) == np.array(expected)).all()


def test_sizes():
    layout = Layout((4, (3, 2)), (8, (1, 100)))
    assert (layout.size, layout.cosize, layout.rank, len(layout[1])) == (24, 127, 2, 2)
    assert Layout((8, 8), (X(0x90), X(0x10))).cosize == 7 * 128 + 7 * 16 + 1
    with pytest.raises(errors.LayoutError, match="largest"):
        _ = identity(4, 4).cosize


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_cosize_is_the_largest_address(layout):
    assert layout.cosize == 1 + max(table(layout))


def test_a_layout_is_a_value():
    layout = Layout([np.int64(4), 8], [8, 1])
    assert layout == row_major(4, 8) and hash(layout) == hash(row_major(4, 8))
    assert layout != column_major(4, 8) and layout != "(4,8):(8,1)"
    assert {layout: 1}[row_major(4, 8)] == 1
    with pytest.raises(AttributeError, match="immutable"):
        layout.shape = 3


@pytest.mark.parametrize("text", ["(4,8):(8,1)", "(64,32):(2@0,1@1)", "((8,2),64):((X(0x90),1024),X(0x2))"])
def test_a_layout_is_copied_and_pickled(text):
    layout = parse(text)
    layout(3)  # what evaluation prepares stays behind
    for found in (copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):
        assert found == layout and hash(found) == hash(layout) and found(3) == layout(3)


@pytest.mark.parametrize(
    "text",
    ["8:1", "(4,8):(8,1)", "((2,2),(4,2)):((1,8),(2,16))", "(64,32):(1@0,1@1)", "((4,8),2):((2@1,1@0),1@1)",
     "((8,2),64):((X(0x90),1024),X(0x2))", "4:1@0+2@1", "(4,2):(-1,4)"],
)  # fmt: skip
def test_notation_there_and_back(text):
    layout = parse(text)
    assert str(layout) == text
    assert eval(repr(layout)) == layout


@given(layouts() | of_bits() | of_coordinates())
@settings(max_examples=60, deadline=None)
def test_notation_is_read_as_it_is_written(layout):
    if layout.is_coordinates and "@1" not in str(layout):
        return  # the notation names axes, not how many there are
    assert parse(str(layout)) == layout


@pytest.mark.parametrize("text", ["", "(4,8", "4:1:1", "(4,8)", "x:1", "(4,8):8", "4:1.5", "4:__import__('os')", "0:1"])
def test_what_is_no_notation(text):
    with pytest.raises(errors.LayoutError) as refused:
        parse(text)
    assert refused.value.rule and refused.value.where.file == __file__


def brute_slice(layout, coordinate):
    """Elements of the modes that are kept, in order, the rest at their coordinates."""
    ranges = [range(m.size) if c is None else [c] for m, c in zip(layout, coordinate, strict=True)]
    return [layout(*reversed(c)) for c in itertools.product(*reversed(ranges))]


@pytest.mark.parametrize("coordinate", [(3, None), (None, 5), (None, None), (2, 7)])
@pytest.mark.parametrize(
    "layout",
    [row_major(8, 16), Layout(((2, 4), 16), ((64, X(0x90)), X(2))), identity(8, 16), Layout((8, 16), (E(1, 0), 0))],
    ids=str,
)
def test_a_slice_and_its_offset(layout, coordinate):
    rest, offset = layout.slice(coordinate)
    expected = brute_slice(layout, coordinate)
    assert [layout_value(offset + rest.element(i)) for i in range(rest.size)] == expected


def layout_value(x):
    return int(x) if isinstance(x, X) else x


def test_a_slice_of_a_nested_mode():
    layout = Layout(((2, 4), 3), ((1, 6), 2))
    rest, offset = layout.slice(((None, 2), None))
    assert (rest, offset) == (Layout((2, 3), (1, 2)), 12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Layout((4, 8)), "row_major"),
        (lambda: Layout((4, 8), 1), "profile"),
        (lambda: Layout((4, 8), (1, (2, 3))), "profile"),
        (lambda: Layout(0, 1), "positive"),
        (lambda: Layout(4.0, 1), "positive"),
        (lambda: Layout(4, 1.5), "a stride is an integer"),
        (lambda: Layout((4, 4), (E(1, 0), E(1, 0, 0))), "one space"),
        (lambda: Layout((4, 4), (E(1, 0), 3)), "one space"),
        (lambda: Layout((), ()), "a layout has a mode"),
        (lambda: row_major(4, 8)(1, 2, 3), "give 2 coordinates"),
        (lambda: row_major(4, 8)((1, 2), 3), "profile"),
        (lambda: row_major(4, 8)(1, None), "slice"),
        (lambda: row_major(4, 8).slice((1, None, None)), "give 2 coordinates"),
        (lambda: E(1, 0) + E(1, 0, 0), "as many axes"),
        (lambda: E(1, 0) + 3, "as many axes"),
    ],
)
def test_refused_with_line_rule_and_fix(make, says):
    with pytest.raises(errors.LayoutError, match=says) as refused:
        make()
    assert refused.value.where.file == __file__ and refused.value.rule and refused.value.fix


def test_modes():
    layout = make_layout(Layout(4, 8), row_major(2, 3))
    assert layout == Layout((4, (2, 3)), (8, (3, 1)))
    assert list(layout) == [Layout(4, 8), row_major(2, 3)] and layout[-1] == row_major(2, 3)
    assert Layout(4, 2)[0] == Layout(4, 2)
    with pytest.raises(IndexError):
        layout[2]
    assert row_major(2, (3, 4)) == Layout((2, (3, 4)), (12, (4, 1)))
