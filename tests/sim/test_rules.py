"""Each rule: a kernel that keeps it, the same kernel without what it needs, and the exact verdict."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.errors import SimError
from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from tests.sim import kernels
from tests.sim.simulate import SCHEDULES, traced, verdict, verdict_of, zeros


def line(function, text):
    """The number of the line of a kernel that holds ``text``."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, one in enumerate(lines) if text in one)


def expect(error, kind, function, at):
    assert isinstance(error, SimError), "nothing was reported"
    assert error.kind == kind, str(error)
    assert error.where.line == line(function, at), str(error)
    assert error.where.file == kernels.__file__


def halves(*shape):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float16)


# --- ordinary accesses


@pytest.mark.parametrize(
    ("meet", "meet_again", "kind", "at"),
    [
        (True, True, None, ""),
        (False, True, "raw", "out[t] ="),
        (True, False, "raw", "out[t] ="),
    ],
)
def test_barriers_between_warps(meet, meet_again, kind, at):
    error = verdict(kernels.exchange, zeros(64, dtype=np.int32), meet=meet, meet_again=meet_again)
    if kind is None:
        assert error is None
    else:
        expect(error, kind, kernels.exchange._function, at)


def test_a_race_is_found_in_every_schedule():
    program = traced(kernels.exchange, zeros(64, dtype=np.int32), meet=True, meet_again=False)
    for options in SCHEDULES:
        found = verdict_of(program, options)
        assert found is not None and found.kind in ("war", "raw"), options


def test_a_race_names_both_sides():
    error = verdict(kernels.exchange, zeros(64, dtype=np.int32), meet=False)
    first, second = line(kernels.exchange._function, "s[t] ="), line(kernels.exchange._function, "out[t] =")
    assert re.search(rf"first: +store by warp \d at .*kernels.py:{first}", str(error))
    assert re.search(rf"second: load by warp \d at .*kernels.py:{second}", str(error))


def test_two_warps_store_to_the_same_bytes():
    out = zeros(64, dtype=np.int32)
    assert verdict(kernels.same_place, out, guard=True) is None
    expect(
        verdict(kernels.same_place, out, guard=False), "waw", kernels.same_place._function, "s[t % 32] = t"
    )


def test_two_blocks_store_to_the_same_element():
    out = zeros(32, dtype=np.int32)
    assert verdict(kernels.same_element, out, guard=True) is None
    error = verdict(kernels.same_element, out, guard=False)
    assert error.kind == "waw"
    assert "block 0" in str(error) and "block 1" in str(error)


def test_out_of_bounds():
    x, out = zeros(32), zeros(32)
    assert verdict(kernels.indexed, x, out) is None
    for shift in (1, -1):
        error = verdict(kernels.indexed, x, out, shift=shift)
        assert error.kind == "out-of-bounds"
        assert f"index {32 if shift > 0 else -1} on axis 0" in str(error)


# --- copies into shared memory

LOADS = [
    ({}, None, ""),
    ({"init_sync": False}, "init-sync", "full.wait(parity)"),
    ({"wait": False}, "undelivered", "out[i, t] ="),
    ({"extra_bytes": 16}, "deadlock", "full.wait(parity)"),
    ({"extra_bytes": -16}, "deadlock", "full.wait(parity)"),
    ({"arrivals": 2}, "deadlock", "full.wait(parity)"),
    ({"load": False}, "deadlock", "full.wait(parity)"),
    ({"parity": 1}, "undelivered", "out[i, t] ="),
    ({"twice": True}, "over-arrival", "full.arrive()"),
]


@pytest.mark.parametrize(("switches", "kind", "at"), LOADS)
def test_a_copy_into_shared_memory(switches, kind, at):
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    out = zeros(16, 64)
    error = verdict(kernels.tma_load, x, out, **switches)
    if kind is None:
        assert error is None
        np.testing.assert_array_equal(out, x)
    else:
        expect(error, kind, kernels.tma_load._function, at)


def test_a_deadlock_says_what_each_warp_waits_for():
    error = verdict(kernels.tma_load, zeros(16, 64), zeros(16, 64), extra_bytes=16)
    text = str(error)
    assert "warp 0 and warp 1 wait for mbarrier full, parity 0: phase 0 (parity 0) still needs" in text
    assert "still needs 0 of 1 arrivals and 16 bytes" in text
    assert "16 bytes that full expects are in no copy" in text


