"""The life of an mbarrier: its bytes, its init and end, and who keeps step with its phases."""

import inspect

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import SHARED, address_of, byte_offset
from tests.sim.simulate import SCHEDULES, run, traced, verdict, verdict_of, zeros


def _at(kernel, mark):
    lines, first = inspect.getsourcelines(kernel._function)
    return first + next(i for i, line in enumerate(lines) if mark in line)


def _reported(kernel, mark, kinds, *arrays, **switches):
    error = verdict(kernel, *arrays, **switches)
    assert error is not None, "nothing was reported"
    assert error.kind in kinds, error
    assert error.where.line == _at(kernel, mark), error


# --- its bytes


@nv.jit
def stored_over(out, *, offset, load):
    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((64,), nv.i32)
        bar = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        tile[t] = t
        end = byte_offset(address_of(tile, space=SHARED), nv.index(offset))
        bar.arrive()
        bar.wait(0)
        if t == 0:
            if load:
                out[0] = nv.i32(llvm.load(nv.i32.ir, end, alignment=4))  # LOAD
            else:
                llvm.store(nv.i32(7), end, alignment=4)  # STORE
        nv.sync_threads()
        out[t] = tile[63 - t]

    body()


@pytest.mark.parametrize(("load", "mark"), [(False, "# STORE"), (True, "# LOAD")])
def test_its_bytes_are_nobodys(load, mark):
    out = zeros(64, dtype=np.int32)
    assert verdict(stored_over, out, offset=0, load=load) is None
    for offset in (256, 260):
        _reported(stored_over, mark, ["mbarrier-bytes"], out, offset=offset, load=load)


@nv.jit
def copied_over(x, n, out):
    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((64,), nv.f32)
        bars = nv.Mbarriers(2, arrivals=1)
        t = nv.thread_id.x
        if t == 0:
            bars[0].arrive_expect_tx(n[0])
            nv.bulk_load(tile, x, n[0], bars[0])  # COPY
        bars[0].wait(0)
        out[t] = tile[t]

    body()


def test_a_copy_over_it():
    x, out = np.ones(128, np.float32), zeros(64)
    assert verdict(copied_over, x, np.array([256], np.int32), out) is None
    _reported(copied_over, "# COPY", ["mbarrier-bytes"], x, np.array([272], np.int32), out)


# --- init and inval


@nv.jit
def initialized(out, *, lanes):
    @nv.kernel(grid=1, block=32)
    def body():
        bar = nv.Mbarriers(1)[0]
        t = nv.thread_id.x
        if t < lanes:
            bar.init(32)  # INIT
        nv.fence_mbarrier_init()
        nv.sync_threads()
        bar.arrive()
        bar.wait(0)
        out[t] = t

    body()


def test_one_lane_initializes_it():
    assert verdict(initialized, zeros(32, dtype=np.int32), lanes=1) is None
    _reported(initialized, "# INIT", ["init-sync"], zeros(32, dtype=np.int32), lanes=2)


@nv.jit
def again(out, *, inval, sync):
    @nv.kernel(grid=1, block=64)
    def body():
        bar = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        bar.arrive()
        bar.wait(0)
        if sync:
            nv.sync_threads()
        if t == 0:
            if inval:
                bar.invalidate()  # INVAL
            bar.init(2)  # INIT
            nv.fence_mbarrier_init()
        nv.sync_threads()
        bar.arrive(predicate=t % 32 == 0)
        bar.wait(0)
        out[t] = t

    body()


def test_it_is_initialized_again():
    out = zeros(64, dtype=np.int32)
    assert verdict(again, out, inval=True, sync=True) is None
    _reported(again, "# INIT", ["mbarrier-live"], out, inval=False, sync=True)


def test_it_ends_while_another_warp_uses_it():
    program = traced(again, zeros(64, dtype=np.int32), inval=True, sync=False)
    for options in SCHEDULES[:8]:
        error = verdict_of(program, options)
        assert error is not None and error.kind in ("mbarrier-in-use", "init-sync", "deadlock"), error
    _reported(again, "# INVAL", ["mbarrier-in-use"], zeros(64, dtype=np.int32), inval=True, sync=False)


@nv.jit
def reused(out, *, inval):
    """The bytes of an mbarrier that is done become data."""

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((64,), nv.i32)
        bar = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        tile[t] = t
        bar.arrive()
        bar.wait(0)
        nv.sync_threads()
        if t == 0:
            if inval:
                bar.invalidate()
            llvm.store(nv.i32(7), byte_offset(address_of(tile, space=SHARED), nv.index(256)), alignment=4)  # STORE
        nv.sync_threads()
        out[t] = tile[t]

    body()


