"""nvdsl.layout against tables copied by hand from the PTX ISA, not against itself."""

import itertools

import pytest

from nvdsl.errors import LayoutError
from nvdsl.layout import (
    ALIGNMENT,
    Layout,
    Operand,
    TileLayout,
    a_fragment_element,
    accumulator_element,
    swizzle_offset,
    upcast,
)

# PTX ISA, "Tensor swizzling modes", figures: 16-byte unit index of each of the first 8 units of a row, by row.
SWIZZLED_128 = [
    [0, 1, 2, 3, 4, 5, 6, 7],
    [1, 0, 3, 2, 5, 4, 7, 6],
    [2, 3, 0, 1, 6, 7, 4, 5],
    [3, 2, 1, 0, 7, 6, 5, 4],
    [4, 5, 6, 7, 0, 1, 2, 3],
    [5, 4, 7, 6, 1, 0, 3, 2],
    [6, 7, 4, 5, 2, 3, 0, 1],
    [7, 6, 5, 4, 3, 2, 1, 0],
]
SWIZZLED_64 = [[0, 1, 2, 3], [0, 1, 2, 3], [1, 0, 3, 2], [1, 0, 3, 2]]
SWIZZLED_64 += [[2, 3, 0, 1], [2, 3, 0, 1], [3, 2, 1, 0], [3, 2, 1, 0]]
SWIZZLED_32 = [[0, 1]] * 4 + [[1, 0]] * 4


@pytest.mark.parametrize(
    ("swizzle", "table"), [(128, SWIZZLED_128), (64, SWIZZLED_64), (32, SWIZZLED_32)], ids=["128", "64", "32"]
)
def test_swizzle_is_the_isas_table(swizzle, table):
    for row, units in enumerate(table):
        for unit, where in enumerate(units):
            assert swizzle_offset(row * swizzle + unit * 16, swizzle) == row * swizzle + where * 16


@pytest.mark.parametrize("call", [
    lambda: swizzle_offset(256, 48), lambda: swizzle_offset(256, None), lambda: a_fragment_element(0, 0, 8),
    lambda: upcast(Layout((8, 8), (128, 2)), 0), lambda: upcast(Layout((8, 8), (128, 2)), "f16"),
])  # fmt: skip
def test_sizes_that_there_are_not(call):
    with pytest.raises(LayoutError) as refused:
        call()
    assert refused.value.where.file == __file__ and refused.value.rule and refused.value.fix


@pytest.mark.parametrize("swizzle", [0, 16, 32, 64, 128])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_every_element_has_its_own_place(swizzle, itemsize):
    cols = 2 * max(swizzle, 16) // itemsize
    layout = TileLayout.of(24, cols, itemsize, swizzle)
    offsets = {layout.offset(r, c) for r, c in itertools.product(range(24), range(cols))}
    assert offsets == set(range(0, layout.bytes, itemsize))
    assert layout.alignment == ALIGNMENT[swizzle]


def test_elements_of_a_16_byte_unit_stay_together():
    layout = TileLayout.of(64, 128, 2, 128)
    for row, unit in itertools.product(range(64), range(16)):
        start = layout.offset(row, unit * 8)
        assert [layout.offset(row, unit * 8 + i) for i in range(8)] == [start + 2 * i for i in range(8)]


def test_the_second_panel_follows_the_first():
    layout = TileLayout.of(64, 128, 2, 128)
    assert layout.panels == 2
    assert layout.offset(0, 64) == 64 * 128


def test_a_part_of_the_rows_keeps_the_panels_distance():
    whole = TileLayout.of(128, 128, 2, 128)
    part = whole.take_rows(64)
    for row, col in ((0, 0), (5, 70), (63, 127)):
        assert whole.offset(64 + row, col) == 64 * 128 + part.offset(row, col)


@pytest.mark.parametrize(
    ("cols", "itemsize", "swizzle", "says"),
    [(96, 2, 128, "not a multiple"), (32, 2, 128, "narrower"), (64, 2, 48, "is one of")],
)
def test_rows_that_do_not_fill_panels_are_refused(cols, itemsize, swizzle, says):
    with pytest.raises(ValueError, match=says):
        TileLayout.of(64, cols, itemsize, swizzle)


def fields(descriptor):
    """PTX ISA, "Matrix Descriptor Format": (LBO, SBO, swizzle mode), byte offsets decoded."""
    return (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4, descriptor >> 62


@pytest.mark.parametrize(
    ("rows", "cols", "swizzle", "major", "expected"),
    [
        # K-major: 8 rows of a panel are 8 * swizzle bytes; modes 1, 2, 3 are 128, 64, 32 bytes
        (128, 64, 128, "k", (16, 1024, 1)),
        (128, 64, 64, "k", (16, 512, 2)),
        (128, 64, 32, "k", (16, 256, 3)),
        (128, 64, 16, "k", (128 * 16, 128, 0)),
        # MN-major: LBO steps over panels, SBO over 8 k; without swizzle the two change places
        (64, 128, 128, "mn", (64 * 128, 1024, 1)),
        (64, 128, 64, "mn", (64 * 64, 512, 2)),
        (64, 128, 32, "mn", (64 * 32, 256, 3)),
        (64, 128, 16, "mn", (128, 64 * 16, 0)),
    ],
)
def test_descriptor_fields(rows, cols, swizzle, major, expected):
    operand = Operand(TileLayout.of(rows, cols, 2, swizzle), major)
    assert fields(operand.descriptor_constant()) == expected


def test_k_steps():
    k_major = Operand(TileLayout.of(128, 128, 2, 128), "k")
    assert [k_major.k_offset(i) for i in range(5)] == [0, 32, 64, 96, 128 * 128]
    mn_major = Operand(TileLayout.of(64, 128, 2, 128), "mn")
    assert [mn_major.k_offset(i) for i in range(4)] == [0, 2048, 4096, 6144]
    assert k_major.mn_offset(64) == 64 * 128
    assert mn_major.mn_offset(64) == 64 * 128


def test_accumulator_fragment_is_the_isas():
    # PTX ISA, figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D": thread: first elements
    expected = {
        0: [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8)],
        1: [(0, 2), (0, 3), (8, 2), (8, 3), (0, 10)],
        4: [(1, 0), (1, 1), (9, 0), (9, 1), (1, 8)],
        31: [(7, 6), (7, 7), (15, 6), (15, 7), (7, 14)],
        32: [(16, 0), (16, 1), (24, 0), (24, 1), (16, 8)],
        127: [(55, 6), (55, 7), (63, 6), (63, 7), (55, 14)],
    }
    for thread, elements in expected.items():
        assert [accumulator_element(thread, r) for r in range(5)] == elements


def test_accumulator_fragments_cover_the_tile_once():
    every = [accumulator_element(t, r) for t in range(128) for r in range(64)]
    assert sorted(every) == [(r, c) for r in range(64) for c in range(128)]


@pytest.mark.parametrize(("itemsize", "k"), [(2, 16), (4, 8), (1, 32)])
def test_a_fragments_cover_the_tile_once(itemsize, k):
    per_register = 4 // itemsize
    every = []
    for thread, register in itertools.product(range(128), range(4)):
        row, col = a_fragment_element(thread, register, itemsize)
        every += [(row, col + i) for i in range(per_register)]
    assert sorted(every) == [(r, c) for r in range(64) for c in range(k)]
