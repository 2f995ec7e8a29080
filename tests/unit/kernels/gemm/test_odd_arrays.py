"""Products of arrays as they may lie in a device's memory, in the simulator: any strides (negative ones and 0 too), any
offset, sizes of 0 and 1, NaN and inf among the elements, and NaN everywhere else in the memory around them.

The simulator itself is given packed copies of NumPy arrays, so the views are made in a host function, as roads say.
"""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels import Config
from nvdsl.kernels.blocks.contiguous import contiguous
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm.dispatch import find
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.values.dtypes import from_numpy
from tests.exhaustive import exhaustive
from tests.unit.kernels.strided import strided

CONFIGS = [
    None,  # what nvdsl chooses: without tensor cores, where a copy would be needed
    Config(64, 64, stages=2, consumers=1),
    Config(64, 48, stages=3, schedule="pingpong"),
    Config(64, 32, stages=3, schedule="streamk"),
    Config(64, 64, stages=2, schedule="splitk", split=2, consumers=1, store_buffers=1),
]
TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, ml_dtypes.float8_e5m2, np.int8]
EXTENTS = st.sampled_from([0, 1, 1, 2, 7, 8, 17, 24, 65])


@dataclass
class Placed:
    """``flat``: memory; ``array``: what of it is meant; ``start``: its first element."""

    flat: np.ndarray
    array: np.ndarray
    start: int

    @property
    def matrix(self) -> Matrix:
        size = self.array.itemsize
        strides = tuple(step // size for step in self.array.strides)
        return Matrix(from_numpy(self.array.dtype), self.array.shape, strides, self.start * size % 16 == 0)


@st.composite
def placed(draw, shape, dtype, result=False):
    """An array of ``shape``: its axes in any order, forwards or backwards, with gaps, from any element on."""
    strides, start, step = [0] * len(shape), draw(st.sampled_from([0, 1, 16])), 1
    for axis in draw(st.permutations(range(len(shape)))):
        if not result and draw(st.integers(0, 9)) == 0:
            continue  # the same element again and again
        strides[axis] = step
        step = step * max(shape[axis], 1) + draw(st.sampled_from([0, 0, 1, 16]))
        if draw(st.integers(0, 9)) == 0:
            start += strides[axis] * max(shape[axis] - 1, 0)
            strides[axis] = -strides[axis]
    found = lay(shape, dtype, strides, start)
    if not result:
        values = np.random.default_rng([step, start]).integers(-3, 4, shape).astype(np.float32)
        if np.dtype(dtype).kind != "i" and values.size and draw(st.booleans()):
            places = draw(st.lists(st.integers(0, values.size - 1), max_size=3))
            values.flat[places] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
        found.array[...] = values.astype(dtype)
    return found


def lay(shape, dtype, strides, start):
    """In memory that is full of NaN (of 77 for integers)."""
    size = np.dtype(dtype).itemsize
    ends = [start + sum(max(n - 1, 0) * max(s, 0) for n, s in zip(shape, strides, strict=True)), 64]
    flat = np.full(sum(ends), 77 if np.dtype(dtype).kind == "i" else np.nan, dtype)
    memory = flat.view(np.uint8)  # as_strided knows no 8-bit floats
    return Placed(flat, np.ndarray(shape, dtype, memory, start * size, [s * size for s in strides]), start)


@st.composite
def products(draw):
    dtype = draw(st.sampled_from(TYPES))
    m, n, k = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    batch = draw(st.sampled_from([(), (), (2,)]))
    a = draw(placed((*batch, m, k), dtype))
    b = draw(placed((*(batch if draw(st.booleans()) else ()), k, n), dtype))
    kind = np.int32 if dtype == np.int8 else np.float32
    return a, b, draw(placed((*batch, m, n), kind, result=True))


def launch(road, arrays, number):
    """Launch a road's kernel on views of flat memory."""
    options = {"config": CONFIGS[1], **road.options} if isinstance(road.function, nv.Autotuned) else road.options

    @nv.jit
    def call(*flat):
        views = []
        for memory, placed, (name, slot) in zip(flat, arrays, road.slots, strict=True):
            seen = road.packs[name].source if name in road.packs else slot
            view = strided(memory, seen.spec.shape, seen.spec.strides, placed.start + seen.starts[number])
            views.append(contiguous(view) if name in road.packs else view)
        road.function.__wrapped__(*views, **options)

    call(*(placed.flat for placed in arrays), target="sim")


def check(a, b, out, config):
    problem = GemmProblem.of({"a": a.matrix, "b": b.matrix, "out": out.matrix}, None, None)
    road = find(problem, LinearCombination(), config, "sim")
    by_name = {"a": a, "b": b, "out": out}
    around = out.flat.copy()
    with np.errstate(invalid="ignore"):
        expected = np.matmul(a.array.astype(np.float32), b.array.astype(np.float32))
    for number in range(road.launches):
        launch(road, [by_name[name] for name, _ in road.slots], number)
    np.testing.assert_array_equal(out.array, expected)
    out.array[...] = around[-1]
    np.testing.assert_array_equal(out.flat, around, "an element beside the result was written")


@hypothesis.given(products(), st.sampled_from(CONFIGS))
@hypothesis.settings(max_examples=15)
def test_any_array_in_any_memory(given, config):
    check(*given, config)


@exhaustive
@hypothesis.given(products(), st.sampled_from(CONFIGS))
@hypothesis.settings(max_examples=50)
def test_many_arrays_in_any_memory(given, config):
    check(*given, config)


@pytest.mark.parametrize("config", CONFIGS[1:], ids=lambda c: c.schedule)
@pytest.mark.parametrize(
    ("strides", "start"),
    [((32, 1), 0), ((-32, 1), 32 * 19), ((0, 1), 8), ((-1, -32), 32 * 40)],
    ids=["forwards", "rows backwards", "one row", "all backwards"],
)
def test_strides_that_tma_nearly_reads(config, strides, start):
    """Multiples of 16 bytes, but 0 or below."""
    rng = np.random.default_rng(0)
    a, b = lay((20, 24), np.float16, strides, start), lay((24, 40), np.float16, (40, 1), 0)
    for x in (a, b):
        x.array[...] = rng.integers(-3, 4, x.array.shape)
    check(a, b, lay((20, 40), np.float32, (40, 1), 0), config)
