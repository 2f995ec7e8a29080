"""mbarrier.init's count against the arrivals of a phase."""

import pytest

import nvdsl as nv
from nvdsl.ops import tma
from tests.unit.kernels import array
from tests.unit.verify.verdicts import accepted, line, verdict

X = array(nv.f32, 64)


def once(count, arrive, extra=lambda bar: None):
    """One phase of one barrier, in a block of 128 threads."""

    def body(x):
        data = nv.smem((64,), nv.f32)
        bar = nv.Mbarriers(1, arrivals=count)[0]
        other = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            other.arrive_expect_tx(256)
            tma.bulk_load(data, x, 256, other)
        arrive(bar)
        extra(bar)
        bar.wait(0)
        other.wait(0)

    return body


def by_warp(bar):
    bar.arrive(predicate=nv.lane_id() == 0)


def by_thread(bar):
    bar.arrive()


def by_one(bar):
    bar.arrive(predicate=nv.thread_id.x == 96)


def by_warpgroup_but_a_warp(bar):
    if nv.warp_id() != 2:
        bar.arrive()


def by_elected(bar):
    bar.arrive(predicate=nv.elect())


WAYS = {by_warp: 4, by_thread: 128, by_one: 1, by_warpgroup_but_a_warp: 96, by_elected: 4}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_as_many_as_arrive(way):
    accepted(once(WAYS[way], way), X)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_more_than_arrive(way):
    count = WAYS[way]
    body = once(count + 1, way)
    error = verdict(body, "bar = nv.Mbarriers", X)
    assert f"waits for {count + 1} arrivals, and {count} arrive" in error.message
    assert f"the wait at line {line(body, 'bar.wait(0)')} hangs" in error.message
    assert f"initialize with {count}" in error.fix


@pytest.mark.parametrize("way", [by_warp, by_thread, by_elected], ids=lambda way: way.__name__)
def test_fewer_than_arrive_at_once(way):
    count = WAYS[way]
    body = once(count - 1, way)
    error = verdict(body, "bar.arrive(", X, source=way)
    assert f"{count} threads arrive at an mbarrier of {count - 1} arrivals" in error.message
    assert f"initialize with {count}" in error.fix


def test_nothing_arrives():
    error = verdict(once(1, lambda bar: None), "bar = nv.Mbarriers", X)
    assert "waits for 1 arrival, and nothing arrives at it" in error.message


def expect_only(bar):
    if nv.thread_id.x == 0:
        bar.expect_tx(16)


