"""Layouts, barriers that are used again, what is left behind: the kernels are wrong, and each report names its line."""

import inspect
import re

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.ir.loops import acting
from nvdsl.ir.walk import walk
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import mbarrier
from nvdsl.ops.pointer import address_of
from tests.sim import kernels
from tests.sim.simulate import traced, verdict, verdict_of, zeros


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
def give(out, *, begun=True):
    """Each block writes into the other's memory. ``begun``: and knows that the other one is there."""

    @nv.kernel(grid=2, block=64, cluster=2)
    def kernel():
        given = nv.smem((64,), nv.i32)
        t = nv.thread_id.x
        if begun:
            nv.cluster_arrive(relaxed=True)
            nv.cluster_wait()
        there = nv.mapa(address_of(given, t * 4), nv.cluster_rank() ^ 1)
        llvm.StoreOp(nv.i32(t), there, alignment=4)
        nv.cluster_sync()
        out[nv.block_id.x * 64 + t] = given[t]

    kernel()


def test_a_block_that_may_not_have_begun():
    out = zeros(128, dtype=np.int32)
    assert verdict(give, out) is None and out.tolist() == [*range(64)] * 2
    error = verdict(give, out, begun=False)
    assert error.kind == "unstarted-block" and error.where.line == line(give, "llvm.StoreOp")


@nv.jit
def meet(out, *, waits=(1, 1)):
    """``waits``: how often the warps wait after each of two arrivals at the cluster's barrier."""

    @nv.kernel(grid=2, block=32, cluster=2)
    def kernel():
        nv.cluster_arrive(relaxed=True)
        for _ in range(waits[0]):
            nv.cluster_wait()  # the first
        nv.cluster_arrive(relaxed=False)
        for _ in range(waits[1]):
            nv.cluster_wait()  # the second
        out[nv.block_id.x * 32 + nv.thread_id.x] = 1

    kernel()


@pytest.mark.parametrize(
    ("waits", "message", "at"),
    [((0, 1), "again, without having waited", "relaxed=False"), ((1, 2), "without having arrived", "# the second"),
     ((2, 1), "without having arrived", "# the first")],
)  # fmt: skip
def test_an_arrival_and_a_wait_take_turns_at_the_clusters_barrier(waits, message, at):
    assert verdict(meet, zeros(64, dtype=np.int32)) is None
    assert verdict(meet, zeros(64, dtype=np.int32), waits=(1, 0)) is None  # the kernel's end
    error = verdict(meet, zeros(64, dtype=np.int32), waits=waits)
    assert error.kind == "cluster-barrier" and message in str(error)
    assert error.where.line == line(meet, at)


@nv.jit
def load_two(x, out, *, waits=2):
    x_tma = nv.TMA(x, tile=(8, 64))

    @nv.kernel(grid=1, block=32)
    def kernel():
        tiles = nv.smem((2, 8, 64), x.dtype)
        bars = nv.Mbarriers(2, arrivals=1)
        if nv.thread_id.x == 0:
            for i in range(2):
                bars[i].arrive_expect_tx(tiles[i].bytes)
                x_tma.load(tiles[i], bars[i], (8 * i, 0))
        for i in range(waits):
            bars[i].wait(0)
        out[nv.thread_id.x] = tiles[0][0, nv.thread_id.x]

    kernel()


@pytest.mark.parametrize("delivery", sim.options.DELIVERIES)
def test_a_copy_that_nobody_waited_for_is_found_also_when_it_is_over(delivery):
    arrays = [np.ones((16, 64), np.float32), zeros(32)]
    options = sim.Options(delivery=delivery)
    assert verdict(load_two, *arrays, options=options) is None
    error = verdict(load_two, *arrays, waits=1, options=options)
    assert error.kind == "exit-in-flight" and error.where.line == line(load_two, "x_tma.load")


@nv.jit
def visit(out, *, stay=True, wait=False):
    """Each block arrives at the other's barrier, relaxed."""

    @nv.kernel(grid=2, block=32, cluster=2)
    def kernel():
        bar = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        nv.cluster_sync()
        bar.arrive_cluster(nv.cluster_rank() ^ 1, nv.lane_id() == 0, relaxed=True)
        out[nv.block_id.x * 32 + nv.thread_id.x] = 1
        if wait:
            bar.wait(0)
        if stay:
            nv.cluster_sync()

    kernel()


def test_a_block_that_may_have_returned():
    out = zeros(64, dtype=np.int32)
    assert verdict(visit, out) is None
    assert verdict(visit, out, stay=False, wait=True) is None  # what it waited for has come
    error = verdict(visit, out, stay=False)
    assert error.kind == "exited-block" and error.where.line == line(visit, "bar.arrive_cluster")


def test_a_deadlock_says_who_came_to_its_barriers():
    error = verdict(kernels.tma_load, zeros(16, 64), zeros(16, 64), extra_bytes=16)
    expected = line(kernels.tma_load, "full.arrive_expect_tx")
    text = str(error)
    assert f"full: initialized at {kernels.__file__}:{line(kernels.tma_load, 'full.init')}" in text
    assert f"4112 bytes expected at {kernels.__file__}:{expected}" in text
    assert f"4096 bytes copied at {kernels.__file__}:{line(kernels.tma_load, 'x_tma.load')}" in text


@nv.jit
def nobody_arrives(out):
    @nv.kernel(grid=1, block=1024)
    def kernel():
        bar = nv.Mbarriers(1, arrivals=1)[0]
        bar.wait(0)
        out[0] = 1.0

    kernel()


