"""Barriers and collective instructions that a part of their threads never reaches."""

import pytest

import nvdsl as nv
from nvdsl.ops import wgmma
from tests.unit.verify.verdicts import accepted, line, verdict


def under(condition, meet=nv.sync_threads):
    def body(n):
        if condition(n):
            meet()

    return body


HALF = {
    "thread": lambda n: nv.thread_id.x < 64,
    "warp": lambda n: nv.warp_id() < 2,
    "and": lambda n: nv.warp_id() < 2 and n > 0,
    "or": lambda n: nv.warp_id() == 0 or nv.thread_id.x // 32 == 1,
    "not": lambda n: not nv.warp_id() >= 2,
}


@pytest.mark.parametrize("condition", HALF.values(), ids=list(HALF))
def test_half_of_the_block(condition):
    body = under(condition)
    error = verdict(body, "meet()", 1)
    assert "waits for 128 threads, and 64 come: 0-63" in error.message
    assert f"kept out at line {line(body, 'if condition(n)')}" in error.message
    assert "named_barrier_sync(1, 64)" in error.fix


EVERYONE = {
    "the block's": lambda n: nv.block_id.x == 0,
    "an argument": lambda n: n > 3,
    "always": lambda n: nv.thread_id.x < 128,
    "a vote": lambda n: nv.vote_any(nv.thread_id.x < 3),
    "one of two": lambda n: n > 3 if n > 0 else nv.thread_id.x < 64,
    "exclusive": lambda n: (n > 3) ^ (nv.thread_id.x < 64),
}


@pytest.mark.parametrize("condition", EVERYONE.values(), ids=list(EVERYONE))
def test_conditions_that_are_one_for_the_block_or_not_known(condition):
    accepted(under(condition), 1)


PART = [lambda n: nv.thread_id.x < 16, lambda n: nv.lane_id() == 0, lambda n: nv.elect()]


@pytest.mark.parametrize("condition", PART)
def test_a_part_of_a_warp(condition):
    error = verdict(under(condition), "meet()", 1)
    assert "a part of a warp reaches this barrier" in error.message


def test_the_other_half_may_wait_elsewhere():
    def body():
        if nv.warp_id() < 2:
            nv.sync_threads()
        else:
            nv.sync_threads()

    accepted(body)


def test_who_waits_twice_does_not_stand_for_others():
    def body():
        nv.sync_threads()
        if nv.warp_id() < 2:
            nv.sync_threads()  # the second

    verdict(body, "the second")


def test_loops_of_different_length():
    def body(rounds):
        def loop():
            for _ in nv.range(rounds()):
                nv.sync_threads()

        return loop

    accepted(body(lambda: 4))
    error = verdict(body(lambda: nv.warp_id() // 2), "nv.sync_threads()", source=body)
    assert "64 come: 64-127" in error.message


def roles(count, first=True, second=True):
    """Warpgroup 0 arrives at a named barrier, warpgroup 1 waits."""

    def body():
        if nv.warpgroup_id() == 0:
            if first:
                nv.named_barrier_arrive(1, count)
        else:
            if second:
                nv.named_barrier_sync(1, count)

    return body


def test_a_vote_at_a_named_barrier_counts_as_one():
    def body(threads):
        def vote():
            if nv.warpgroup_id() == 0:
                nv.named_barrier_any(1, threads, nv.thread_id.x > 3)

        return vote

    accepted(body(128), block=256)
    error = verdict(body(256), "nv.named_barrier_any", block=256)
    assert "named barrier 1 waits for 256 threads, and 128 come: 0-127" in error.message


def test_named_barriers_count_those_who_come():
    accepted(roles(256), block=256)
    error = verdict(roles(256, first=False), "nv.named_barrier_sync", block=256)
    assert "named barrier 1 waits for 256 threads, and 128 come: 128-255" in error.message
    assert "pass 128" in error.fix
    accepted(roles(128, first=False), block=256)


def test_each_warpgroup_may_have_its_own_number():
    def body(count):
        return lambda: nv.named_barrier_sync(1 + nv.warpgroup_id(), count)

    accepted(body(128), block=256)
    error = verdict(body(256), "named_barrier_sync", source=body, block=256)
    assert "named barrier 1 waits for 256 threads, and 128 come: 0-127" in error.message


def test_numbers_that_only_the_device_knows_are_let_through():
    def body(n):
        if nv.warpgroup_id() == 0:
            nv.named_barrier_sync(n, 256)

    accepted(body, 1, block=256)


def test_cluster_barriers_are_for_all_threads_of_the_cluster():
    def body(condition):
        def meet():
            if condition():
                nv.cluster_arrive()
            nv.cluster_wait()

        return meet

    accepted(body(lambda: nv.block_id.y == 0), grid=2, cluster=2)
    error = verdict(body(lambda: nv.cluster_rank() == 0), "nv.cluster_arrive", source=body, grid=2, cluster=2)
    assert "all 256 threads of the cluster, and 128 come" in error.message


def test_wgmma_is_for_whole_warpgroups():
    def body(condition):
        def fence():
            if condition():
                wgmma.wgmma_fence()

        return fence

    accepted(body(lambda: nv.warpgroup_id() == 1), block=256)
    error = verdict(body(lambda: nv.thread_id.x >= 64), "wgmma_fence", source=body, block=256)
    assert "a part of a warpgroup" in error.message and "threads 64-127" in error.message


def test_blocks_of_two_axes_count_along_x_first():
    def body():
        if nv.thread_id.y == 0:
            nv.sync_threads()

    error = verdict(body, "nv.sync_threads", block=(64, 2))
    assert "128 threads, and 64 come: 0-63" in error.message
