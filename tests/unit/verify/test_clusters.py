"""The cluster's barrier: arrivals and waits take turns."""

import pytest

import nvdsl as nv
from tests.unit.verify.verdicts import accepted, verdict


def test_an_arrival_and_a_wait_take_turns():
    def body():
        nv.cluster_arrive(relaxed=True)
        nv.sync_threads()
        nv.cluster_wait()
        nv.cluster_sync()
        nv.cluster_sync()

    accepted(body, cluster=2, grid=2)


@pytest.mark.parametrize("relaxed", [False, True])
def test_two_arrivals(relaxed):
    def body():
        nv.cluster_arrive(relaxed=relaxed)
        nv.sync_threads()
        nv.cluster_sync()  # here

    error = verdict(body, "# here", cluster=2, grid=2)
    assert "arrives at the cluster's barrier again, after line" in error.message
    assert "no nv.cluster_wait() in between" in error.message


def test_two_waits():
    def body():
        nv.cluster_sync()
        nv.cluster_wait()  # here

    error = verdict(body, "# here", cluster=2, grid=2)
    assert "waits at the cluster's barrier again" in error.message and "nv.cluster_arrive()" in error.fix


def test_a_wait_in_a_branch_may_be_enough():
    def body():
        nv.cluster_arrive()
        if nv.grid_dim.x > 2:
            nv.cluster_wait()
        nv.cluster_sync()

    accepted(body, cluster=2, grid=2)


def test_other_branches_are_other_threads():
    def body():
        if nv.warp_id() == 0:
            nv.cluster_arrive()
        else:
            nv.cluster_arrive(relaxed=True)
        nv.cluster_wait()

    accepted(body, cluster=2, grid=2)


def test_a_wait_within_a_loop_between_the_two():
    def body():
        nv.cluster_arrive()
        for _ in nv.range(nv.grid_dim.x):
            nv.cluster_wait()
            nv.cluster_arrive()
        nv.cluster_wait()

    accepted(body, cluster=2, grid=2)
