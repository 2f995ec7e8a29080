"""Common vectors and bank conflicts, against counting."""

import pytest

from nvdsl import errors
from nvdsl.layout import (
    FRAGMENT_ROWS,
    Layout,
    TileLayout,
    X,
    bank_conflicts,
    column_major,
    composition,
    max_common_vector,
    rank_f2,
    row_major,
    upcast,
)


def passes(starts, bytes):
    """How many rounds the banks take, each giving every bank one word, over the fewest possible for whole groups."""
    group = 128 // max(bytes, 4)
    worst = 0
    for first in range(0, len(starts), group):
        waiting = {b // 4 for s in starts[first : first + group] for b in range(s, s + bytes)}
        rounds = 0
        while waiting:
            taken = {}
            for word in sorted(waiting):
                taken.setdefault(word % 32, word)
            waiting -= set(taken.values())
            rounds += 1
        worst = max(worst, rounds)
    return worst


@pytest.mark.parametrize("bytes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("stride", [0, 4, 8, 16, 20, 64, 68, 128, 132, 144, 256])
def test_rows_at_a_distance(stride, bytes):
    lanes = Layout(32, stride * max(1, bytes // 4))
    assert bank_conflicts(lanes, bytes) == passes([lanes(i) for i in range(32)], bytes)


def test_columns_of_a_tile_plain_padded_and_swizzled():
    plain, padded, swizzled = Layout(8, 128), Layout(8, 144), Layout(8, X(0x90))
    assert [bank_conflicts(rows, 16) for rows in (plain, padded, swizzled)] == [8, 1, 1]
    # the same from the rank: of 8 rows of 16 bytes, so many share their banks
    assert [8 // 2 ** rank_f2(rows, 0x7C) for rows in (plain, swizzled)] == [8, 1]


@pytest.mark.parametrize(("swizzle", "conflicts"), [(16, 1), (32, 1), (64, 1), (128, 1), (0, 8)])
def test_stmatrix_of_the_epilogue(swizzle, conflicts):
    cols = (swizzle or 128) // 2
    tile = TileLayout.of(64, cols, 2, swizzle).as_layout()
    lanes = FRAGMENT_ROWS if cols > 8 else Layout((16, 4), FRAGMENT_ROWS.stride[::2])
    rows = composition(tile, lanes)
    assert bank_conflicts(composition(rows, Layout(8)), 16) == conflicts


def test_transpose_reads_columns():
    f32 = TileLayout.of(32, 32, 4, 128)
    column = composition(f32.as_layout(), (32, 1))
    assert bank_conflicts(Layout(32, 128), 4) == 32
    assert bank_conflicts(column, 4) == 4  # eight rows differ, then the pattern repeats
    assert bank_conflicts(Layout(32, 132), 4) == 1


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [
        (row_major(8, 64), row_major(8, 64), 512),
        (row_major(8, 64), Layout((8, 64), (72, 1)), 64),
        (row_major(8, 64), column_major(8, 64), 1),
        (row_major(8, 64), Layout((8, (8, 8)), (8, (1, 64))), 8),
        (row_major(64, 64), upcast(TileLayout.of(64, 64, 2, 128).as_layout(), 2), 8),
        (row_major(64, 64), upcast(TileLayout.of(64, 64, 2, 0).as_layout(), 2), 4096),
        (upcast(TileLayout.of(8, 64, 2, 64).as_layout(), 2), upcast(TileLayout.of(8, 64, 2, 64).as_layout(), 2), 512),
        (row_major(200, 64), upcast(TileLayout.of(200, 64, 2, 128).as_layout(), 2), 8),
        (row_major(64, 128), upcast(TileLayout.of(64, 128, 2, 64).as_layout(), 2), 8),
    ],
    ids=str,
)
def test_common_vectors(a, b, count):
    assert max_common_vector(a, b) == max_common_vector(b, a) == count


def test_upcast():
    assert str(upcast(Layout((8, 64), (X(0x90), X(2))), 2)) == "(8,64):(X(0x48),X(0x1))"
    assert upcast(Layout(8, 12), 3) == Layout(8, 4)
    for layout, count in ((Layout(8, 2), 4), (Layout(8, X(0x92)), 4), (Layout(8, X(6)), 3)):
        with pytest.raises(errors.LayoutError, match="in units of"):
            upcast(layout, count)


def test_conflicts_of_what_is_no_access():
    for lanes, bytes in ((Layout(32, 4), 3), (Layout(32, 4), 32)):
        with pytest.raises(errors.LayoutError, match="1, 2, 4, 8 or 16") as refused:
            bank_conflicts(lanes, bytes)
        assert refused.value.where.file == __file__
