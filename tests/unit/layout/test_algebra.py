"""The algebra against its definitions, evaluated point by point, and against published examples."""

import random

import pytest
from hypothesis import given, settings

from nvdsl import errors
from nvdsl.layout import (
    E,
    Layout,
    X,
    coalesce,
    complement,
    composition,
    identity,
    left_inverse,
    make_layout,
    parse,
    right_inverse,
    row_major,
)
from nvdsl.layout.fit import fit
from tests.unit.layout.layouts import layouts, leaves, of_bits, of_coordinates, table

FEW = settings(max_examples=50, deadline=None)


def attempt(function, *arguments):
    """What ``function`` gives, or None where no layout is that."""
    try:
        return function(*arguments)
    except errors.LayoutError as error:
        assert error.rule and error.fix and error.where
        return None


# --- definitions


@given(layouts() | of_bits() | of_coordinates())
@FEW
def test_coalesce_keeps_the_function_and_merges_all(layout):
    found = coalesce(layout)
    assert table(found) == table(layout)
    modes = found.leaves()
    assert found.size == layout.size and (len(modes) == 1 or all(size > 1 for size, _ in modes))
    if not layout.has_bits:
        assert all(size * stride != following for (size, stride), (_, following) in zip(modes, modes[1:], strict=False))


@given(layouts(), layouts())
@FEW
def test_composition_is_right_or_refused(a, b):
    found = attempt(composition, a, b)
    if found is not None:
        assert table(found) == [a(b(i)) for i in range(b.size)]
        assert [m.size for m in found] == [m.size for m in b] or len(b) == 1
    else:  # and it is refused only where no layout is: a mode alone, or the sum of several
        alone = [fit([a(k * d) for k in range(s)]) for s, d in b.leaves()]
        if None not in alone:
            flat = [Layout(tuple(n for n, _ in m), tuple(d for _, d in m)) if m else Layout(1, 0) for m in alone]
            assert table(make_layout(*flat)) != [a(b(i)) for i in range(b.size)]


@given(of_bits() | of_coordinates(), leaves() | layouts())
@FEW
def test_composition_of_bits_and_coordinates(a, b):
    found = attempt(composition, a, b)
    if found is not None:
        assert table(found) == [a(b(i)) for i in range(b.size)]


@given(layouts(), of_coordinates())
@FEW
def test_composition_with_coordinates(a, b):
    a = make_layout(a, Layout(4, 100))
    found = attempt(composition, a, b)
    if found is not None:
        assert table(found) == [a(b(i)) for i in range(b.size)]


@given(layouts(), of_bits(4))
@FEW
def test_composition_with_bits(a, b):
    found = attempt(composition, a, b)
    if found is not None:
        assert table(found) == [a(b(i)) for i in range(b.size)]


@given(layouts())
@FEW
def test_complement_is_ordered_and_disjoint(layout):
    found = attempt(complement, layout, 60)
    if found is not None:
        places = table(found)
        assert places == sorted(set(places))
        together = [x + y for x in set(table(layout)) for y in places]
        assert len(together) == len(set(together))
        assert max(together) >= 59


@given(layouts())
@FEW
def test_inverses(layout):
    right = right_inverse(layout)
    assert [layout(right(i)) for i in range(right.size)] == list(range(right.size))
    left = attempt(left_inverse, layout)
    if left is not None:
        assert [layout(left(layout(i))) for i in range(layout.size)] == table(layout)


@given(of_coordinates())
@FEW
def test_inverses_of_coordinates(layout):
    right = right_inverse(layout)
    for i, j in ((i, j) for i in range(right[0].size) for j in range(right[1].size)):
        assert layout(right(i, j)) == (i, j)
    left = attempt(left_inverse, layout)
    if left is not None:
        assert all(layout(left(layout(i))) == layout(i) for i in range(layout.size))


# --- a rule of divisibility does not suffice


