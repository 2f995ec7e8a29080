"""Layouts at traced coordinates and with traced sizes: the same numbers, and few instructions."""

import itertools

import pytest

from nvdsl import errors
from nvdsl.layout import (
    FRAGMENT_ROWS,
    E,
    Layout,
    TileLayout,
    X,
    composition,
    logical_divide,
    make_layout,
    row_major,
    wgmma_accumulator,
    zipped_divide,
)
from nvdsl.values import dtypes
from nvdsl.values.traced import const
from tests.unit.traced import evaluate, ptx, tracing

TILE = TileLayout.of(64, 64, 2, 128).as_layout()


@pytest.mark.parametrize(
    "layout",
    [
        row_major(8, 16),
        Layout(((2, 3), (4, 2)), ((1, 8), (2, 100))),
        TILE,
        TileLayout.of(24, 96, 4, 32).as_layout(),
        wgmma_accumulator(24),
        composition(TILE, FRAGMENT_ROWS),
        Layout((3, 5), (X(5), X(0x30))),
        Layout((4, 4), (E(0, 1), E(-2, 0))),
    ],
    ids=str,
)
def test_traced_is_the_same(layout):
    places = [(i, layout.size - 1 - i) for i in range(0, layout.size, max(1, layout.size // 24))]

    def build():
        found = []
        for i, j in places:
            traced = const(i, dtypes.i32)
            found += [layout(traced), layout(traced, j) if len(layout) == 2 else layout(traced)]
            found += [layout(j, traced) if len(layout) == 2 else layout(traced)]
        return [x for y in found for x in (y if isinstance(y, E) else [y])]

    expected = []
    for i, j in places:
        pairs = [(i,), (i, j), (j, i)] if len(layout) == 2 else [(i,)] * 3
        expected += [x for p in pairs for x in (layout(*p) if layout.is_coordinates else [layout(*p)])]
    assert [int(x) for x in evaluate(build)] == expected


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.i64, dtypes.u32], ids=str)
def test_integers_of_any_type(dtype):
    found = evaluate(lambda: [TILE(const(37, dtype), const(13, dtype)), *wgmma_accumulator(64)(const(77, dtype), 13)])
    assert [int(x) for x in found] == [TILE(37, 13), *wgmma_accumulator(64)(77, 13)]


def test_what_is_static_is_one_constant():
    with tracing(dtypes.i32) as trace:
        (thread,) = trace
        wgmma_accumulator(64)(thread, 13)
        once = len(trace.ops)
        assert "divsi" not in " ".join(trace.ops) and "floordivsi" not in " ".join(trace.ops)
        assert once <= 16
        Layout((4, 8), (0, 1))(thread, 3)
        row_major(4, 1)(0, thread)
        Layout((1, 8), (5, 3))(thread, 2)
    with tracing(dtypes.i32) as trace:
        (thread,) = trace
        assert row_major(4, 8)(0, thread) is thread
        assert Layout((4, 8), (0, 1))(thread, 3) == 3
        assert len(trace.ops) == 0


def test_instructions_of_a_swizzled_address():
    """As few as by hand, but for one: what is added as bits and what is added as integers are not merged."""

    def instructions(build):
        lines = [line.split() for line in ptx(build, dtypes.i32).splitlines()]
        return sum(line[0].partition(".")[0] in ("and", "or", "xor", "add", "shl", "shr", "mul", "mad", "bfe", "lop3")
                   for line in lines if line)  # fmt: skip

    tile = TileLayout.of(64, 64, 2, 128)
    lanes = composition(tile.as_layout(), FRAGMENT_ROWS)
    by_hand = instructions(lambda t: [tile.offset(t // 32 * 16 + t % 16, t % 32 // 16 * 8)])
    assert 0 < instructions(lambda t: [lanes(t)]) <= by_hand + 1
    assert instructions(lambda t: [tile.offset(*FRAGMENT_ROWS(t))]) <= by_hand


def dynamic(build, m):
    """``build(m)`` with a traced m, as numbers."""
    return [int(x) for x in evaluate(lambda: build(const(m, dtypes.i32)))]


@pytest.mark.parametrize("m", [1, 127, 128, 1000])
def test_tiles_of_an_array_with_a_dynamic_extent(m):
    def build(m):
        tiles = zipped_divide(Layout((m, 8192), (8192, 1)), (128, 64))
        rest, offset = tiles.slice((None, (3, 2)))
        return [tiles[1][0].size, tiles((5, 7), (3, 2)), offset + rest(5, 7), tiles[1].shape[1]]

    place = (3 * 128 + 5) * 8192 + 2 * 64 + 7
    assert dynamic(build, m) == [-(-m // 128), place, place, 128]


def test_an_integer_counts_through_a_dynamic_last_mode():
    assert dynamic(lambda m: [Layout((4, m), (100, 1))(const(11, dtypes.i32))], 50) == [302]
    assert dynamic(lambda m: [Layout((m, 4), (1, 100))(const(11, dtypes.i32))], 5) == [201]
    assert dynamic(lambda m: [Layout((m, 8), (8, 1)).size], 5) == [40]


def test_a_dynamic_extent_that_is_not_the_last_is_refused():
    with tracing(dtypes.i32) as trace:
        (m,) = trace
        layout = Layout((m, 8), (1, 100))
        for make, says in [
            (lambda: composition(layout, Layout(16)), "dynamic"),
            (lambda: logical_divide(layout, 4), "dynamic"),
            (lambda: composition(Layout((4, 8), (1, 100)), Layout(m)), "dynamic"),
            (lambda: layout.cosize, "known while tracing"),
        ]:
            with pytest.raises(errors.LayoutError, match=says) as refused:
                make()
            assert refused.value.where.file == __file__ and refused.value.rule and refused.value.fix


def test_nothing_traced_is_kept_from_one_evaluation_to_the_next():
    """Another one may stand where the first one's operations are not visible: in another branch."""
    with tracing(dtypes.i32, dtypes.i32) as trace:
        m, i = trace
        layout = Layout((4, m, 8), (1, 4, 1000))
        layout(i)
        once = trace.ops.count("muli")
        layout(i)
        assert trace.ops.count("muli") == 2 * once > 0


def test_dynamic_layouts_are_values_too():
    with tracing(dtypes.i32, dtypes.i32) as trace:
        m, n = trace
        a, b = Layout((m, 8), (8, 1)), Layout((n, 8), (8, 1))
        assert a == Layout((m, 8), (8, 1)) and a != b
        assert str(make_layout(a, Layout(4))) == "((?,8),4):((8,1),1)"
        assert len(trace.ops) == 0


def test_rows_of_all_kinds_at_once():
    layout = Layout(((8, 4), 64), ((X(0x90), 1024), X(2)))
    pairs = list(itertools.product((0, 7, 9, 31), (0, 8, 63)))
    found = evaluate(lambda: [layout(const(r, dtypes.i32), const(c, dtypes.i32)) for r, c in pairs])
    assert [int(x) for x in found] == [layout(r, c) for r, c in pairs]
