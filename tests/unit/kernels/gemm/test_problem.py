"""Shapes and strides of a matrix product, compared with what NumPy does with the same arrays."""

from __future__ import annotations

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix, broadcast, collapse, fold, offsets


def strided(matrix: Matrix, memory: np.ndarray, start: int = 0) -> np.ndarray:
    size = memory.itemsize
    return np.lib.stride_tricks.as_strided(memory[start:], matrix.shape, [s * size for s in matrix.strides])


def seen(array: np.ndarray) -> Matrix:
    return Matrix(nv.f32, array.shape, tuple(s // array.itemsize for s in array.strides))


@st.composite
def stacks(draw):
    """Two arrays of the same batch axes with axes in any order of memory, some repeated."""
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    result = []
    for _ in range(2):
        shape = [*batch, draw(st.integers(1, 4)), draw(st.integers(1, 4))]
        order = draw(st.permutations(range(len(shape))))
        repeated = [draw(st.booleans()) and i < len(batch) for i in range(len(shape))]
        own = [1 if r else n for n, r in zip(shape, repeated, strict=True)]
        memory = np.arange(np.prod(own), dtype=np.float32).reshape([own[i] for i in order])
        result.append(np.broadcast_to(memory.transpose(np.argsort(order)), shape))
    return result


@hypothesis.given(stacks())
def test_collapse_keeps_every_matrix(arrays):
    collapsed = collapse([seen(x) for x in arrays])
    assert len({m.shape[:-2] for m in collapsed}) == 1
    for array, matrix in zip(arrays, collapsed, strict=True):
        base = array
        while base.base is not None:
            base = base.base
        view = strided(matrix, base.reshape(-1))
        np.testing.assert_array_equal(view.reshape(-1, *array.shape[-2:]), array.reshape(-1, *array.shape[-2:]))


@hypothesis.given(stacks())
def test_offsets_reach_every_outer_batch(arrays):
    collapsed = collapse([seen(x) for x in arrays])
    found = list(offsets(collapsed))
    assert len(found) == np.prod(collapsed[0].shape[:-3], dtype=int)
    for at, starts in zip(itertools.product(*map(range, collapsed[0].shape[:-3])), found, strict=True):
        expected = [sum(i * s for i, s in zip(at, m.strides, strict=False)) for m in collapsed]
        assert starts == expected


def test_contiguous_batches_become_one_axis():
    (x,) = collapse([seen(np.zeros((2, 3, 4, 5), np.float32))])
    assert (x.shape, x.strides) == ((6, 4, 5), (20, 5, 1))


def test_one_b_for_all_batches_becomes_rows_of_a():
    a, b, out = (np.zeros(s, np.float32) for s in ((6, 4, 5), (5, 3), (6, 4, 3)))
    fa, fb, (fout,) = fold(seen(a), seen(b).expanded((6,)), [seen(out)])
    assert (fa.shape, fb.shape, fout.shape) == ((24, 5), (5, 3), (24, 3))


def test_rows_with_gaps_are_not_folded():
    a = np.zeros((6, 8, 5), np.float32)[:, :4]
    fa, fb, (fout,) = fold(seen(a), seen(np.zeros((5, 3))).expanded((6,)), [seen(np.zeros((6, 4, 3)))])
    assert fa.shape == (6, 4, 5) and fb.shape == (6, 5, 3) and fout.shape == (6, 4, 3)


@hypothesis.given(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3))
def test_broadcast_is_numpys(a, b):
    try:
        expected = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        with pytest.raises(nv.ArgumentError, match="batches of"):
            broadcast(a, b)
    else:
        assert broadcast(a, b) == expected


@pytest.mark.parametrize(
    ("shape", "strides", "aligned", "fits"),
    [
        ((64, 64), (64, 1), True, True),
        ((64, 64), (1, 64), True, True),  # transposed
        ((64, 64), (64, 1), False, False),
        ((64, 63), (63, 1), True, False),  # rows of 126 bytes
        ((1, 63), (63, 1), True, True),  # one row: its stride says nothing
        ((64, 64), (128, 2), True, False),  # no contiguous axis
        ((3, 64, 64), (4096, 64, 1), True, True),
        ((3, 64, 64), (4097, 64, 1), True, False),
        ((3, 64, 64), (0, 64, 1), True, True),  # one matrix for all batches
        ((64, 64), (0, 1), True, False),  # one row repeated
        ((64, 64), (-64, 1), True, False),
    ],
)
def test_fits_tma(shape, strides, aligned, fits):
    matrix = Matrix(nv.f16, shape, strides, aligned)
    assert any(matrix.fits_tma(major) for major in (0, 1)) is fits


def problem(**shapes) -> GemmProblem:
    types = {"a": nv.f16, "b": nv.f16}
    given = {name: seen(np.zeros(s, np.float16)) for name, s in shapes.items()}
    given = {name: Matrix(types.get(name, nv.f32), m.shape, m.strides) for name, m in given.items()}
    return GemmProblem.of(given, None, None)


def test_sizes_and_result():
    found = problem(a=(2, 1, 4, 5), b=(3, 5, 6), bias=(6,))
    assert found.result == (2, 3, 4, 6)
    assert found.sizes == (4, 6, 5)
    assert found.batches == 6
    assert found.acc_dtype == nv.f32 and found.out_dtype == nv.f16


@pytest.mark.parametrize(
    ("a", "b", "result"), [((5,), (5, 6), (6,)), ((4, 5), (5,), (4,)), ((5,), (5,), ()), ((2, 4, 5), (5,), (2, 4))]
)
def test_vectors(a, b, result):
    assert problem(a=a, b=b).result == result == np.matmul(np.zeros(a), np.zeros(b)).shape


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"a": (4, 5), "b": (4, 6)}, r"K is a's last axis \(5\) and b's last but one \(4\)"),
        ({"a": (), "b": (4, 6)}, "a scalar instead of a matrix"),
        ({"a": (4, 5), "b": (5, 6), "bias": (4,)}, r"bias of shape \(4,\) for a result of shape \(4, 6\)"),
        ({"a": (4, 5), "b": (5, 6), "scale_a": (4, 6)}, r"scale_a is broadcast to \(4, 1\)"),
        ({"a": (4, 5), "b": (5, 6), "scale_b": (4, 6)}, r"scale_b is broadcast to \(1, 6\)"),
        ({"a": (4, 5), "b": (5, 6), "out": (6, 4)}, r"out of shape \(6, 4\) for a result of \(4, 6\)"),
    ],
)
def test_what_does_not_fit_is_said(shapes, message):
    with pytest.raises(nv.ArgumentError, match=message):
        problem(**shapes)