def by_divisibility(a, b):
    """The composition that CuTe's stride and shape divisibility give for each mode of b alone."""
    modes = coalesce(a).leaves()
    out = []
    for size, step in b.leaves():
        mine = []
        for extent, stride in modes[:-1]:
            if extent % step and step % extent:
                return None
            count = min(max(1, extent // step), size)
            if size % count:
                return None
            mine += [(count, step * stride)] if count > 1 else []
            size, step = size // count, -(-step // extent)
        mine += [(size, step * modes[-1][1])] if size > 1 or not mine else []
        out.append(Layout(tuple(n for n, _ in mine), tuple(d for _, d in mine)))
    return make_layout(*out)


def test_wrong_compositions_that_divisibility_accepts_are_never_given():
    chance = random.Random(7)
    accepted = wrong = refused = 0
    for _ in range(1500):
        a = Layout(tuple(chance.choices((2, 3, 4, 6), k=3)), tuple(chance.choices((1, 2, 5, 7, 30), k=3)))
        b = Layout(tuple(chance.choices((2, 3, 4), k=2)), tuple(chance.choices((1, 2, 3, 4, 6, 12), k=2)))
        naive = by_divisibility(a, b)
        if naive is None:
            continue
        right = [a(b(i)) for i in range(b.size)]
        found = attempt(composition, a, b)
        accepted += 1
        if table(naive) == right:
            assert found is not None
        else:
            wrong += 1
            refused += found is None
        assert found is None or table(found) == right
    assert accepted > 100 and wrong > 20 and refused > 20  # the sample has what it is about


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ("(4,6,8):(2,3,5)", "6:3", "don't divide each other"),  # the paper's two, section 3.3.3
        ("(4,6,8):(2,3,5)", "6:1", "no multiple of the 4"),
        ("(4,6):(1,100)", "(2,2):(2,3)", "element 3 lies at 101, not at 5"),
        ("(4,6):(1,100)", "(3,3):(1,1)", "carry into the next mode"),
        ("(4,6):(1,100)", "(2,4):(2,2)", "carry into the next mode"),
        ("(8,8):(X(0x90),X(2))", "(3,2):(1,1)", "carry"),
    ],
)
def test_refused_with_the_reason(a, b, says):
    with pytest.raises(errors.LayoutError, match=says) as refused:
        composition(parse(a), parse(b))
    assert refused.value.where.file == __file__
    assert f"{parse(a)} o {parse(b)}" in str(refused.value) and "tile a mode by mode" in refused.value.fix


def test_other_refusals():
    for make, says in [
        (lambda: composition(row_major(4, 4), (2, 2, 2)), "give 2 tilers"),
        (lambda: composition(row_major(4, 4), identity(2, 2, 2)), "one entry for each mode"),
        (lambda: complement(Layout((4, 4), (1, 2))), "starts before 4"),
        (lambda: left_inverse(Layout((4, 2), (2, 3))), "no inverse"),
        (lambda: right_inverse(Layout(4, E(1, 1))), "several axes"),
    ]:
        with pytest.raises(errors.LayoutError, match=says) as refused:
            make()
        assert refused.value.where.file == __file__ and refused.value.rule and refused.value.fix


# --- published examples: the paper (P), CUTLASS's 02_layout_algebra.md (C)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)"),  # C
        ("20:2", "(5,4):(4,1)", "(5,4):(8,2)"),  # C
        ("(10,2):(16,4)", "(5,4):(1,5)", "(5,(2,2)):(16,(80,4))"),  # C
        ("7:11", "3:4", "3:44"),  # P 3.3.3
        ("7:11", "(3,5):(6,3)", "(3,5):(66,33)"),
        ("(4,6,8,10):(2,3,5,7)", "6:12", "(2,3):(9,5)"),
        ("(4,2,8):(3,12,97)", "3:3", "3:9"),
        ("(8,8):(1,8)", "((4,8),2):((16,1),8)", "((4,8),2):((16,1),8)"),  # P 3.3.4
        ("(8,8):(8,1)", "((4,8),2):((16,1),8)", "((4,8),2):((2,8),1)"),
        ("(8,8):(1,9)", "((4,8),2):((16,1),8)", "((4,8),2):((18,1),9)"),
        ("(8,8):(X(0x1),X(0x9))", "((4,8),2):((16,1),8)", "((4,8),2):((X(0x12),X(0x1)),X(0x9))"),
        ("(8,8):(1@0,1@1)", "((4,8),2):((16,1),8)", "((4,8),2):((2@1,1@0),1@1)"),
        # pycute's test_composition.py: its last cases of nested right sides
        ("(8,8):(8,1)", "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", "((2,2,2),(2,2,2)):((8,2,32),(1,16,4))"),
        ("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", "8:4", "(4,2):(4,2)"),
        ("(4,8,2):(2,8,1)", "(4,2,2):(2,8,1)", None),
        ("(4,6,8):(1,4,7)", "6:1", "6:1"),
    ],
)  # fmt: skip
def test_published_compositions(a, b, expected):
    a, b = parse(a), parse(b)
    found = attempt(composition, a, b)
    if expected is None:
        assert found is None or table(found) == [a(b(i)) for i in range(b.size)]
    else:
        assert str(found) == expected