def test_its_bytes_are_free_after_its_end():
    out = zeros(64, dtype=np.int32)
    assert verdict(reused, out, inval=True) is None
    _reported(reused, "# STORE", ["mbarrier-bytes"], out, inval=False)


# --- phases


@nv.jit
def followed(out, *, counted, rounds=6):
    """A warp that hands over to a second; a third one only watches."""

    @nv.kernel(grid=1, block=96)
    def body():
        full, empty = nv.Mbarriers(1, arrivals=32)[0], nv.Mbarriers(1, arrivals=64 if counted else 32)[0]
        t, warp = nv.thread_id.x, nv.warp_id()
        if warp == 0:
            for k in nv.range(rounds):
                empty.wait(1 - k % 2)
                full.arrive()
        elif warp == 1:
            for k in nv.range(rounds):
                full.wait(k % 2)
                empty.arrive()
        else:
            for k in nv.range(rounds):
                full.wait(k % 2)  # WATCH
                if counted:
                    empty.arrive()
        out[t] = t

    body()


def test_a_waiter_that_nobody_waits_for():
    out = zeros(96, dtype=np.int32)
    assert verdict(followed, out, counted=True) is None
    _reported(followed, "# WATCH", ["lapped-wait"], out, counted=False)
    for options in SCHEDULES[:8]:
        assert verdict_of(traced(followed, out, counted=True), options) is None


@nv.jit
def gathered(out, *, wait, rounds=6):
    """Two warps arrive once a round, a third one takes what they bring."""

    @nv.kernel(grid=1, block=96)
    def body():
        full, empty = nv.Mbarriers(1, arrivals=64)[0], nv.Mbarriers(1, arrivals=32)[0]
        t, warp = nv.thread_id.x, nv.warp_id()
        if warp < 2:
            for k in nv.range(rounds):
                if wait:
                    empty.wait(1 - k % 2)
                full.arrive()  # ARRIVE
        else:
            for k in nv.range(rounds):
                full.wait(k % 2)
                empty.arrive()
        out[t] = t

    body()


def test_arrivals_of_two_rounds():
    out = zeros(96, dtype=np.int32)
    program = traced(gathered, out, wait=True)
    for options in SCHEDULES[:10]:
        assert verdict_of(program, options) is None
    error = verdict(gathered, out, wait=False)
    assert error.kind in ("mixed-rounds", "over-arrival"), error
    assert error.where.line == _at(gathered, "# ARRIVE")


@nv.jit
def followed_in_a_cluster(out, *, counted, rounds=6):
    """A warp hands over to both blocks by relaxed arrivals; the second warp of each only watches."""

    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        full = nv.Mbarriers(1, arrivals=32, sync=False)[0]
        empty = nv.Mbarriers(1, arrivals=128 if counted else 64, sync=False)[0]
        nv.cluster_sync()
        t, warp, rank = nv.thread_id.x, nv.warp_id(), nv.cluster_rank()
        if warp == 0:
            for k in nv.range(rounds):
                if rank == 0:
                    empty.wait(1 - k % 2, scope="cluster")
                    full.arrive_cluster(0, relaxed=True)
                    full.arrive_cluster(1, relaxed=True)
                full.wait(k % 2, scope="cluster")
                empty.arrive_cluster(0, relaxed=True)
        else:
            for k in nv.range(rounds):
                full.wait(k % 2, scope="cluster")  # WATCH
                if counted:
                    empty.arrive_cluster(0, relaxed=True)
        nv.cluster_sync()
        out[rank, t] = t

    body()


def test_a_waiter_that_nobody_waits_for_beside_relaxed_arrivals():
    out = zeros(2, 64, dtype=np.int32)
    program = traced(followed_in_a_cluster, out, counted=True)
    for options in SCHEDULES[:10]:
        assert verdict_of(program, options) is None
    _reported(followed_in_a_cluster, "# WATCH", ["lapped-wait"], out, counted=False)


@nv.jit
def gathered_in_a_cluster(out, *, wait, rounds=6, relaxed=False):
    """The warps of two blocks arrive once a round at the first one's barrier; a warp there takes what they bring."""

    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        full = nv.Mbarriers(1, arrivals=64, sync=False)[0]
        empty = nv.Mbarriers(1, arrivals=32, sync=False)[0]
        nv.cluster_sync()
        t, warp, rank = nv.thread_id.x, nv.warp_id(), nv.cluster_rank()
        if warp == 0:
            for k in nv.range(rounds):
                if wait:
                    empty.wait(1 - k % 2, scope="cluster")
                full.arrive_cluster(0, relaxed=relaxed)  # ARRIVE
        elif rank == 0:
            for k in nv.range(rounds):
                full.wait(k % 2, scope="cluster")
                empty.arrive_cluster(0, relaxed=relaxed)
                empty.arrive_cluster(1, relaxed=relaxed)
        nv.cluster_sync()
        out[rank, t] = t

    body()


