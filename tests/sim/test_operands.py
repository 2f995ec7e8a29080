"""Operands that only the run knows: each kernel takes one from an array, a value that suits and one that not."""

import inspect

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.mlir.dialects import arith
from tests.sim.simulate import verdict, zeros


def _of_32(make):
    """A kernel of one warp around ``make(n, out, t)``."""

    @nv.jit
    def kernel(n, out):
        @nv.kernel(grid=1, block=32)
        def body():
            make(n[nv.thread_id.x], out, nv.thread_id.x)

        body()

    return kernel


def quotient(n, out, t):
    out[t] = 100 // n  # HERE


def remainder(n, out, t):
    out[t] = nv.i32(100) % n  # HERE


def quotient_by_one_number(n, out, t):
    out[t] = t // nv.warp.sum(n)  # HERE


def overflow(n, out, t):
    out[t] = arith.divsi(nv.i32(-(2**31)), n)  # HERE


def shift_left(n, out, t):
    out[t] = nv.i32(1) << n  # HERE


def shift_right(n, out, t):
    out[t] = nv.u32(1) >> nv.u32(n)  # HERE


def step(n, out, t):
    for i in nv.range(0, 4, n):  # HERE
        out[i] = i


def sleep(n, out, t):
    nv.nanosleep(n)  # HERE
    out[t] = 1


def init(n, out, t):
    bar = nv.Mbarriers(1)[0]
    if t == 0:
        bar.init(n)  # HERE
    out[t] = 1


def barrier_number(n, out, t):
    nv.named_barrier_sync(nv.shuffle(n, 0), 32)  # HERE
    out[t] = 1




def barrier_threads(n, out, t):
    nv.named_barrier_sync(1, nv.shuffle(n, 0))  # HERE
    out[t] = 1


VALUES = [
    (quotient, 7, 0, "division"),
    (remainder, -7, 0, "division"),
    (quotient_by_one_number, 2, 0, "division"),
    (overflow, 1, -1, "division"),
    (shift_left, 31, 32, "shift"),
    (shift_left, 0, -1, "shift"),
    (shift_right, 31, 33, "shift"),
    (step, 1, 0, "loop-step"),
    (step, 2, -1, "loop-step"),
    (sleep, 1_000_000, 1_000_001, "nanosleep"),
    (init, 1, 0, "mbarrier-count"),
    (init, 2**20 - 1, 2**20, "mbarrier-count"),
    (barrier_number, 15, 16, "barrier-number"),
    (barrier_number, 1, -1, "barrier-number"),
    (barrier_threads, 32, 33, "barrier-count"),
    (barrier_threads, 32, 64, "barrier-count"),
]


def _line(function):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if "# HERE" in line)


@pytest.mark.parametrize(("make", "right", "wrong", "kind"), VALUES)
def test_an_operand(make, right, wrong, kind):
    n = np.full(32, right, np.int32)
    assert verdict(_of_32(make), n, zeros(32, dtype=np.int32)) is None
    n[...] = wrong
    error = verdict(_of_32(make), n, zeros(32, dtype=np.int32))
    assert error.kind == kind, error
    assert error.where.line == _line(make)
    assert str(wrong) in error.message.replace(",", "") or kind == "division"


@pytest.mark.parametrize(("size", "found"), [((1 << 20) - 1, False), (1 << 20, True)])
def test_bytes_that_a_phase_cannot_count(size, found):
    def expected(n, out, t):
        full = nv.Mbarriers(1, arrivals=1)[0]
        if t == 0:
            full.arrive_expect_tx(n)  # HERE
        out[t] = 1

    error = verdict(_of_32(expected), np.full(32, size, np.int32), zeros(32, dtype=np.int32))
    assert (error is not None and error.kind == "tx-count") == found, error
    assert not found or error.where.line == _line(expected)


def test_only_active_lanes_count():
    def guarded(n, out, t):
        if n > 0:
            out[t] = 100 // n

    n = np.arange(32, dtype=np.int32)
    out = zeros(32, dtype=np.int32)
    assert verdict(_of_32(guarded), n, out) is None
    assert out[5] == 20


def test_one_lane_is_named():
    n = np.arange(1, 33, dtype=np.int32)
    n[9] = 0
    assert "lane 9 divides 100 by 0" in verdict(_of_32(quotient), n, zeros(32, dtype=np.int32)).message


def test_a_shift_that_is_not_selected():
    def rotated(n, out, t):
        out[t] = nv.select(n > 0, nv.i32(-1) << (32 - n), 0)

    assert verdict(_of_32(rotated), np.zeros(32, np.int32), zeros(32, dtype=np.int32)) is None


@nv.jit
def ranks(n, out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        bar = nv.Mbarriers(1, arrivals=64)[0]
        nv.cluster_sync()
        bar.arrive_cluster(n[0])  # RANK
        if nv.block_id.x == 1:
            bar.wait(0)
        nv.cluster_sync()
        out[nv.block_id.x * 32 + nv.thread_id.x] = 1

    body()


@nv.jit
def copied(x, n, out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        tile = nv.smem((64,), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(256)
        nv.cluster_sync()
        if nv.block_id.x == 0:
            if t == 0:
                nv.bulk_load(tile, x, n[0], full, multicast_mask=n[1])  # COPY
        full.wait(0)
        out[nv.block_id.x * 32 + t] = tile[t]
        nv.cluster_sync()

    body()


def _at(kernel, mark):
    lines, first = inspect.getsourcelines(kernel._function)
    return first + next(i for i, line in enumerate(lines) if mark in line)


@pytest.mark.parametrize("rank", [2, -1])
def test_a_rank_beyond_the_cluster(rank):
    out = zeros(64, dtype=np.int32)
    assert verdict(ranks, np.array([1], np.int32), out) is None
    error = verdict(ranks, np.array([rank], np.int32), out)
    assert error.kind == "cluster-rank"
    assert error.where.line == _at(ranks, "# RANK")


@pytest.mark.parametrize(
    ("size", "mask", "kind"),
    [(-16, 3, "out-of-bounds"), (24, 3, "misaligned"), (256, 7, "multicast-mask"), (256, 4, "multicast-mask"),
     (256, 0, "multicast-mask"), (1 << 20, 3, "out-of-bounds")],
)  # fmt: skip
def test_a_bulk_copy(size, mask, kind):
    x, out = np.arange(64, dtype=np.float32), zeros(64)
    assert verdict(copied, x, np.array([256, 3], np.int32), out) is None
    error = verdict(copied, x, np.array([size, mask], np.int32), out)
    assert error.kind == kind, error
    assert error.where.line == _at(copied, "# COPY")