def test_published_compositions_by_mode():
    a = parse("(12,(4,8)):(59,(13,1))")
    assert str(composition(a, (Layout(3, 4), Layout(8, 2)))) == "(3,(2,4)):(236,(26,1))"
    assert str(composition(a, (3, 8))) == "(3,(4,2)):(59,(13,1))"
    assert composition(a, (None, 8))[0] == a[0] and composition(a, None) is a
    tiler = identity(4, 8)  # P 3.3.5: a shape as coordinates
    assert composition(row_major(16, 16), tiler) == composition(row_major(16, 16), (4, 8)) == row_major(16, 16) @ (4, 8)


# pycute's test_composition.py, NVIDIA/cutlass test/python/pycute: all its pairs have a composition
PYCUTE = """
1:0 1:0 | 1:0 1:1 | 1:1 1:0 | 1:1 1:1 | 4:1 4:1 | 4:2 4:1 | 4:1 4:2 | 4:0 4:1 | 4:1 4:0 | 1:0 4:1 | 4:1 1:0 | 4:1 2:1
4:2 2:1 | 4:1 2:2 | 4:2 2:2 | 12:1 (4,3):(1,4) | 12:2 (4,3):(1,4) | 12:1 (4,3):(3,1) | 12:2 (4,3):(3,1)
12:1 (2,3):(2,4) | (4,3):(1,4) (4,3):(1,4) | (4,3):(1,4) 12:1 | (4,3):(1,4) 6:2 | (4,3):(1,4) (6,2):(2,1)
(4,3):(3,1) (4,3):(1,4) | (4,3):(3,1) 12:1 | (4,3):(3,1) 6:2 | (4,3):(3,1) (6,2):(2,1)
(8,8):(1,8) ((2,2,2),(2,2,2)):((1,16,4),(8,2,32)) | (8,8):(8,1) ((2,2,2),(2,2,2)):((1,16,4),(8,2,32))
((2,2,2),(2,2,2)):((1,16,4),(8,2,32)) 8:4 | (4,2):(1,16) (4,2):(2,1) | (2,2):(2,1) (2,2):(2,1)
(4,8,2):(1,4,32) (2,2,2):(2,8,1) | (4,8,2):(2,8,1) (2,2,2):(1,8,2) | (4,8,2):(2,8,1) (4,2,2):(2,8,1)
(4,6,8):(1,4,7) 6:1 | (4,6,8,10):(2,3,5,7) 6:12
"""


@pytest.mark.parametrize("pair", [p.strip() for line in PYCUTE.strip().splitlines() for p in line.split("|")])
def test_pycutes_compositions(pair):
    a, b = map(parse, pair.split())
    right = [a(b(i)) for i in range(b.size)]
    found = attempt(composition, a, b)
    if found is None:  # its answer is wrong there: the two modes of b carry
        assert table(by_divisibility(a, b)) != right
    else:
        assert table(found) == right


@pytest.mark.parametrize(
    ("layout", "bound", "expected"),
    [
        ("4:1", 24, "6:4"), ("6:4", 24, "4:1"), ("(4,6):(1,4)", 24, "1:0"), ("4:2", 24, "(2,3):(1,8)"),  # C
        ("(2,4):(1,6)", 24, "3:2"), ("(2,2):(1,6)", 24, "(3,2):(2,12)"),
        ("(4,8):(1,4)", 1, "1:0"), ("(4,8):(8,1)", 64, "2:32"), ("(4,8):(1,5)", 80, "2:40"),  # P 3.5
        ("(4,8):(1,8)", 1, "2:4"), ("((2,2),(2,4)):((0,2),(0,4))", 1, "2:1"),
        ("(2,(3,4)):(3,(1,6))", 1, "1:0"), ("(4,10):(1,10)", 1, "2:4"),  # pycute's test_complement.py
        ("((2,2),(2,2)):((1,4),(8,32))", 64, "(2,2):(2,16)"), ("(2,4,8):(8,1,64)", 1, "(2,4):(4,16)"),
        ("((8,8),64):((X(0x90),1024),X(2))", 16384, None),
    ],
)  # fmt: skip
def test_published_complements(layout, bound, expected):
    if expected is None:
        assert str(complement(parse(layout), bound)) == "(2,2):(1,8192)"
    else:
        assert str(complement(parse(layout), bound)) == expected


def test_complement_of_coordinates():
    assert str(complement(identity(4, 8), (16, 8))) == "(4,1):(4@0,0@0)"


