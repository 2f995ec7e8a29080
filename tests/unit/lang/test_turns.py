"""Turns: in order, whatever the number of members, and whether all have as many."""

import numpy as np
import pytest

from nvdsl import sim
from tests.sim.atomic_kernels import in_turns
from tests.sim.simulate import run


@pytest.mark.parametrize("count, total", [(2, 4), (2, 5), (3, 7), (5, 12)])
@pytest.mark.parametrize("order", ["forward", "random"])
def test_members_come_in_order(count, total, order):
    out = np.full(total, -1, np.int32)
    run(in_turns, out, count=count, total=total, options=sim.Options(order=order))
    assert out.tolist() == [i % count for i in range(total)]
