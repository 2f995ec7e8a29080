"""The clocks of an SM and of the GPU, beside each other."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import in_child

pytestmark = pytest.mark.alone  # it measures time

NANOSECONDS = 100_000


@nv.jit
def wait(out):
    @nv.kernel(grid=4, block=32)
    def kernel():
        start, clocks = nv.globaltimer(), nv.clock()
        while nv.globaltimer() - start < NANOSECONDS:
            nv.nanosleep(100)
        out[nv.block_id.x, 0] = nv.globaltimer() - start
        out[nv.block_id.x, 1] = nv.clock() - clocks

    kernel()


@in_child(timeout=60)
def test_a_wait_by_the_timer_takes_as_long_and_the_clock_runs_at_its_rate():
    out = np.zeros((4, 2), np.int64)
    wait(out)
    nanoseconds, clocks = out.T
    assert (nanoseconds >= NANOSECONDS).all()
    assert (nanoseconds < 100 * NANOSECONDS).all()
    rate = clocks / nanoseconds  # GHz
    assert ((rate > 0.2) & (rate < 3)).all(), rate
