"""Side effects under a ``predicate=``: predicated instructions; what is not one of those stays a branch."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.lower import passes
from nvdsl.ops.pointer import under


def ptx(body, *, cluster=1):
    @nv.jit
    def host(x: nv.Array):
        @nv.kernel(grid=cluster, block=64, cluster=cluster)
        def kernel():
            body(x)

        kernel()

    return host.compile(nv.ShapeDtype((64,), nv.f32)).ptx


def test_a_ring_is_released_without_a_branch():
    def body(x):
        ring = nv.Ring(2, bytes=16, consumers=4, sync=False)
        nv.cluster_sync()
        state = ring.consumer_state()
        for _ in nv.range(100):
            ring.release(state, nv.lane_id() == 0)
            ring.release(state, nv.lane_id() < 2, rank=nv.lane_id())
            state = state.next()

    text = ptx(body, cluster=2)
    released = text[text.index("barrier.cluster.wait") :]
    assert released.count("bra ") <= 1  # the loop's
    arrivals = [line.strip() for line in released.splitlines() if "mbarrier.arrive" in line]
    assert arrivals and all(line.startswith("@%p") for line in arrivals)
    step = next(s for s in passes.DEVICE if s.name == "predicate")
    assert not step.wanted(frozenset({"scf.if"}), debug=True) and step.wanted(frozenset({"scf.if"}))


def test_two_side_effects_stay_a_branch():
    def body(x):
        bars = nv.Mbarriers(2)
        with under(nv.lane_id() == 0):
            bars[0].arrive()
            bars[1].arrive()

    assert "bra" in ptx(body)


def test_the_users_if_stays_a_branch():
    def body(x):
        bars = nv.Mbarriers(1)
        if nv.lane_id() == 0:
            bars[0].arrive()

    text = ptx(body)
    assert "bra" in text and "begin inline asm" not in text
