"""Arguments in a device's memory: which of them overlap."""

from __future__ import annotations

import re

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.driver.array_spec import Place, spec_of
from nvdsl.kernels.arguments import Argument
from nvdsl.kernels.gemm.arguments import check_disjoint

START = 0x10000


def placed(name, address, shape=(4, 8), strides=(8, 1), device=0, dtype=nv.f16):
    memory = (address, Place(None, device), None)
    return Argument(name, spec_of(shape, dtype, strides), memory)


def refused(*arguments):
    try:
        check_disjoint({argument.name: argument for argument in arguments})
    except nv.ArgumentError as error:
        return re.match(r"out and (\w+) overlap", error.message)[1]
    return None


@pytest.mark.parametrize("name", ["a", "b", "bias", "scale_a", "c"])
@pytest.mark.parametrize(("distance", "overlaps"), [(62, True), (64, False), (-62, True), (-64, False)])
def test_one_element_is_enough(name, distance, overlaps):
    found = refused(placed("out", START), placed(name, START + distance))
    assert found == (name if overlaps else None)


def test_only_c_may_be_out_itself_and_only_as_it_is():
    out = placed("out", START)
    assert refused(out, placed("a", START)) == "a"
    assert refused(out, placed("c", START)) is None
    assert refused(out, placed("c", START, (8, 4), (4, 1))) == "c"
    assert refused(out, placed("c", START, (4, 8), (0, 1))) == "c"
    assert refused(out, placed("c", START, dtype=nv.bf16)) == "c"


def test_rows_that_run_backwards_reach_below_their_address():
    out = placed("out", START, (4, 8), (-8, 1))
    assert refused(out, placed("a", START - 48, (1, 1), (1, 1))) == "a"
    assert refused(out, placed("a", START - 50, (1, 1), (1, 1))) is None
    assert refused(out, placed("a", START + 16, (1, 1), (1, 1))) is None


def test_memory_of_another_device_or_of_the_host_is_other_memory():
    assert refused(placed("out", START), placed("a", START, device=1)) is None
    assert refused(placed("out", 0, device=-1), placed("a", 0, device=-1)) is None
    assert refused(placed("out", START), placed("a", 0, device=-1)) is None


@hypothesis.given(*[st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(1, 4), st.integers(-6, 6))] * 2)
def test_no_overlap_is_missed(one, other):
    """Ranges of addresses are compared: what lies in the gaps between rows is refused, too."""
    bytes_of = []
    for start, rows, cols, step in (one, other):
        elements = {START + 2 * (start + r * step + c) for r in range(rows) for c in range(cols)}
        bytes_of.append(elements)
    out, a = (placed(n, START + 2 * x[0], x[1:3], (x[3], 1)) for n, x in (("out", one), ("a", other)))
    low, high = (max(map(min, bytes_of)), min(map(max, bytes_of)))
    assert (refused(out, a) == "a") is (low <= high)
    assert refused(out, a) == "a" or not np.intersect1d(*map(list, bytes_of)).size