@pytest.mark.parametrize("relaxed", [False, True])
def test_arrivals_of_two_rounds_from_another_block(relaxed):
    out = zeros(2, 64, dtype=np.int32)
    program = traced(gathered_in_a_cluster, out, wait=True, relaxed=relaxed)
    for options in SCHEDULES[:10]:
        assert verdict_of(program, options) is None
    error = verdict(gathered_in_a_cluster, out, wait=False, relaxed=relaxed)
    assert error.kind in ("mixed-rounds", "over-arrival"), error
    assert error.where.line == _at(gathered_in_a_cluster, "# ARRIVE")


@nv.jit
def shared_copies(x, out, *, wait, rounds=6):
    """Block 0's copies go to both blocks; their readers arrive at its barrier, and nowhere else."""
    x_tma = nv.TMA(x, tile=(8, 32))

    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        slot = nv.smem((8, 32), x.dtype)
        full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        empty = nv.Mbarriers(1, arrivals=64, sync=False)[0]
        nv.cluster_sync()
        t, warp, rank = nv.thread_id.x, nv.warp_id(), nv.cluster_rank()
        total = nv.f32(0.0)
        if warp == 0:
            if t == 0:
                for k in nv.range(rounds):
                    if wait and k > 0:
                        full.wait(1 - k % 2)
                    full.arrive_expect_tx(slot.bytes)  # EXPECT
                    if rank == 0:
                        empty.wait(1 - k % 2, scope="cluster")
                        x_tma.load(slot, full, (8 * k, 0), multicast_mask=3)
        else:
            for k in nv.range(rounds):
                full.wait(k % 2)
                total = total + slot[0, t - 32]
                empty.arrive_cluster(0)
        nv.cluster_sync()
        if warp == 1:
            out[rank, t - 32] = total

    body()


def test_bytes_from_another_block_tell_what_its_issuer_waited_for():
    x, out = np.ones((48, 32), np.float32), zeros(2, 32)
    program = traced(shared_copies, x, out, wait=True)
    for options in SCHEDULES[:10]:
        assert verdict_of(program, options) is None
    assert (out == 6).all()
    _reported(shared_copies, "# EXPECT", ["mixed-rounds", "over-arrival"], x, out, wait=False)


@nv.jit
def alone(out, *, rounds=5):
    """The only one who arrives knows that its last phase is over."""

    @nv.kernel(grid=1, block=32)
    def body():
        bar = nv.Mbarriers(1, arrivals=32)[0]
        for _ in nv.range(rounds):
            bar.arrive()
        bar.wait((rounds - 1) % 2)
        out[nv.thread_id.x] = 1

    body()


def test_one_who_arrives_alone_need_not_wait():
    assert verdict(alone, zeros(32, dtype=np.int32)) is None


