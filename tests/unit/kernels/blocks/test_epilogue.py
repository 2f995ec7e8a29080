"""An epilogue that stores through shared memory of one's own."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels.blocks.epilogue import TmaEpilogue
from tests.sim.simulate import SCHEDULES, traced


@nv.jit
def product(a, b, out, *, tiles=1, cols=64):
    """One tile. The result leaves through A's memory, which wgmma has read."""
    a_tma, b_tma = nv.TMA(a, tile=(64, 64), swizzle=128), nv.TMA(b, tile=(64, 64), swizzle=128)
    epilogue = TmaEpilogue(out, 64, buffers=1)

    @nv.kernel(grid=1, block=128)
    def kernel():
        stack, other = nv.smem((tiles, 64, cols), a.dtype, swizzle=128), nv.smem((64, 64), a.dtype, swizzle=128)
        epilogue.allocate(1, stack)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(stack[0].bytes + other.bytes)
            a_tma.load(stack[0], full, (0, 0))
            b_tma.load(other, full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, 64)
        nv.wgmma_fence()
        acc += stack[0] @ other.T
        nv.wgmma_commit()
        nv.wgmma_wait(0)
        epilogue.store(acc, 0, 0, 0, 0)
        epilogue.drain()

    kernel()


def test_through_an_operands_memory():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float16)
    program = traced(product, a, b, out)
    for options in SCHEDULES[:8]:
        out.fill(0)
        program.run(options)
        np.testing.assert_array_equal(out, a @ b.T)


def test_a_buffer_of_other_tiles():
    shape = nv.ShapeDtype((64, 64), nv.f16)
    with pytest.raises(ArgumentError, match=r"an epilogue's buffer of \(1, 64, 128\) f16"):
        product.trace(shape, shape, shape, cols=128)