def test_expect_tx_is_no_arrival():
    def body(x):
        data = nv.smem((64,), nv.f32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.expect_tx(256)
            tma.bulk_load(data, x, 256, full)
        full.wait(0)

    error = verdict(body, "nv.Mbarriers", X)
    assert "nothing arrives" in error.message and "expect_tx alone is no arrival" in error.rule


def test_arrivals_add_up_over_places():
    accepted(once(5, by_warp, by_one), X)
    verdict(once(6, by_warp, by_one), "bar = nv.Mbarriers", X)


def test_arrivals_under_conditions_of_run_time_may_come():
    def body(n):
        bar = nv.Mbarriers(1, arrivals=2)[0]
        if nv.thread_id.x == 0:
            bar.arrive()
            if n > 0:
                bar.arrive()
        bar.wait(0)

    accepted(body, 1)


def test_threads_that_only_the_device_knows_are_not_counted():
    def body(n):
        bar = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == n:
            bar.arrive()
        bar.wait(0)

    accepted(body, 1)


def test_each_thread_may_have_its_own_barrier():
    def body(count):
        def threads():
            bars = nv.Mbarriers(2, arrivals=count)
            bars[nv.warpgroup_id()].arrive()
            bars[nv.warpgroup_id()].wait(0)

        return threads

    accepted(body(128), block=256)
    error = verdict(body(64), ".arrive()", source=body, block=256)
    assert "128 threads arrive at an mbarrier of 64 arrivals" in error.message


def test_a_barrier_that_collects_the_rounds_of_a_loop():
    def body():
        bar = nv.Mbarriers(1, arrivals=8)[0]
        for _ in nv.range(8):
            if nv.thread_id.x == 0:
                bar.arrive()
        bar.wait(0)

    accepted(body)


def ring(consumers, release, rounds=8, stages=2):
    """A warp-specialized ring; ``rounds``: an int, or None for an argument."""

    def body(x, n):
        data = nv.smem((stages, 8, 64), nv.f32)
        slots = nv.Ring(stages, bytes=256, consumers=consumers)
        if nv.warpgroup_id() == 0:
            if nv.thread_id.x == 0:
                state = slots.producer_state()
                for _ in nv.range(n if rounds is None else rounds):
                    full = slots.acquire(state)
                    tma.bulk_load(data[state.stage].panel(0, (64,)), x, 256, full)
                    state = state.next()
        else:
            state = slots.consumer_state()
            for _ in nv.range(n if rounds is None else rounds):
                slots.wait(state)
                release(slots, state)
                state = state.next()

    return body


def each_warp(slots, state):
    slots.release(state, nv.lane_id() == 0)


def never(slots, state):
    pass


@pytest.mark.parametrize("rounds", [8, None])
def test_the_roles_of_a_ring_meet_round_by_round(rounds):
    accepted(ring(4, each_warp, rounds), X, 3, block=256)
    body = ring(5, each_warp, rounds)
    error = verdict(body, "nv.Ring", X, 3, block=256)
    assert "waits for 5 arrivals, and 4 arrive" in error.message and "in a round" in error.message
    assert "nothing arrives" in verdict(ring(4, never, rounds), "nv.Ring", X, 3, block=256).message


def test_slots_that_are_used_once_need_no_release():
    accepted(ring(4, never, rounds=2), X, 3, block=256)
    accepted(ring(5, each_warp, rounds=2), X, 3, block=256)
    verdict(ring(5, each_warp, rounds=3), "nv.Ring", X, 3, block=256)


def test_arrivals_at_another_block_of_the_cluster():
    def body(count):
        def blocks():
            bar = nv.Mbarriers(1, arrivals=count, sync=False)[0]
            nv.cluster_sync()
            bar.arrive_cluster(0, nv.thread_id.x == 0)
            if nv.cluster_rank() == 0:
                bar.wait(0)
            nv.cluster_sync()

        return blocks

    accepted(body(2), grid=2, cluster=2)
    error = verdict(body(3), "bar = nv.Mbarriers", source=body, grid=2, cluster=2)
    assert "waits for 3 arrivals, and 2 arrive" in error.message
    error = verdict(body(1), "arrive_cluster", source=body, grid=2, cluster=2)
    assert "2 threads arrive at an mbarrier of 1 arrival" in error.message


def turns(apart):
    """Two warpgroups use one slot, one after the other where ``apart``: each waits for a phase of its own."""

    def body(x):
        data = nv.smem((64,), nv.f32)
        full, empty = nv.Mbarriers(1, arrivals=1)[0], nv.Mbarriers(1, arrivals=4)[0]
        if nv.warpgroup_id() == 2:
            if nv.warpgroup_thread() == 0:
                for k in nv.range(2):
                    empty.wait(1 - k % 2)
                    full.arrive_expect_tx(256)
                    tma.bulk_load(data, x, 256, full)
        else:
            full.wait(nv.warpgroup_id() if apart else 0)
            nv.sync_warp()
            empty.arrive(predicate=nv.lane_id() == 0)

    return body


def test_warpgroups_that_take_turns_arrive_in_phases_of_their_own():
    accepted(turns(apart=True), X, block=384)
    error = verdict(turns(apart=False), "empty.arrive", X, block=384)
    assert "8 threads arrive at an mbarrier of 4 arrivals" in error.message
