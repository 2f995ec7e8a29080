"""Layouts over F2: rank, inverses and complements, against every element."""

import numpy as np
import pytest
from hypothesis import given, settings

from nvdsl import errors
from nvdsl.layout import (
    Layout,
    TileLayout,
    X,
    complement,
    left_inverse,
    make_layout,
    rank_f2,
    right_inverse,
    row_major,
    upcast,
)
from tests.unit.layout.layouts import of_bits, table

FEW = settings(max_examples=40, deadline=None)


@given(of_bits())
@FEW
def test_rank_counts_the_addresses(layout):
    assert 2 ** rank_f2(layout) == len(set(table(layout)))
    assert 2 ** rank_f2(layout, 0x1C) == len({x & 0x1C for x in table(layout)})


@given(of_bits())
@FEW
def test_inverses(layout):
    right, left = right_inverse(layout), left_inverse(layout)
    assert [layout(right(i)) for i in range(right.size)] == list(range(right.size))
    assert right.size == 1 or right.size & (right.size - 1) == 0
    reached = set(table(layout))
    assert [layout(left(x)) for x in reached] == list(reached)
    beyond = right.size
    assert not set(range(2 * beyond)) <= reached  # it is the longest


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_inverse_of_a_tile(swizzle, rows, itemsize):
    cols = 2 * swizzle // itemsize
    elements = upcast(TileLayout.of(rows, cols, itemsize, swizzle).as_layout(), itemsize)
    every = np.arange(rows * cols)
    for inverse in (right_inverse(elements), left_inverse(elements)):
        assert inverse.size == rows * cols
        assert (elements(inverse(every)) == every).all()


def test_a_tile_of_any_number_of_rows_is_inverted_as_far_as_powers_of_two_go():
    elements = upcast(TileLayout.of(200, 128, 2, 128).as_layout(), 2)
    inverse = right_inverse(elements)
    assert inverse.size == 8  # a 16-byte unit: beyond it a column's number, times 200, is no bit
    assert [elements(inverse(i)) for i in range(8)] == list(range(8))
    with pytest.raises(errors.LayoutError, match="no power of two"):
        left_inverse(elements)


def test_complement_of_a_swizzled_atom():
    atom = Layout((8, 64), (X(0x48), X(1)))
    rest = complement(atom, 4096)
    assert str(rest) == "8:512"
    assert sorted(table(make_layout(atom, rest))) == list(range(4096))
    with pytest.raises(errors.LayoutError, match="whole bits"):
        complement(Layout(8, X(0x90)))


def test_what_is_not_linear():
    for layout, says in [(Layout(6, X(1)), "no power of two"), (Layout(8, 3), "carries"),
                         (Layout((4, 4), (1, 2)), "carries")]:  # fmt: skip
        with pytest.raises(errors.LayoutError, match=says) as refused:
            rank_f2(layout)
        assert refused.value.where.file == __file__ and refused.value.rule and refused.value.fix


def test_integers_that_are_linear():
    assert rank_f2(row_major(8, 16)) == 7
    assert rank_f2(Layout((8, 8), (0, 4)), 0x7C) == 3
