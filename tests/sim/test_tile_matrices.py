"""tile.ldmatrix and tile.stmatrix: any swizzle, count, order and type, with and without transposition."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.layout import E, Layout
from nvdsl.testing import random
from tests.exhaustive import sample
from tests.sim import tile_matrices
from tests.sim.simulate import run

SIDE = Layout(4, E(0, 8))


CASES = [
    (swizzle, count, matrices, loaded, stored)
    for loaded, stored in ((False, False), (True, False), (False, True))
    for count, matrices in ((1, None), (2, None), (4, None), (2, SIDE), (4, SIDE))
    for swizzle in (0, 16, 32, 64, 128)
]


@pytest.mark.parametrize(("swizzle", "count", "matrices", "loaded", "stored"), sample(CASES, 5))
def test_there_and_back(swizzle, count, matrices, loaded, stored):
    x, out = random((32, 64), nv.f16, seed=1), np.zeros((32, 64), np.float16)
    how = {"swizzle": swizzle, "count": count, "loaded": loaded, "stored": stored, "matrices": matrices}
    run(tile_matrices.exchanged, x, out, start=(3, 8), to=(16, 32), **how)
    expected = np.zeros_like(x)
    for i in range(count):
        row, col = (matrices or Layout((2, 2), (E(8, 0), E(0, 8))))(i)
        block = x[3 + row :, 8 + col :][:8, :8]
        expected[16 + row :, 32 + col :][:8, :8] = block.T if loaded is not stored else block
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [nv.i8, nv.f32])
def test_other_types_as_their_bits(dtype):
    x, out = random((16, 64), dtype, seed=1), np.zeros((16, 64), dtype.numpy)
    how = {"swizzle": 64, "count": 4, "loaded": False, "stored": False}
    run(tile_matrices.exchanged, x, out, start=(0, 0), to=(0, 32), **how, options=sim.Options(level="nvvm"))
    wide = 32 // dtype.bytes
    np.testing.assert_array_equal(out[:, 32 : 32 + wide], x[:, :wide])
