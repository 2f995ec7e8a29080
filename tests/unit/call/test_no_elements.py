"""Arrays without elements, of static shapes: nothing is done, and strides are what they are."""

import numpy as np
import pytest

import nvdsl as nv


@nv.jit
def copied(x, y, steps):
    """``steps``: the strides of y, as the kernel sees them."""
    rows, cols = y.shape

    @nv.kernel(grid=2, block=32)
    def kernel():
        i = nv.thread_id.x
        if i < 2:
            steps[nv.block_id.x, i] = nv.select(i == 0, y.strides[0], y.strides[1])
        for row in nv.range(rows):
            if i < cols:
                y[row, i] = x[row, i]

    kernel()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda _: np.zeros((4, 5), "f")[:0, :0]])
def test_of_any_layout(shape, layout):
    y = layout(np.zeros(shape, np.float32))
    steps = np.full((2, 2), -1, np.int64)
    copied(y.copy(), y, steps, target="sim")
    assert (steps[0] == steps[1]).all() and (steps >= 0).all() and (steps < 100).all()
    assert copied.compile(y.copy(), y, steps).ptx