def test_a_missing_arrival_is_named():
    text = str(verdict(kernels.tma_load, zeros(16, 64), zeros(16, 64), arrivals=2))
    assert "1 of 2 arrivals came to full" in text


# --- copies out of shared memory

STORES = [
    ({}, None, ""),
    ({"fence": False}, "proxy-fence", "out_tma.store"),
    ({"meet": False}, "raw", "out_tma.store"),
    ({"commit": False}, "uncommitted-store", "out_tma.store"),
    ({"wait": False}, "exit-unread", "out_tma.store"),
    ({"reuse": True}, "war-store", "tile[0, 0] = 7.0"),
]


@pytest.mark.parametrize(("switches", "kind", "at"), STORES)
def test_a_copy_out_of_shared_memory(switches, kind, at):
    out = zeros(16, 64)
    error = verdict(kernels.tma_store, out, **switches)
    if kind is None:
        assert error is None
        np.testing.assert_array_equal(out, np.arange(16 * 64).reshape(16, 64))
    else:
        expect(error, kind, kernels.tma_store._function, at)


# --- wgmma

MMAS = [
    ({}, None, ""),
    ({"wait": False, "release": False}, "accumulator-in-flight", "acc.store"),
    ({"refill": True}, None, ""),
    ({"refill": True, "release": False}, "war-wgmma", "a_tma.load(A, full[1]"),
]


@pytest.mark.parametrize(("switches", "kind", "at"), MMAS)
def test_a_product(switches, kind, at):
    a, b, d = halves(64, 64), halves(64, 64), zeros(64, 64)
    error = verdict(kernels.mma, a, b, d, **switches)
    if kind is None:
        assert error is None
        np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32))
    else:
        expect(error, kind, kernels.mma._function, at)


def test_an_operand_by_ordinary_stores_needs_the_proxy_fence():
    b, d = halves(64, 64), zeros(64, 64)
    assert verdict(kernels.staged_mma, b, d) is None
    a = np.add.outer(np.arange(64), np.arange(64)) % 5
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32))
    error = verdict(kernels.staged_mma, b, d, fence=False)
    expect(error, "proxy-fence", kernels.staged_mma._function, "acc += A @ B")


# --- barriers, registers, ops


def test_a_barrier_that_half_of_a_warp_reaches():
    expect(
        verdict(kernels.divergent, zeros(32, dtype=np.int32)),
        "divergent-barrier",
        kernels.divergent._function,
        "nv.sync",
    )


def test_a_barrier_that_half_of_the_block_reaches():
    error = verdict(kernels.half_of_the_block, zeros(64, dtype=np.int32))
    expect(error, "deadlock", kernels.half_of_the_block._function, "nv.sync")
    assert "arrived 32 of 64 threads" in str(error)


def test_registers_that_nobody_gives():
    """The verifier refuses such a kernel; so the module is edited."""
    program = traced(kernels.registers, zeros(384, dtype=np.int32))
    assert verdict_of(program) is None
    for op in walk(program.module.operation):
        if op.name == "nvvm.setmaxregister" and "decrease" in str(op.attributes["action"]):
            op.attributes["regCount"] = ir.IntegerAttr.get(op.attributes["regCount"].type, 160)
    error = verdict_of(replace(program))  # decoded anew
    expect(error, "deadlock", kernels.registers._function, "setmaxnreg_inc(240)")
    assert "setmaxnreg asks for more registers" in str(error)


def test_an_op_without_semantics_is_named():
    error = verdict(kernels.unknown, zeros(32))
    expect(error, "unknown-op", kernels.unknown._function, "acos")
    assert "`math.acos`" in str(error)


def test_checks_can_be_off():
    error = verdict(
        kernels.exchange, zeros(64, dtype=np.int32), meet_again=False, options=sim.Options(checks=False)
    )
    assert error is None


def test_an_option_that_does_not_exist():
    with pytest.raises(SimError, match="delivery='never'"):
        sim.Options(delivery="never")


def test_who_asks_for_the_simulator():
    assert sim.wanted("sim") and not sim.wanted("gpu")
    with pytest.raises(SimError, match="target='tpu'"):
        sim.wanted("tpu")
