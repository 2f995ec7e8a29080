"""The parts of fast GEMMs: right numbers and no alarm under many schedules; without one of their parts, a report."""

import numpy as np
import pytest

from nvdsl import sim
from tests.sim import epilogues
from tests.sim.simulate import run, traced, verdict, verdict_of, zeros

SCHEDULES = [
    sim.Options(),
    sim.Options(delivery="eager"),
    sim.Options(order="reverse"),
    sim.Options(level="nvvm"),
    *(sim.Options.random(seed) for seed in range(4)),
]


def halves(*shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def everywhere(function, arrays, result, expected, **constants):
    """Run a kernel under every schedule, from the same arrays, and compare."""
    starts = [array.copy() for array in arrays]
    program = traced(function, *arrays, **constants)
    for options in SCHEDULES:
        for array, start in zip(arrays, starts, strict=True):
            array[...] = start
        program.run(options)
        np.testing.assert_array_equal(result, expected, err_msg=str(options))


def kinds(function, *arrays, **constants):
    """The kinds of report under all schedules; "" for none."""
    program = traced(function, *arrays, **constants)
    starts = [array.copy() for array in arrays]
    found = set()
    for options in SCHEDULES:
        for array, start in zip(arrays, starts, strict=True):
            array[...] = start
        error = verdict_of(program, options)
        found.add("" if error is None else error.kind)
    return found


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix(count, transpose):
    matrices = np.arange(count * 64, dtype=np.int16).reshape(count, 8, 8)
    held = matrices.transpose(0, 2, 1) if transpose else matrices
    registers = np.ascontiguousarray(held.reshape(count, 32, 2)).view(np.int32)[..., 0]
    out = zeros(count * 64, dtype=np.int16)
    run(epilogues.stored_matrices, np.ascontiguousarray(registers), out, count=count, transpose=transpose)
    np.testing.assert_array_equal(out.reshape(count, 8, 8), matrices)


def test_ping_pong():
    """setmaxnreg, order barriers, persistent loops with a carried slot, stmatrix, staged TMA stores."""
    a, b = halves(128, 192), halves(192, 256, seed=1)
    d = zeros(128, 256, dtype=np.float16)
    everywhere(epilogues.pingpong, [a, b, d], d, product(a, b).astype(np.float16))


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({"fence": False}, {"proxy-fence"}),
        ({"read": False}, {"war-store"}),
        ({"meet": False}, {"raw"}),
        ({"turns": False}, {"early-wait"}),  # a slot's phase before may be under way, and copies end in any order
    ],
)
def test_ping_pong_without(switches, expected):
    found = kinds(epilogues.pingpong, halves(128, 64), halves(64, 256), zeros(128, 256, dtype=np.float16), **switches)
    assert found == expected


@pytest.mark.parametrize("relaxed", [True, False])
def test_multicast_with_remote_arrivals(relaxed):
    a, b, d = halves(128, 320), halves(320, 64, seed=1), zeros(128, 64)
    everywhere(epilogues.shared_b, [a, b, d], d, product(a, b), relaxed=relaxed)


@pytest.mark.parametrize(
    ("switches", "expected"),
    [({"remote": False}, {"waw"}), ({"wide": False}, {"init-sync"})],
)
def test_multicast_without(switches, expected):
    found = kinds(epilogues.shared_b, halves(128, 320), halves(320, 64), zeros(128, 64), **switches)
    assert found == expected


def test_a_relaxed_arrival_orders_wgmmas_but_no_ordinary_loads():
    x = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    assert kinds(epilogues.read_by_all, x, zeros(64, 64), relaxed=False) == {""}
    assert kinds(epilogues.read_by_all, x, zeros(64, 64), relaxed=True) == {"war"}


def test_split_k_by_a_turnstile():
    x, flags, out = np.arange(256, dtype=np.float32).reshape(4, 64), zeros(4, dtype=np.int32), zeros(64)
    everywhere(epilogues.turnstile, [x, flags, out], out, x.sum(0))


@pytest.mark.parametrize("missing", ["acquire", "release", "meet"])
def test_split_k_by_a_turnstile_without(missing):
    x, flags, out = np.arange(256, dtype=np.float32).reshape(4, 64), zeros(4, dtype=np.int32), zeros(64)
    found = kinds(epilogues.turnstile, x, flags, out, **{missing: False})
    assert found <= {"raw", "war", "warp-sync"}  # as the blocks start
    assert found


def test_split_k_by_atomics():
    x, out = np.arange(256, dtype=np.float32).reshape(4, 64), zeros(64)
    everywhere(epilogues.added, [x, out], out, x.sum(0))


def test_split_k_by_the_last_block():
    x, work, out = np.arange(256, dtype=np.float32).reshape(4, 64), zeros(4, 64), zeros(64)
    everywhere(epilogues.last_one, [x, work, zeros(1, dtype=np.int32), out], out, 2 * x.sum(0))
    for missing in ("before", "after"):
        found = kinds(epilogues.last_one, x, work, zeros(1, dtype=np.int32), out, **{missing: False})
        assert found == {"raw"}, missing


def test_split_k_by_reductions():
    a, b, d = halves(64, 256), halves(256, 64, seed=1), zeros(64, 64)
    everywhere(epilogues.reduced, [a, b, d], d, product(a, b))
    assert verdict(epilogues.reduced, a, b, d, fence=False).kind == "proxy-fence"
