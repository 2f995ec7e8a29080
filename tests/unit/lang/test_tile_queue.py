"""A queue of tiles: each tile is drawn once, launch after launch, however many blocks there are."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim.atomic_kernels import drawn
from tests.sim.simulate import run, verdict


@pytest.mark.parametrize("whole_warps", [True, False])
@pytest.mark.parametrize("tiles, blocks, stages", [(1, 1, 1), (9, 2, 1), (9, 3, 3), (2, 5, 2)])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_each_tile_once(tiles, blocks, stages, whole_warps, seed):
    counter, times, total = np.zeros(1, np.int32), np.zeros(tiles, np.int32), np.zeros(1, np.int32)
    options = sim.Options() if seed is None else sim.Options(order="random", seed=seed)
    for _ in range(2):
        constants = {"tiles": tiles, "blocks": blocks, "stages": stages, "whole_warps": whole_warps}
        run(drawn, counter, times, total, options=options, **constants)
    assert (times == 2).all() and counter[0] == 0 and total[0] == 2 * blocks


def test_a_reader_that_nobody_counts():
    @nv.jit
    def host(counter, y):
        @nv.kernel(grid=1, block=96)
        def kernel():
            queue = nv.TileQueue(counter, 9, readers=1)
            work = queue.begin()
            if nv.thread_id.x == 0:
                while work.valid:
                    work = queue.draw(work)
            if nv.warp_id() > 0:
                while work.valid:
                    y[work.tile, nv.thread_id.x - 32] = 1
                    work = queue.next(work)

        kernel()

    found = verdict(host, np.zeros(1, np.int32), np.zeros((9, 64), np.int32))
    assert found is not None and found.kind in ("mixed-rounds", "lapped-wait", "war", "raw", "deadlock")
