"""What one lane of a warp releases, fences or waits for is its own: every combination, and the exact verdict."""

import numpy as np
import pytest

from nvdsl import sim
from tests.sim import orders_lanes as kernels
from tests.sim.simulate import traced, verdict_of

SCHEDULES = [
    sim.Options(),
    sim.Options(order="reverse"),
    sim.Options(delivery="eager"),
    sim.Options(delivery="random", order="random", seed=3),
    sim.Options(level="nvvm"),
]
X = np.arange(256, dtype=np.float32)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def found(kernel, make, **switches):
    """The kinds that the schedules report ("": nothing)."""
    arrays = make()
    program = traced(kernel, *arrays, **switches)
    kinds = set()
    for options in SCHEDULES:
        for array, fresh in zip(arrays, make(), strict=True):
            array[...] = fresh
        error = verdict_of(program, options)
        kinds.add("" if error is None else error.kind)
    return kinds


TABLE = [
    (kernels.arrived, lambda: [X[:32].copy(), zeros(32)], {"by": ["one", "all"], "meet": [False, True]},
     lambda by, meet: "" if meet or by == "all" else "warp-sync"),
    (kernels.own_part, lambda: [X[:32].copy(), zeros(32)], {}, lambda: ""),
    (kernels.waited, lambda: [X.reshape(8, 32).copy(), zeros(32)], {"by": ["one", "all"], "meet": [False, True]},
     lambda by, meet: "" if meet or by == "all" else "undelivered"),
    (kernels.fenced_by, lambda: [zeros(8, 32)], {"by": ["one", "all"], "meet": [False, True]},
     lambda by, meet: "proxy-fence" if by == "one" else "" if meet else "warp-sync"),
    (kernels.flagged, lambda: [zeros(4, dtype=np.int32), zeros(32, dtype=np.int32), zeros(32, dtype=np.int32)],
     {"before": [False, True], "after": [False, True]},
     lambda before, after: "" if before and after else {"warp-sync", "raw", "war"}),
    (kernels.refilled, lambda: [zeros(8, 32)], {"by": ["one", "all"], "meet": [False, True]},
     lambda by, meet: "" if meet else "war-store"),
    (kernels.within, lambda: [X[:32].copy(), zeros(32)],
     {"hazard": ["raw", "war", "waw"], "mask": [0, 0xFFFF, 0xFFFFFFFF]},
     lambda hazard, mask: "" if mask == 0xFFFFFFFF else "warp-sync"),
    (kernels.half, lambda: [X[:32].copy(), zeros(32)], {"mask": [0, 0xFFFF]},
     lambda mask: "" if mask else "warp-sync"),
    (kernels.one_line, lambda: [zeros(64, 32, dtype=np.int32)], {"meet": [False, True], "shared": [False, True]},
     lambda meet, shared: "" if meet else "warp-sync"),
    (kernels.flag_set_by_two, lambda: [X[:32].copy(), zeros(32)], {"same": [True, False]},
     lambda same: "" if same else "waw"),
]  # fmt: skip


def rows():
    for kernel, make, switches, verdict in TABLE:
        combinations = [{}]
        for name, values in switches.items():
            combinations = [{**c, name: value} for c in combinations for value in values]
        for one in combinations:
            name = "-".join([kernel.__name__, *map(str, one.values())])
            yield pytest.param(kernel, make, one, verdict(**one), id=name)


@pytest.mark.parametrize(("kernel", "make", "switches", "expected"), list(rows()))
def test_verdict(kernel, make, switches, expected):
    kinds = found(kernel, make, **switches)
    assert kinds == {expected} if isinstance(expected, str) else kinds and kinds <= expected, kinds
