"""The algebra beside `tensor-layouts`, an independent implementation of CuTe's.

Where both answer, both must be the same function, and in the same form where the form is unique. It accepts
compositions that are wrong (carries), so that its answers are checked point by point first.
"""

import random

import pytest
import tensor_layouts as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_layouts import atoms_nv as atoms
from tensor_layouts.analysis import bank_conflicts as their_conflicts

from nvdsl import errors
from nvdsl.layout import (
    MMA_C,
    Layout,
    X,
    bank_conflicts,
    blocked_product,
    coalesce,
    complement,
    composition,
    flat_divide,
    left_inverse,
    logical_divide,
    logical_product,
    max_common_vector,
    mma_a,
    mma_b,
    mma_c,
    raked_product,
    right_inverse,
    tiled_divide,
    wgmma_accumulator,
    zipped_divide,
)
from tests.unit.layout.layouts import layouts, leaves, table

FEW = settings(max_examples=40, deadline=None)


def theirs(layout):
    return oracle.Layout(layout.shape, layout.stride)


def modes(layout):
    """Sizes and strides of leaves that have more than one element."""
    if not isinstance(layout, Layout):
        layout = Layout(layout.shape, layout.stride)
    return [(s, d) for s, d in layout.leaves() if s > 1]


def both(function, other, *arguments):
    """(ours, theirs), None where one of them refuses."""
    try:
        mine = function(*arguments)
    except errors.LayoutError:
        mine = None
    try:
        their = other(*[theirs(x) if isinstance(x, Layout) else x for x in arguments])
    except (ValueError, AssertionError):
        their = None
    return mine, their


@given(layouts(), layouts())
@FEW
def test_composition(a, b):
    mine, their = both(composition, oracle.compose, a, b)
    if their is not None and all(their(i) == a(b(i)) for i in range(b.size)):
        assert mine is not None
        assert table(mine) == [their(i) for i in range(b.size)]


@given(layouts())
@FEW
def test_coalesce_and_right_inverse(a):
    assert modes(coalesce(a)) == modes(oracle.coalesce(theirs(a)))
    assert right_inverse(a).size == oracle.size(oracle.right_inverse(theirs(a)))


@given(layouts(), st.integers(1, 50))
@FEW
def test_complement(a, bound):
    mine, their = both(complement, oracle.complement, a, bound)
    if mine is not None:
        assert modes(mine) == modes(their)


@given(layouts())
@FEW
def test_left_inverse(a):
    mine, their = both(left_inverse, oracle.left_inverse, a)
    if mine is not None:
        assert [mine(a(i)) for i in range(a.size)] == [their(a(i)) for i in range(a.size)]


@given(layouts(), leaves(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4])))
@FEW
def test_divide_and_product(a, b):
    for function, other in ((logical_divide, oracle.logical_divide), (logical_product, oracle.logical_product)):
        mine, their = both(function, other, a, b)
        if mine is not None and their is not None:
            assert mine.size == oracle.size(their)
            right = [a(x) for x in table(Layout(b.shape, b.stride))] if function is logical_divide else table(a)
            assert table(mine[0]) == right
            if [their(i) for i in range(len(right))] == right and function is logical_product:
                # Where a's holes take places of the complement, the oracle's copies overlap.
                if complement(a, a.size * b.cosize).size >= b.cosize:
                    assert table(mine) == [their(i) for i in range(mine.size)]


TILED = [(Layout((8, 16), (16, 1)), (4, 8)), (Layout((8, 16, 3), (16, 1, 128)), (2, 4)),
         (Layout((8, (4, 4)), (1, (8, 64))), (4, 8)), (Layout((9, (4, 8)), (59, (13, 1))), (3, 8))]  # fmt: skip


@pytest.mark.parametrize(("a", "tiler"), TILED, ids=str)
@pytest.mark.parametrize("name", ["logical_divide", "zipped_divide", "tiled_divide", "flat_divide"])
def test_divides_by_mode(name, a, tiler):
    function = {"logical_divide": logical_divide, "zipped_divide": zipped_divide, "tiled_divide": tiled_divide,
                "flat_divide": flat_divide}[name]  # fmt: skip
    mine, their = function(a, tiler), getattr(oracle, name)(theirs(a), tiler)
    assert table(mine) == [their(i) for i in range(mine.size)]
    assert [m.size for m in mine] == [oracle.size(oracle.mode(their, i)) for i in range(oracle.rank(their))]


@pytest.mark.parametrize(("a", "b"), [("2x5", "3x4"), ("4x2", "2x2"), ("8x1", "4x8")])
def test_blocked_and_raked(a, b):
    (m, n), (p, q) = (tuple(map(int, x.split("x"))) for x in (a, b))
    block, grid = Layout((m, n), (n, 1)), Layout((p, q), (1, p))
    for function, other in ((blocked_product, oracle.blocked_product), (raked_product, oracle.raked_product)):
        mine, their = function(block, grid), other(theirs(block), theirs(grid))
        assert table(mine) == [their(i) for i in range(mine.size)]