@nv.jit
def followed_by_a_warpgroup(out, *, work, stages=1, rounds=6):
    """One thread of a warpgroup releases each slot; all four warps wait for it."""

    @nv.kernel(grid=1, block=160)
    def body():
        full, empty = nv.Mbarriers(stages, arrivals=1), nv.Mbarriers(stages, arrivals=1)
        t, warp = nv.thread_id.x, nv.warp_id()
        if warp == 4:
            for k in nv.range(rounds):
                empty[k % stages].wait(1 - k // stages % 2)
                full[k % stages].arrive(predicate=nv.lane_id() == 0)
        else:
            for k in nv.range(rounds):
                full[k % stages].wait(k // stages % 2)  # WATCH
                if work:
                    out[k, t] = k
                if work == "together":
                    nv.named_barrier_sync(1, 128)
                if t == 0:
                    empty[k % stages].arrive()

    body()


def test_a_warp_that_works_between_waits_may_be_lapped_by_one_of_its_warpgroup():
    out = zeros(6, 128)
    for stages, work in ((1, None), (1, "alone"), (2, "alone")):
        program = traced(followed_by_a_warpgroup, out, work=work, stages=stages)
        for options in SCHEDULES[:6]:
            error = verdict_of(program, options)
            assert error is not None and error.kind == "lapped-wait", error
    _reported(followed_by_a_warpgroup, "# WATCH", ["lapped-wait"], out, work="alone", stages=2)
    for stages, work in ((1, "together"), (2, "together"), (2, None)):
        assert verdict(followed_by_a_warpgroup, out, work=work, stages=stages) is None


# --- scope


@nv.jit
def handed_to_the_next_block(x, out, *, scope):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        s = nv.smem((1, 32), nv.f32)
        full = nv.Mbarriers(1, arrivals=32, sync=False)[0]
        nv.cluster_sync()
        t, rank = nv.thread_id.x, nv.cluster_rank()
        llvm.store(x[rank, t], byte_offset(nv.mapa(s.pointer(), 1 - rank), t * 4), alignment=4)
        full.arrive_cluster(1 - rank)
        full.wait(0, scope=scope)
        out[rank, t] = s[0, t]
        nv.cluster_sync()

    body()


@pytest.mark.parametrize("scope", ["cta", "cluster"])
def test_a_wait_of_either_scope_hands_over(scope):
    x, out = np.arange(64, dtype=np.float32).reshape(2, 32), zeros(2, 32)
    program = traced(handed_to_the_next_block, x, out, scope=scope)
    for options in SCHEDULES:
        assert verdict_of(program, options) is None
    assert (out == x[::-1]).all()


@pytest.mark.parametrize("debug", [False, True])
def test_the_scope_is_in_the_ptx(debug):
    arrays = nv.ShapeDtype((2, 32), nv.f32), nv.ShapeDtype((2, 32), nv.f32)
    for scope in ("cta", "cluster"):
        ptx = handed_to_the_next_block.compile(*arrays, scope=scope, debug=debug).ptx
        assert (".acquire.cluster" in ptx) == (scope == "cluster")


# --- several arrivals at once


@nv.jit
def left_to_one(x, out, *, count, known=True):
    """Two warps read every slot but the last, which warp 1 reads and releases for both. Before warp 2 waits for this
    slot's next phase, it has to know that this one is over: rows may arrive in another order."""
    tma = nv.TMA(x, tile=(1, 32))

    @nv.kernel(grid=1, block=96)
    def body():
        rows = nv.smem((2, 1, 32), nv.f32)
        ring = nv.Ring(2, bytes=128, consumers=(1, 1))
        lane, warp, last = nv.lane_id(), nv.warp_id(), x.shape[0] - 1
        if warp == 0:
            if lane == 0:
                state = ring.producer_state()
                for i in nv.range(2 * (last + 1)):
                    tma.load(rows[state.stage], ring.acquire(state), (i % (last + 1), 0))
                    state = state.next()
        else:
            state = ring.consumer_state()
            for round in range(2):
                for i in nv.range(last):
                    ring.wait(state)
                    out[round, warp - 1, i, lane] = rows[state.stage][0, lane]
                    nv.sync_warp()
                    ring.release(state, lane == 0)
                    state = state.next()
                if known:
                    ring.wait(state)
                    nv.named_barrier_sync(1, 64)  # warp 2 has seen it before the slot is released for both
                if warp == 1:
                    if not known:
                        ring.wait(state)
                    out[round, 0, last, lane] = rows[state.stage][0, lane]
                    nv.sync_warp()
                    ring.release(state, lane == 0, count=count)
                state = state.next()

    body()


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_one_arrives_for_two(level):
    x, out = np.arange(96, dtype=np.float32).reshape(3, 32), zeros(2, 2, 3, 32)
    for order in sim.options.ORDERS:
        out.fill(0)
        run(left_to_one, x, out, count=2, options=sim.Options(order=order, level=level))
        assert (out[:, 0] == x).all() and (out[:, 1, :2] == x[:2]).all()


def test_who_leaves_a_phase_out_may_wait_for_the_one_before():
    x, out = np.arange(96, dtype=np.float32).reshape(3, 32), zeros(2, 2, 3, 32)
    program = traced(left_to_one, x, out, count=2, known=False)
    for options in SCHEDULES[:10]:
        error = verdict_of(program, options)
        assert error is not None and error.kind in ("early-wait", "undelivered", "over-arrival"), f"{options}: {error}"
    error = verdict(left_to_one, x, out, count=2, known=False)
    assert error.kind == "early-wait" and error.where.line == _at(left_to_one, "ring.wait(state)"), error


def test_one_arrives_for_itself_alone():
    x, out = np.arange(96, dtype=np.float32).reshape(3, 32), zeros(2, 2, 3, 32)
    found = verdict(left_to_one, x, out, count=1)
    assert found is not None and found.kind == "deadlock"
