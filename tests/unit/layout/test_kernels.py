"""Layouts in kernels, in the simulator; tests/gpu/test_layout.py runs the same on the device."""

import pytest

from tests.unit.layout.layout_kernels import LAYOUTS, check_evaluation, check_fragments


@pytest.mark.parametrize("name", LAYOUTS)
def test_evaluated_by_each_thread(name):
    check_evaluation(*LAYOUTS[name], target="sim")


@pytest.mark.parametrize(("cols", "swizzle"), [(64, 128), (32, 64), (16, 32)])
def test_a_tile_through_ldmatrix(cols, swizzle):
    check_fragments(cols, swizzle, target="sim")