@pytest.mark.parametrize(
    ("layout", "right", "left"),
    [  # P 3.4; then pycute's test_left_inverse.py and test_right_inverse.py
        ("(4,8):(1,4)", "32:1", "32:1"), ("(4,8):(8,1)", "(8,4):(4,1)", "(8,4):(4,1)"),
        ("(3,7,5):(5,15,1)", "(5,21):(21,1)", "(5,21):(21,1)"), ("(4,8):(1,5)", "4:1", "(5,8):(1,4)"),
        ("((2,2),(2,4)):((0,1),(0,2))", "(2,4):(2,8)", "(2,4):(2,8)"),
        ("((2,2),(2,4)):((0,2),(0,4))", "1:0", "(2,2,4):(0,2,8)"),
        ("(4,8):(1@0,1@1)", "(4,8):(1,4)", "(4,8):(1,4)"),
        ("(4,(4,2)):(1@1,(1@0,6@0))", "(4,4):(4,1)", "((4,2),4):((4,16),1)"),
        ("4:2", "1:0", "(2,4):(0,1)"), ("(2,4,6):(4,1,8)", "(4,2,6):(2,1,8)", "(4,2,6):(2,1,8)"),
        ("(4,2):(1,16)", "4:1", "(4,2):(1,4)"), ("(3,7):(0,0)", "1:0", "1:0"), ("(2,4):(0,2)", "1:0", "(2,4):(0,2)"),
    ],
)  # fmt: skip
def test_published_inverses(layout, right, left):
    layout = parse(layout)
    assert str(right_inverse(layout)) == right
    found = left_inverse(layout)
    assert [layout(found(layout(i))) for i in range(layout.size)] == table(layout)
    if str(found) != left:
        assert (str(layout), str(found)) == ("(4,(4,2)):(1@1,(1@0,6@0))", "((6,2),4):((4,16),1)") or (
            str(layout), str(found)) == ("(4,2):(1,16)", "(16,2):(1,4)")  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "expected"),
    [  # P 3.2, C, and pycute's test_coalesce.py
        ("(2,(1,6)):(1,(6,2))", "12:1"), ("((4,3),5):((15,1),3)", "(4,15):(15,1)"),
        ("(2,4,6):(1,6,2)", "(2,4,6):(1,6,2)"),
        ("(2,1,6):(1,7,2)", "12:1"), ("(2,1,6):(4,7,8)", "12:4"), ("(2,1,3):(2,4,4)", "6:2"),
        ("(2,4):(4,1)", "(2,4):(4,1)"),
        ("((2,2),(2,2)):((1,4),(8,32))", "(2,4,2):(1,4,32)"), ("(1,1):(7,9)", "1:0"), ("(4,2):(0,0)", "8:0"),
        ("(4,2):(X(0x90),X(0x240))", "8:X(0x90)"), ("(3,2):(X(1),X(3))", "(3,2):(X(0x1),X(0x3))"),
        ("(4,2):(1@1,4@1)", "8:1@1"),
    ],
)  # fmt: skip
def test_published_coalescing(layout, expected):
    assert str(coalesce(parse(layout))) == expected


def test_large_layouts_are_composed_without_evaluating_each_element():
    image = row_major(1 << 14, 1 << 14)
    tiled = image / (128, 64)
    assert str(tiled) == f"((128,64),(128,256)):(({1 << 14},1),({1 << 21},64))"
    with pytest.raises(errors.LayoutError, match="too many to try"):
        composition(Layout((3 << 12, 3), (1, 1 << 20)), Layout((1 << 12, 7), (5, 1)))


def test_bits_beside_integers_stay_bits():
    tile = Layout(((8, 4), (64, 2)), ((X(0x90), 1024), (X(2), 4096)))
    part = composition(tile, (16, 64))
    assert str(part) == "((8,2),64):((X(0x90),1024),X(0x2))"
    lanes = composition(tile, Layout((16, 2), (E(1, 0), E(0, 8))))
    assert [lanes(i, j) for i in range(16) for j in range(2)] == [tile(i, 8 * j) for i in range(16) for j in range(2)]
    assert lanes.has_bits


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: composition((4, 8), Layout(4, 1)), r"composition\(\) of \(4, 8\)"),
        (lambda: make_layout(Layout(4, 1), 3), r"make_layout\(\) of 3"),
        (lambda: right_inverse("(4,8):(8,1)"), r"right_inverse\(\) of '"),
    ],
)
def test_what_is_no_layout_is_named(function, name):
    with pytest.raises(errors.LayoutError, match=name):
        function()