@given(layouts(), layouts())
@FEW
def test_max_common_vector(a, b):
    n, m = right_inverse(a), right_inverse(b)
    expected = next((k for k in range(min(n.size, m.size)) if n(k) != m(k)), min(n.size, m.size))
    assert max_common_vector(a, b) == expected


@given(leaves(st.sampled_from([8, 16, 32]), st.integers(0, 40)))
@FEW
def test_bank_conflicts_of_words(lanes):
    expected = their_conflicts(theirs(lanes), element_bytes=4)["max_ways"]
    assert bank_conflicts(Layout(lanes.shape, lanes.stride * 4), 4) == expected


def flattened(layout, rows):
    """Coordinates as the atoms count them: down the columns."""
    return [row + rows * col for row, col in map(tuple, table(layout))]


def atom(layout):
    return [layout(i) for i in range(oracle.size(layout))]


@pytest.mark.parametrize("n", [8, 16, 32, 64, 128, 256])
def test_wgmma_accumulator_is_their_atom(n):
    found = getattr(atoms, f"SM90_64x{n}x16_F32F16F16_SS").c_layout
    assert flattened(wgmma_accumulator(n), 64) == atom(found)


def test_fragments_are_their_atoms():
    f16, tf32, i8 = (getattr(atoms, f"SM80_16x8x{k}") for k in
                     ("16_F32F16F16F32_TN", "8_F32TF32TF32F32_TN", "32_S32S8S8S32_TN"))  # fmt: skip
    for itemsize, found in ((2, f16), (4, tf32), (1, i8)):
        assert flattened(mma_a(itemsize), 16) == atom(found.a_layout)
        assert [k * 8 + n for k, n in map(tuple, table(mma_b(itemsize)))] == atom(found.b_layout)
        assert flattened(MMA_C, 16) == atom(found.c_layout)


@pytest.mark.parametrize(
    ("name", "itemsize", "m", "k"),
    [
        ("SM80_16x8x8_F32F16F16F32_TN", 2, 16, 8), ("SM80_16x8x8_F32BF16BF16F32_TN", 2, 16, 8),
        ("SM80_16x8x4_F32TF32TF32F32_TN", 4, 16, 4), ("SM80_16x8x16_S32S8S8S32_TN", 1, 16, 16),
        ("SM80_8x8x16_S32S8S8S32_TN", 1, 8, 16), ("SM89_16x8x32_F32E4M3E5M2F32_TN", 1, 16, 32),
        ("SM80_8x8x4_F64F64F64F64_TN", 8, 8, 4), ("SM90_16x8x4_F64F64F64F64_TN", 8, 16, 4),
        ("SM90_16x8x8_F64F64F64F64_TN", 8, 16, 8), ("SM90_16x8x16_F64F64F64F64_TN", 8, 16, 16),
    ],
)  # fmt: skip
def test_fragments_of_every_shape_are_their_atoms(name, itemsize, m, k):
    found = getattr(atoms, name)
    assert flattened(mma_a(itemsize, k, m), m) == atom(found.a_layout)
    assert [row * 8 + n for row, n in map(tuple, table(mma_b(itemsize, k)))] == atom(found.b_layout)
    assert flattened(mma_c(m), m) == atom(found.c_layout)


def test_compositions_that_they_accept_wrongly_are_refused_or_right():
    """Divisibility of each mode is not enough: sums of two modes may carry from a mode of the left side to the next."""
    chance, wrong, right = random.Random(11), 0, 0
    for _ in range(1500):
        a = Layout(tuple(chance.choices((2, 3, 4, 6), k=3)), tuple(chance.choices((1, 2, 5, 7, 30), k=3)))
        b = Layout(tuple(chance.choices((2, 3, 4), k=2)), tuple(chance.choices((1, 2, 3, 4, 6, 12), k=2)))
        mine, their = both(composition, oracle.compose, a, b)
        function = [a(b(i)) for i in range(b.size)]
        assert mine is None or table(mine) == function
        if their is not None:
            is_right = [their(i) for i in range(b.size)] == function
            wrong, right = wrong + (not is_right), right + is_right
            assert mine is not None or not is_right
    assert wrong > 20 and right > 100  # the sample has what it is about


@pytest.mark.parametrize(("width", "bits"), [(32, 1), (64, 2), (128, 3)])
def test_swizzles_are_theirs(width, bits):
    rows = {32: ((4, 2), (32, X(0x90))), 64: ((2, 4), (64, X(0x90))), 128: (8, X(0x90))}[width]
    mine = Layout((rows[0], width), (rows[1], X(1)))
    swizzle = oracle.Swizzle(bits, 4, 3)
    places = [(i, j) for i in range(8) for j in range(width)]
    assert [mine(i, j) for i, j in places] == [swizzle(i * width + j) for i, j in places]
