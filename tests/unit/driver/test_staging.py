"""Host arrays that overlap, themselves or each other: staged as the memory that they are, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import nvdsl as nv
from nvdsl.driver.array_spec import shares_elements
from nvdsl.errors import ArgumentError
from tests.unit.driver import libraries


def f32(*values):
    return np.array(values, np.float32)


@nv.jit
def both_add(x, y):
    """Each adds to its own array: one after the other, for they may be the same."""
    n, m = x.shape[0], y.shape[0]

    @nv.kernel(grid=1, block=1)
    def kernel():
        for i in nv.range(n):
            x[i] = x[i] + 1.0
        for i in nv.range(m):
            y[i] = y[i] + 10.0

    kernel()


@nv.jit
def shifted(x, y):
    n = x.shape[0]

    @nv.kernel(grid=1, block=1)
    def kernel():
        for i in nv.range(n):
            y[i] = x[i] + 1.0

    kernel()


def test_one_array_given_twice_and_written_twice():
    a = f32(1, 2, 3)
    both_add(a, a, target="sim")
    assert a.tolist() == [12, 13, 14]


def test_two_arrays_are_two():
    a, b = f32(1, 2), f32(1, 2)
    both_add(a, b, target="sim")
    assert (a.tolist(), b.tolist()) == ([2, 3], [11, 12])


def test_overlapping_parts_of_one_array():
    a = f32(0, 0, 0, 0, 0)
    both_add(a[:3], a[2:], target="sim")
    assert a.tolist() == [1, 1, 11, 10, 10]
    a = f32(1, 0, 0, 0)
    shifted(a[:-1], a[1:], target="sim")
    assert a.tolist() == [1, 2, 3, 4]


def test_a_view_of_another_shape():
    a = np.zeros((2, 2), np.float32)

    @nv.jit
    def add(x, y):
        @nv.kernel(grid=1, block=1)
        def kernel():
            x[1, 0] = 5.0
            y[3] = y[2] + 1.0

        kernel()

    add(a, a.reshape(-1), target="sim")
    assert a.tolist() == [[0, 0], [5, 6]]


def test_the_same_view_with_gaps_twice():
    a = np.zeros(6, np.float32)
    both_add(a[::2], a[::2], target="sim")
    assert a.tolist() == [11, 0, 11, 0, 11, 0]


def test_interleaved_views_share_nothing():
    a = np.zeros(6, np.float32)
    both_add(a[::2], a[1::2], target="sim")
    assert a.tolist() == [1, 10, 1, 10, 1, 10]


@pytest.mark.parametrize("pick", [lambda a: (a, a[::2]), lambda a: (a[::-1], a), lambda a: (a[::2], a[2:5:1])])
def test_overlaps_that_can_not_be_staged_are_refused(pick):
    with pytest.raises(ArgumentError, match="x and y overlap in memory, and the call writes") as caught:
        both_add(*pick(np.zeros(8, np.float32)), target="sim")
    assert caught.value.where is not None and caught.value.where.file == __file__ and "copy" in caught.value.fix


def test_inputs_may_overlap_as_they_like():
    seen, a, out = [], np.arange(6, dtype=np.float32), np.zeros(3, np.float32)

    @nv.jit
    def add(x, y, out):
        @nv.kernel(grid=1, block=3)
        def kernel():
            i = nv.thread_id.x
            out[i] = x[i] + y[i]

        seen.append(1)
        kernel()

    add(a[::2], a[:3], out, target="sim")
    assert out.tolist() == [0, 3, 6]
    add(np.broadcast_to(f32(2), (3,)), as_strided(a, (3,), (4,)), out, target="sim")
    assert out.tolist() == [2, 3, 4]


OVERLAPPING = {
    "stride 0": lambda a: as_strided(a, (3,), (0,)),
    "rows that overlap": lambda a: as_strided(a, (3, 2), (4, 4)).reshape(3, 2)[:, 0:2],
    "a broadcast that may be written": lambda a: as_strided(a, (2, 3), (0, 4)),
    "strides that meet": lambda a: as_strided(a, (3, 4), (8, 4)),
}


@pytest.mark.parametrize("make", OVERLAPPING.values(), ids=OVERLAPPING)
def test_an_output_whose_elements_share_memory_is_refused(make):
    @nv.jit
    def fill(y):
        @nv.kernel(grid=1, block=1)
        def kernel():
            y[(0,) * y.ndim] = 1.0

        kernel()

    y = make(np.zeros(16, np.float32))
    with pytest.raises(ArgumentError, match="elements of y share memory") as caught:
        fill(y, target="sim")
    assert caught.value.where.file == __file__
    fill(np.ascontiguousarray(y), target="sim")
    with pytest.raises(ArgumentError, match="elements of out share memory"):
        nv.matmul(np.ones((3, 4), np.float32), np.ones((4, 2), np.float32), as_strided(y, (3, 2), (4, 4)), target="sim")


def test_device_arrays_whose_elements_share_memory(monkeypatch):
    torch = libraries.install_torch(monkeypatch)
    tensor = torch.Tensor("float32", (3, 2), (1, 1), address=0x1000)
    with pytest.raises(ArgumentError, match="elements of out share memory"):
        nv.matmul(np.ones((3, 4), np.float32), np.ones((4, 2), np.float32), tensor, target="sim")


def test_cpu_tensors_and_numpy_over_the_same_memory(monkeypatch):
    torch = libraries.install_torch(monkeypatch)
    a = np.zeros(3, np.float32)
    both_add(a, torch.Tensor("float32", (3,), (1,), device=-1, host=a), target="sim")
    assert a.tolist() == [11, 11, 11]
    b = np.zeros(6, np.float32)
    with pytest.raises(ArgumentError, match="x and y overlap in memory"):
        both_add(b[::2], torch.Tensor("float32", (3,), (2,), device=-1, host=b[::2]), target="sim")


def test_a_product_into_one_of_its_operands():
    a = np.eye(4, dtype=np.float32)
    for name, given_ in {"a": (a, np.ones((4, 4), np.float32)), "b": (np.ones((4, 4), np.float32), a)}.items():
        with pytest.raises(ArgumentError, match=f"out and {name} overlap"):
            nv.matmul(*given_, a, target="sim")
    c = np.ones((4, 4), np.float32)
    nv.matmul(a, a, c, c=c, target="sim")
    assert (c == np.eye(4) + 1).all()
    with pytest.raises(ArgumentError, match="out and c overlap"):
        nv.matmul(a, a, c, c=c.T, target="sim")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-6, 6)), max_size=3), st.sampled_from((1, 2, 4)))
def test_shares_elements_is_what_counting_says(axes, size):
    shape, strides = tuple(n for n, _ in axes), tuple(s * size for _, s in axes)
    places = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)]
    assert shares_elements(shape, strides, size) == (len(set(places)) < len(places))


def test_bytes_that_overlap_though_the_elements_begin_apart():
    assert shares_elements((3,), (2,), 4) and not shares_elements((3,), (4,), 4) and not shares_elements((3,), (6,), 4)
