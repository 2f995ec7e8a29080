"""Layouts in kernels on the device: traced evaluation, and ldmatrix at the rows that FRAGMENT_ROWS names."""

import pytest

from tests.unit.layout.layout_kernels import LAYOUTS, check_evaluation, check_fragments


@pytest.mark.parametrize("name", LAYOUTS)
def test_evaluated_by_each_thread(name):
    check_evaluation(*LAYOUTS[name], target="gpu")


@pytest.mark.parametrize(("cols", "swizzle"), [(64, 128), (32, 64), (16, 32)])
def test_a_tile_through_ldmatrix(cols, swizzle):
    check_fragments(cols, swizzle, target="gpu")
