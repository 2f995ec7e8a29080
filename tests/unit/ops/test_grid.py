"""A barrier of the grid: rounds of exchange between all blocks, launch after launch; what is wrong is reported."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import TraceError
from tests.sim.simulate import run, verdict


@nv.jit
def passed_around(x, y, counter, *, rounds, blocks, skip=None):
    """Each round, each block takes the row of the one before it and adds 1. ``skip``: the barrier that is left out."""

    @nv.kernel(grid=blocks, block=64)
    def kernel():
        b, t = nv.block_id.x, nv.thread_id.x
        for round in range(rounds):
            source, target = (x, y) if round % 2 == 0 else (y, x)
            target[b, t] = source[(b + blocks - 1) % blocks, t] + 1
            if round != skip:
                nv.grid_sync(counter)

    kernel()


def arrays(blocks):
    x = np.random.default_rng(0).integers(0, 9, (blocks, 64)).astype(np.int32)
    return x, np.zeros_like(x), np.zeros(1, np.int32)


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("order, blocks", [("forward", 1), ("forward", 3), ("reverse", 3), ("random", 4)])
def test_rounds(order, blocks, level):
    x, y, counter = arrays(blocks)
    start = x.copy()
    for _ in range(3):  # the counter goes on
        x[...] = start
        run(passed_around, x, y, counter, rounds=4, blocks=blocks, options=sim.Options(order=order, level=level))
        np.testing.assert_array_equal(x, np.roll(start, 4, axis=0) + 4)


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_barrier_that_is_left_out(skip):
    found = verdict(passed_around, *arrays(3), rounds=4, blocks=3, skip=skip)
    assert found is not None and found.kind in ("raw", "war", "waw")


def test_a_block_that_does_not_come():
    @nv.jit
    def host(counter):
        @nv.kernel(grid=3, block=64)
        def kernel():
            if nv.block_id.x < 2:
                nv.grid_sync(counter)

        kernel()

    found = verdict(host, np.zeros(1, np.int32))
    assert found is not None and found.kind in ("deadlock", "livelock")


def test_more_blocks_than_the_gpu_holds():
    @nv.jit
    def host(counter):
        @nv.kernel(grid=133, block=32)
        def kernel():
            nv.smem((50_000,), nv.i32)
            nv.grid_sync(counter)

        kernel()

    found = verdict(host, np.zeros(1, np.int32))
    assert found is not None and found.kind == "deadlock" and "the GPU holds 132 blocks at a time" in str(found)


def test_no_counter():
    @nv.jit
    def host(counter):
        @nv.kernel(grid=2, block=64)
        def kernel():
            nv.grid_sync(counter)

        kernel()

    with pytest.raises(TraceError, match="a grid's barrier that counts in Array"):
        host.trace(nv.ShapeDtype((1,), nv.f32))
