"""Layouts for tests: hypothesis' strategies, and what a function of coordinates is."""

from __future__ import annotations

from hypothesis import strategies as st

from nvdsl.layout import E, Layout, X, make_layout

SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])
STEPS = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16, 24])


def leaves(sizes=SIZES, strides=STEPS):
    return st.builds(Layout, sizes, strides)


def layouts(sizes=SIZES, strides=STEPS):
    """Of one to three modes, some of them of two."""
    one = leaves(sizes, strides)
    mode = st.one_of(one, one, one, st.builds(make_layout, one, one))
    several = st.lists(mode, min_size=1, max_size=3).map(lambda modes: make_layout(*modes))
    return st.one_of(one, several).filter(lambda layout: layout.size <= 200)


def of_bits(most: int = 6):
    """Layouts of bits, with powers of two as sizes."""
    return layouts(st.sampled_from([1, 2, 4, 8]), st.integers(0, (1 << most) - 1).map(X))


def of_coordinates(axes: int = 2):
    steps = st.sampled_from([1, 2, 4, 8, 16])
    basis = st.integers(0, axes - 1).map(lambda i: E(*(int(i == j) for j in range(axes))))
    return layouts(strides=st.builds(lambda n, e: n * e, steps, basis))


def table(layout: Layout) -> list:
    """What it gives for every integer in its domain."""
    return [layout(i) for i in range(layout.size)]
