"""Turns: in order, whatever the number of members, and whether all have as many."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim.simulate import run


@nv.jit
def written(out, *, count, total):
    """Members write the number of each turn; the last rounds may be short."""

    @nv.kernel(grid=1, block=32 * count)
    def kernel():
        turns, me = nv.Turns(count, threads=32), nv.warp_id()
        place = nv.smem((1,), nv.i32)
        if nv.thread_id.x == 0:
            place[0] = 0
        nv.sync_threads()
        turns.begin(me)
        for turn in nv.range(me, total, count):
            turns.wait(me)
            if nv.lane_id() == 0:
                out[place[0]] = me
                place[0] = place[0] + 1
            turns.pass_on(me, turn + 1 < total)

    kernel()


@pytest.mark.parametrize("count, total", [(2, 4), (2, 5), (3, 7), (5, 12)])
@pytest.mark.parametrize("order", ["forward", "random"])
def test_members_come_in_order(count, total, order):
    out = np.full(total, -1, np.int32)
    run(written, out, count=count, total=total, options=sim.Options(order=order))
    assert out.tolist() == [i % count for i in range(total)]
