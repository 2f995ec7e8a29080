"""Every instruction that threads execute together: by a part of them it is reported, by all of them it is not."""

import importlib
import inspect

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.ir import collectives as table
from nvdsl.sim.decode import HANDLERS
from tests.sim import collectives as kernels
from tests.sim.simulate import traced, verdict, verdict_of

SCHEDULES = [sim.Options(), sim.Options(order="reverse"), sim.Options(delivery="random", order="random", seed=1),
             sim.Options(level="nvvm")]  # fmt: skip


def ints(*values):
    return np.array(values, np.int32)


def zeros(n, dtype=np.int32):
    return np.zeros(n, dtype)


def kinds(kernel, *arrays, **switches):
    """What the schedules report: kinds, and None."""
    program = traced(kernel, *arrays, **switches)
    before = [a.copy() for a in arrays]
    found = set()
    for options in SCHEDULES:
        for array, fresh in zip(arrays, before, strict=True):
            array[...] = fresh
        error = verdict_of(program, options)
        found.add(None if error is None else error.kind)
    return found


def kind(kernel, *arrays, **switches):
    """The one that they report alike."""
    (found,) = kinds(kernel, *arrays, **switches)
    return found


def test_the_tables_name_ops_that_the_simulator_knows():
    importlib.import_module("nvdsl.sim.dialects")
    assert {*table.ALIGNED, *table.MASKED} <= set(HANDLERS)


@pytest.mark.parametrize("op", ["fence", "commit", "wait", "registers", "barrier", "cluster"])
def test_aligned(op):
    assert kind(kernels.aligned, ints(32), zeros(128), op=op, lanes="all") is None
    found = kind(kernels.aligned, ints(16), zeros(128), op=op, lanes="some")
    assert found in ("divergent-collective", "divergent-barrier", "wgmma-converged")


@pytest.mark.parametrize("op", ["shuffle", "vote", "ballot", "meet", "elect"])
def test_masked(op):
    full, half = 0xFFFFFFFF, 0xFFFF
    assert kind(kernels.masked, ints(32), zeros(32), op=op, mask=full) is None
    assert kind(kernels.masked, ints(16), zeros(32), op=op, mask=full) == "divergent-collective"
    if op != "elect":
        assert kind(kernels.masked, ints(16), zeros(32), op=op, mask=half) is None
        assert kind(kernels.masked, ints(32), zeros(32), op=op, mask=half) == "divergent-collective"


def test_what_an_inactive_lane_has_is_undefined():
    assert kind(kernels.masked, ints(32), zeros(32), op="down", mask=0xFFFFFFFF) is None
    assert kind(kernels.masked, ints(16), zeros(32), op="down", mask=0xFFFF) == "divergent-collective"
    x, out = np.arange(32, dtype=np.float32), zeros(1, np.float32)
    assert kind(kernels.reduced, ints(16), x, out) is None
    assert out[0] == x[:16].sum()


@pytest.mark.parametrize("add", [False, True])
def test_what_an_inactive_lane_has_stays_undefined_on_its_way_to_a_store(add):
    x, out = np.arange(32, dtype=np.int32), zeros(1)
    assert kind(kernels.folded, x, out, mask=0xFFFF, by=(8, 4, 2, 1), add=add) is None
    error = verdict(kernels.folded, x, out, mask=0xFFFF, by=(16, 8), add=add)
    assert error.kind == "divergent-collective" and "lane 0 reads lane 16" in str(error), error
    lines, first = inspect.getsourcelines(kernels.folded._function)
    assert "# SHUFFLE" in lines[error.where.line - first]


@pytest.mark.parametrize("first", [0, 20])
def test_lanes_wait_for_each_other_in_branches(first):
    x, out = np.arange(3, dtype=np.float32), zeros(3, np.float32)
    assert kind(kernels.handed_on, x, out, first=first) is None
    assert (out == x).all()


@pytest.mark.parametrize("shuffle", [True, False])
def test_lanes_meet_from_both_branches(shuffle):
    x, out = np.arange(32, dtype=np.float32), zeros(32, np.float32)
    assert kind(kernels.met_in_branches, x, out, shuffle=shuffle) is None
    want, low = x.copy(), np.arange(32) < 12
    for _ in range(3):
        other = np.roll(want, 16)
        want = np.where(low, want + other, other * 2)
    assert (out == want).all()


def test_a_part_of_a_warp_asks_for_its_ids():
    out = zeros(256)
    assert kind(kernels.ids, out) is None
    warps = np.arange(8)
    assert (out.reshape(8, 32)[:, 5] == warps * 10 + warps // 4).all()


@pytest.mark.parametrize(("differs", "expected"), [(None, None), ("A", "wgmma-operands"), ("B", "wgmma-operands")])
def test_descriptors_are_the_warpgroups(differs, expected):
    a, b = np.ones((128, 64), np.float16), np.ones((128, 64), np.float16)
    assert kind(kernels.product, a, b, np.zeros((64, 64), np.float32), differs=differs) == expected


def test_a_warpgroup_meets_between_its_setmaxnreg():
    assert kind(kernels.register_counts, zeros(256), meet=True) is None
    for wrong in ({"meet": False}, {"meet": True, "same": False}, {"meet": True, "everyone": False}):
        assert kind(kernels.register_counts, zeros(256), **wrong) == "setmaxnreg", wrong


def test_a_wait_for_wgmma_speaks_for_the_wgmmas_of_the_warpgroup_alone():
    a, b = np.ones((64, 192), np.float16), np.ones((192, 64), np.float16)
    d = np.zeros((64, 64), np.float32)
    assert kind(kernels.released_by_a_warpgroup, a, b, d, reads=False) is None
    assert (d == 192).all()
    assert kinds(kernels.released_by_a_warpgroup, a, b, d, reads=True) <= {"war", "warp-sync"}
