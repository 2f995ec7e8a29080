"""Copies by words: the same elements, whatever byte a row starts at."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels.blocks.realigned import copies


def check(dtype, shape, pitch, batch_pitch=0):
    *batches, rows, cols = shape
    count = (batches[0] - 1) * batch_pitch if batches else 0
    memory = (np.arange(count + (rows - 1) * pitch + cols) * 37 % 251 - 125).astype(dtype)
    words = np.frombuffer(memory.tobytes()[: memory.nbytes // 16 * 16], np.int32).reshape(-1, 4)
    strides = [x * memory.itemsize for x in (batch_pitch, pitch, 1)[-len(shape) :]]
    source = np.lib.stride_tricks.as_strided(memory, shape, strides).copy()
    packed = np.zeros((source.size // cols, -(-cols * memory.itemsize // 16), 4), np.int32)
    copies(source, words, packed, pitch, batch_pitch, kinds=("words",), target="sim")
    np.testing.assert_array_equal(packed.view(dtype).reshape(*shape[:-1], -1)[..., :cols], source)


@pytest.mark.parametrize(
    ("dtype", "shape", "pitch", "batch_pitch"),
    [
        (np.int8, (33, 70), 70, 0),
        (np.int8, (5, 33), 35, 0),  # gaps
        (np.int8, (3, 5, 33), 33, 200),
        (np.int8, (2, 17), 17, 0),  # a row is hardly more than a vector
        (np.int8, (40, 3), 3, 0),  # a vector has several rows
        (np.int8, (4, 5), 5, 0),  # and the last ones lie behind all whole vectors
        (np.float16, (21, 1), 1, 0),
        (np.float16, (2, 3, 5), 7, 25),
        (np.float16, (34, 131), 131, 0),
        (np.float16, (2, 3, 9), 9, 0),  # one batch for all
    ],
)
def test_rows_that_start_anywhere(dtype, shape, pitch, batch_pitch):
    check(dtype, shape, pitch, batch_pitch)


def test_one_compiled_copy_for_all_shapes():
    before = len(copies._compiled._made)
    source = nv.ShapeDtype(("rows", "cols"), nv.e4m3, (None, 1))
    words = nv.ShapeDtype(("w", 4), nv.i32)
    packed = nv.ShapeDtype(("rows", "v", 4), nv.i32, (None, 4, 1))
    (kernel,) = copies.compile(source, words, packed, 3, 0, kinds=("words",)).kernels.values()
    assert (kernel.resources.spill_stores, kernel.resources.stack) == (0, 0)
    assert len(copies._compiled._made) == before + 1