def test_warps_that_wait_alike_are_one_line():
    error = verdict(nobody_arrives, zeros(1))
    assert error.kind == "deadlock"
    (waiting,) = [detail for detail in error.details if "waits for" in detail or "wait for" in detail]
    assert waiting.startswith("warp 0, warp 1, warp 2, warp 3 ... (32 warps) wait for mbarrier")


@nv.jit
def refilled(x, y):
    x_tma, y_tma = (nv.TMA(one, tile=(32, 64), swizzle=128) for one in (x, y))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile, full = nv.smem((32, 64), x.dtype, swizzle=128), nv.Mbarriers(1, arrivals=1)[0]
        for i in nv.range(2):
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(tile.bytes)
                x_tma.load(tile, full, (i * 32, 0))
            full.wait(i & 1)
            if nv.thread_id.x == 32:  # thread 0 goes on meanwhile, and loads again
                y_tma.store(tile, (i * 32, 0))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

    kernel()


def test_a_reader_that_has_waited_is_told_of_the_next_rounds_copy():
    error = verdict(refilled, np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16))
    assert error is not None and "the next round's copy: a barrier" in error.fix


@nv.jit
def by_table(x, out, *, filled=True):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t, places = nv.thread_id.x, nv.smem(32, nv.i32)
        if filled or t < 16:
            places[t] = 31 - t
        nv.sync_warp()
        out[places[t]] = x[t]

    kernel()


def test_an_index_that_was_read_from_memory_nobody_wrote():
    """It is out of bounds, or the same for several lanes: the report says where it comes from."""
    x = np.arange(32, dtype=np.float32)
    assert verdict(by_table, x, zeros(32)) is None
    error = verdict(by_table, x, zeros(32), filled=False)
    at = line(by_table, "out[places[t]]")
    assert error.kind in ("out-of-bounds", "lanes-store") and error.where.line == at, error
    assert re.search(rf"likely: load by warp 0 at .*:{at} read bytes 64..127 .*nothing had written", str(error)), error


@nv.jit
def collectives(x, out, *, group):
    """The verifier does not know which way a warp goes."""

    @nv.kernel(grid=2, block=64, cluster=2)
    def kernel():
        t, scratch = nv.thread_id.x, nv.smem(8, nv.f32)
        total = nv.f32(0)
        if x[nv.warp_id()] > 0:
            total += group.sum(x[t], scratch=scratch)
        else:
            total += group.max(x[t], scratch=scratch)
        if nv.cluster_rank() == 0:
            out[t] = total

    kernel()


@pytest.mark.parametrize("group", [nv.block, nv.cluster])
@pytest.mark.parametrize("level", ["traced", "nvvm"])
def test_warps_that_meet_in_two_collectives(group, level):
    together, apart = np.ones(64, np.float32), np.arange(64, dtype=np.float32)
    options = sim.Options(level=level)
    assert verdict(collectives, together, zeros(64), options=options, group=group) is None
    error = verdict(collectives, apart, zeros(64), options=options, group=group)
    assert error.kind == "divergent-collective" and "another one" in str(error), error
    assert error.where.line in (line(collectives, "group.sum"), line(collectives, "group.max"))


ENDLESS = {
    "nothing changes": lambda n: nv.max(n, 0),
    "a bound that is never passed": lambda n: nv.min(n + 1, 9),
    "a cycle": lambda n: (n + 1) % 10,
    "one lane": lambda n: nv.select(nv.lane_id() == 3, n, n + 1),
    "all lanes together": lambda n: nv.i32(nv.vote_all(n < 10)),
}


@nv.jit
def counting(out, *, following=lambda n: n + 1):
    @nv.kernel(grid=1, block=64)
    def kernel():
        n, others = nv.i32(0), nv.i32(0)
        while n < 10:
            n, others = following(n), others + 1
        out[nv.thread_id.x] = others

    kernel()


@pytest.mark.parametrize("what", ENDLESS)
def test_a_loop_that_does_not_end(what):
    """It computes all that decides when it ends: what comes back comes back for ever."""
    out = zeros(64, dtype=np.int32)
    assert verdict(counting, out) is None and (out == 10).all()
    error = verdict(counting, out, following=ENDLESS[what])
    assert error.kind == "endless-loop" and error.where.line == line(counting, "while n < 10"), error


@nv.jit
def counting_polls(out, *, bytes):
    @nv.kernel(grid=1, block=64)
    def kernel():
        tile, full = nv.smem((64,), nv.f32), nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(bytes)
            nv.bulk_load(tile, out, 256, full)
        polls = nv.i32(0)
        while not full.test_wait(0):  # POLL
            polls += 1
        out[nv.thread_id.x] = tile[nv.thread_id.x] + nv.select(polls < 0, 1, 0)

    kernel()


def test_what_a_loop_counts_while_it_polls_does_not_keep_it_going():
    out = zeros(64)
    assert verdict(counting_polls, out, bytes=256) is None
    program = traced(counting_polls, out, bytes=272)
    (loop,) = (op for op in walk(program.module.operation) if op.name == "scf.while")
    assert len(loop.operands) == 1 and not acting(loop)
    error = verdict_of(program)
    assert error.kind == "deadlock" and error.where.line == line(counting_polls, "# POLL"), error


def test_a_loop_that_waits_for_a_clock_ends():
    @nv.jit
    def waiting(out):
        @nv.kernel(grid=1, block=32)
        def kernel():
            start = nv.clock()
            while nv.clock() - start < 20:
                pass
            out[nv.thread_id.x] = 1

        kernel()

    assert verdict(waiting, zeros(32, dtype=np.int32)) is None
