"""Divisions, products and thread-value layouts: what they mean, element by element, and published examples."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvdsl import errors
from nvdsl.layout import (
    E,
    Layout,
    TileLayout,
    X,
    bank_conflicts,
    blocked_product,
    column_major,
    composition,
    flat_divide,
    identity,
    logical_divide,
    logical_product,
    make_layout_tv,
    max_common_vector,
    parse,
    raked_product,
    row_major,
    tiled_divide,
    zipped_divide,
)
from tests.unit.layout.layouts import layouts, table

FEW = settings(max_examples=50, deadline=None)
POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def tiled(draw):
    """A layout of two modes, and a tile that divides each."""
    tile = draw(st.tuples(POWERS, POWERS))
    rest = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    strides = draw(st.tuples(st.integers(0, 40), st.integers(0, 40)))
    return Layout((tile[0] * rest[0], tile[1] * rest[1]), strides), tile


@given(tiled())
@FEW
def test_divides_walk_tile_by_tile(case):
    a, (p, q) = case
    m, n = a.shape
    expected = {}
    for i, j in itertools.product(range(m), range(n)):
        expected[i % p, j % q, i // p, j // q] = a(i, j)
    logical, zipped, both, flat = (f(a, (p, q)) for f in (logical_divide, zipped_divide, tiled_divide, flat_divide))
    for (x, y, r, s), place in expected.items():
        assert logical((x, r), (y, s)) == zipped((x, y), (r, s)) == both((x, y), r, s) == flat(x, y, r, s) == place
    assert a / (p, q) == zipped
    assert sorted(table(logical)) == sorted(table(a))


@given(layouts(), layouts())
@FEW
def test_a_product_is_made_of_disjoint_copies(a, b):
    try:
        found = logical_product(a, b)
    except errors.LayoutError as error:
        assert error.rule and error.fix
        return
    assert found[0] == a and found.size == a.size * b.size
    copies = [{found[0](i) + found[1](j) for i in range(a.size)} for j in range(b.size)]
    for i, j in itertools.combinations(range(b.size), 2):
        assert copies[i] == copies[j] if b(i) == b(j) else not copies[i] & copies[j]


@pytest.mark.parametrize(
    ("a", "tiler", "expected"),
    [  # the paper (3.5.2), then CUTLASS, 02_layout_algebra.md
        ("24:3", Layout(8, 3), "(8,3):(9,3)"),
        ("(8,16):(20,1)", (Layout(4, 1), Layout(8, 2)), "((4,2),(8,2)):((20,80),(2,1))"),
        ("(4,2,3):(2,1,8)", Layout(4, 2), "((2,2),(2,3)):((4,1),(2,8))"),
        ("(9,(4,8)):(59,(13,1))", (Layout(3, 3), Layout((2, 4), (1, 8))),
         "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"),
        ("(8,8):(8,1)", 4, "(4,16):(8,32)"),
    ],
)  # fmt: skip
def test_published_divides(a, tiler, expected):
    found = logical_divide(parse(a), tiler)
    if expected == "(4,16):(8,32)":
        assert table(found[0]) == [0, 8, 16, 24] and sorted(table(found)) == list(range(64))
    else:
        assert str(found) == expected


def test_published_zipped_divide():
    a, tiler = parse("(9,(4,8)):(59,(13,1))"), (Layout(3, 3), Layout((2, 4), (1, 8)))
    assert str(zipped_divide(a, tiler)) == "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    assert str(tiled_divide(a, tiler)) == "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"
    assert str(flat_divide(a, tiler)) == "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("(3,4):(4,1)", "(2,5):(1,2)", "((3,4),(2,5)):((4,1),(12,24))"),  # the paper, 3.5.1
        ("(2,2):(4,1)", "6:1", "((2,2),(2,3)):((4,1),(2,8))"),  # CUTLASS
        ("(2,2):(4,1)", "(4,2):(2,1)", "((2,2),(4,2)):((4,1),(8,2))"),
        ("(2,5):(5,1)", "4:1", "((2,5),4):((5,1),10)"),  # pycute's test_logical_product.py
        ("(5,4):(12,2)", "2:2", "((5,4),2):((12,2),60)"),  # holes of a take places of the complement
    ],
)
def test_published_products(a, b, expected):
    assert str(logical_product(parse(a), parse(b))) == expected


def test_products_with_numbers_and_by_mode():
    a = row_major(2, 5)
    assert logical_product(a, 4) == logical_product(a, Layout(4)) and logical_product(a, None) is a
    assert str(logical_product(a, (4, 2))) == "((2,4),(5,2)):((5,1),(1,5))"
    assert str(blocked_product(a, column_major(3, 4))) == "((2,3),(5,4)):((5,10),(1,30))"
    assert str(raked_product(a, column_major(3, 4))) == "((3,2),(4,5)):((10,5),(30,1))"


def test_a_swizzled_atom_is_repeated():
    """CUTLASS builds shared memory so: an atom of 8 rows with the swizzle, repeated over the tile."""
    atom = Layout((8, 64), (X(0x48), X(1)))
    tile = blocked_product(atom, column_major(8, 2))
    expected = TileLayout.of(64, 128, 2, 128)
    assert all(2 * tile(r, c) == expected.offset(r, c) for r in range(64) for c in range(128))


def test_a_size_that_is_no_multiple_is_rounded_up():
    assert str(logical_divide(Layout(10, 3), 4)) == "(4,3):(3,12)"
    assert str(row_major(100, 64) / (32, 64)) == "((32,64),(4,1)):((64,1),(2048,0))"


@pytest.mark.parametrize(
    ("threads", "values"),
    [(row_major(32, 8), row_major(1, 8)), (column_major(4, 8), row_major(2, 2)), (row_major(4, 3), column_major(2, 5)),
     (Layout(((2, 4), 4), ((1, 8), 2)), Layout((2, 2), (2, 1)))],
    ids=str,
)  # fmt: skip
def test_thread_value_layouts(threads, values):
    (rows, cols), tv = make_layout_tv(threads, values)
    assert (rows, cols) == tuple(x.size * y.size for x, y in zip(threads, values, strict=True))
    (p, q), owner = (values[0].size, values[1].size), {}
    for i, j in itertools.product(range(rows), range(cols)):
        owner[threads(i // p, j // q), values(i % p, j % q)] = i + rows * j
    assert {(t, v): tv(t, v) for t in range(threads.size) for v in range(values.size)} == owner


def test_a_coalesced_copy():
    """256 threads, 16 bytes each: neighbouring threads read neighbouring memory, and write without bank conflicts."""
    shape, tv = make_layout_tv(row_major(32, 8), row_major(1, 8))
    array, tile = row_major(128, 8192), TileLayout.of(32, 64, 2, 128).as_layout()
    source, target = composition((array / shape)[0], tv), composition(tile, tv)
    assert [source(t, 0) for t in range(9)] == [0, 8, 16, 24, 32, 40, 48, 56, 8192]
    assert max_common_vector(source[1], Layout(8)) == 8
    assert all(target(t, v) == target(t, 0) + 2 * v for t in range(256) for v in range(8))
    assert bank_conflicts(composition(target[0], Layout(32)), 16) == 1
    where = composition(identity(*shape), tv)
    assert where(9, 3) == (1, 11) and where[1].stride == E(0, 1)


def test_refusals():
    for make, says in [
        (lambda: make_layout_tv(Layout(4, 2), Layout(2)), "each number from 0 on"),
        (lambda: zipped_divide(Layout(8), (2, 2)), "give 1 tilers"),
        (lambda: logical_product(Layout((4, 4), (1, 2)), 2), "no complement"),
        (lambda: logical_divide(Layout((6, 4), (1, 100)), 4), "no layout"),
    ]:
        with pytest.raises(errors.LayoutError, match=says) as refused:
            make()
        assert refused.value.where.file == __file__ and refused.value.rule and refused.value.fix
