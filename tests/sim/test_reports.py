"""Layouts, barriers that are used again, what is left behind: the kernels are wrong, and each report names its line."""

import inspect
import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.ops import mbarrier
from tests.sim import kernels
from tests.sim.simulate import verdict, zeros


def line(function, text):
    lines, first = inspect.getsourcelines(function._function)
    return first + next(i for i, one in enumerate(lines) if text in one)


@nv.jit
def product(a, b, d, *, written=128, read=128):
    """``written``: the swizzle of A's tensor map; ``read``: that of the tile."""
    a_tma = nv.TMA(a, tile=(64, 64), swizzle=written)
    b_tma = nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((64, 64), a.dtype, swizzle=written)
        B = nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        seen = nv.Tile(nv.layout.TileLayout.of(64, 64, 2, read), a.dtype, A.offset)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += seen @ B
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


@pytest.mark.parametrize(("written", "read"), [(64, 128), (128, 64), (32, 64), (128, 16)])
def test_a_tile_read_with_another_swizzle_than_it_was_written_with(written, read):
    a, b, d = (np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), zeros(64, 64))
    assert verdict(product, a, b, d, written=read, read=read) is None
    error = verdict(product, a, b, d, written=written, read=read)
    assert error is not None and error.kind == "layout", str(error)
    assert error.where.line == line(product, "acc += seen @ B")
    assert f"TMA load by warp 0 at {__file__}:{line(product, 'a_tma.load')}" in error.details[0]


@nv.jit
def meetings(out, *, number=2, threads=64):
    """Two pairs of warps, each with a barrier of its own."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        t = nv.thread_id.x
        if t < 64:
            nv.named_barrier_sync(1, threads)
        else:
            nv.named_barrier_sync(number, 64)
        out[t] = t

    kernel()


def test_a_barrier_that_others_may_still_use():
    out = zeros(128, dtype=np.int32)
    assert verdict(meetings, out) is None
    error = verdict(meetings, out, number=1)
    assert error.kind == "barrier-reuse" and error.where.line == line(meetings, "sync(number")
    assert "warp 2 arrives at named barrier 1" in str(error)


def test_a_barrier_that_counts_too_few():
    error = verdict(meetings, zeros(128, dtype=np.int32), threads=32)
    assert error.kind == "barrier-reuse" and error.where.line == line(meetings, "sync(1, threads)")


@nv.jit
def arrivals(out, *, count=4):
    @nv.kernel(grid=1, block=128)
    def kernel():
        done = nv.Mbarriers(1, arrivals=count)[0]
        done.arrive(predicate=nv.lane_id() == 0)
        out[nv.thread_id.x] = 1

    kernel()


def test_a_phase_that_is_left_half_complete():
    out = zeros(128, dtype=np.int32)
    assert verdict(arrivals, out) is None
    error = verdict(arrivals, out, count=3)
    assert error.kind == "residue" and error.where.line == line(arrivals, "nv.Mbarriers")
    assert re.search(rf"4 arrivals at .*:{line(arrivals, 'done.arrive')}", str(error))


@nv.jit
def chosen(out, *, shift=0):
    @nv.kernel(grid=1, block=32)
    def kernel():
        bars = nv.Mbarriers(2, arrivals=1)
        for i in nv.range(2):
            mbarrier.Mbarrier(bars, i + shift).arrive(predicate=nv.lane_id() == 0)
        out[nv.thread_id.x] = 1

    kernel()


@pytest.mark.parametrize("shift", [1, -1])
def test_a_barrier_outside_of_its_group(shift):
    out = zeros(32, dtype=np.int32)
    assert verdict(chosen, out) is None
    error = verdict(chosen, out, shift=shift)
    assert error.kind == "out-of-bounds" and error.where.line == line(chosen, "arrive(")
    assert f"mbarrier {2 if shift > 0 else -1} of a group of 2" in str(error)


@nv.jit
def visit(out, *, stay=True):
    """Each block arrives at the other's barrier."""

    @nv.kernel(grid=2, block=32, cluster=2)
    def kernel():
        bar = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        nv.cluster_sync()
        bar.arrive_cluster(nv.cluster_rank() ^ 1, nv.lane_id() == 0)
        out[nv.block_id.x * 32 + nv.thread_id.x] = 1
        if stay:
            nv.cluster_sync()

    kernel()


def test_a_block_that_may_have_returned():
    out = zeros(64, dtype=np.int32)
    assert verdict(visit, out) is None
    error = verdict(visit, out, stay=False)
    assert error.kind == "exited-block" and error.where.line == line(visit, "bar.arrive_cluster")


def test_a_deadlock_says_who_came_to_its_barriers():
    error = verdict(kernels.tma_load, zeros(16, 64), zeros(16, 64), extra_bytes=16)
    expected = line(kernels.tma_load, "full.arrive_expect_tx")
    text = str(error)
    assert f"full: initialized at {kernels.__file__}:{line(kernels.tma_load, 'full.init')}" in text
    assert f"4112 bytes expected at {kernels.__file__}:{expected}" in text
    assert f"4096 bytes copied at {kernels.__file__}:{line(kernels.tma_load, 'x_tma.load')}" in text
