"""Synchronization between mbarrier.init and the other threads' use."""

import pytest

import nvdsl as nv
from tests.unit.kernels import array
from tests.unit.verify.verdicts import accepted, line, verdict


def once(meet, *, waits=lambda: nv.thread_id.x >= 0, between=lambda: None):
    def body():
        bar = nv.Mbarriers(1)[0]
        if nv.thread_id.x == 0:
            bar.init(1)
        if meet:
            nv.sync_threads()
        if nv.thread_id.x == 0:
            bar.arrive()
        between()
        if waits():
            bar.wait(0)

    return body


def test_the_block_meets():
    accepted(once(True))


def test_the_block_does_not_meet():
    body = once(False)
    error = verdict(body, "bar.wait(0)")
    assert "threads 32-127 may be here before thread 0 initialized the mbarrier" in error.message
    assert f"at line {line(body, 'bar.init(1)')}" in error.message
    assert "threads 64-127 may" in verdict(once(False, waits=lambda: nv.thread_id.x >= 64), "bar.wait(0)").message


def test_a_warp_sees_its_own_inits():
    accepted(once(False), block=32)
    accepted(once(False, waits=lambda: nv.thread_id.x < 32))


def test_a_barrier_anywhere_in_between_is_enough():
    accepted(once(False, between=nv.sync_threads))
    accepted(once(False, between=lambda: nv.named_barrier_sync(1, 128)))


def test_a_barrier_in_another_branch_is_not():
    def body():
        bar = nv.Mbarriers(1)[0]
        if nv.thread_id.x == 0:
            bar.init(1)
        if nv.warpgroup_id() == 0:
            nv.named_barrier_sync(1, 128)
        else:
            bar.wait(0)

    error = verdict(body, "bar.wait(0)", block=256)
    assert "threads 128-255" in error.message


def multicast(meet, fence=True):
    def host(x):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=2, block=64, cluster=2)
        def kernel():
            tile = nv.smem((16, 64), nv.f32)
            bar = nv.Mbarriers(1)[0]
            if nv.thread_id.x == 0:
                bar.init(1)
                if fence:
                    nv.fence_mbarrier_init()
            meet()
            if nv.thread_id.x == 0:
                bar.arrive_expect_tx(8192)
                x_tma.load(tile, bar, (0, 0), multicast_mask=0b11)
            bar.wait(0)
            nv.cluster_sync()

        kernel()

    return host


def relaxed():
    nv.cluster_arrive(relaxed=True)
    nv.cluster_wait()


def refused(meet, fence=True):
    function = multicast(meet, fence)
    with pytest.raises(nv.VerifyError) as caught:
        nv.jit(function).trace(array(nv.f32, 64, 64))
    assert caught.value.where.line == line(function, "x_tma.load(")
    assert f"line {line(function, 'bar.init(1)')}" in caught.value.message
    return caught.value


def test_a_cluster_meets_before_one_block_uses_anothers_mbarrier():
    for meet, fence in ((nv.cluster_sync, True), (nv.cluster_sync, False), (relaxed, True)):
        nv.jit(multicast(meet, fence)).trace(array(nv.f32, 64, 64))
    assert "the cluster hasn't met in between" in refused(nv.sync_threads).message
    assert "relaxed arrive" in refused(relaxed, fence=False).message
