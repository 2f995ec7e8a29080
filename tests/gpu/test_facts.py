"""What the checks take for granted of the hardware: see docs/hardware.md and benchmarks/facts.py."""

import pytest

from nvdsl.testing import in_child

pytestmark = pytest.mark.alone  # it measures time


@pytest.mark.parametrize("place", ["fence", "first", "middle", "commit"])
@in_child(timeout=60)
def test_a_wait_for_wgmma_speaks_for_the_warpgroup(place):
    from benchmarks.facts_kernels import wgmma_case

    case = wgmma_case(place, 3, 100_000, overwrite=False, seed=0)
    done = [row[5] for row in case["times"]]
    assert max(done) - min(done) < 100
    assert min(done) > 100_000
    assert case["wrong_warps"] == []


@in_child(timeout=60)
def test_a_warp_that_waits_late_holds_up_nobody():
    from benchmarks.facts_kernels import wgmma_case

    *others, late = [row[5] for row in wgmma_case("wait", 3, 100_000, overwrite=True, seed=0)["times"]]
    assert max(others) < 100_000 < late


@in_child(timeout=60)
def test_lanes_of_a_warp_run_on_their_own():
    from benchmarks.facts import divergent_lanes

    assert divergent_lanes() == {"shuffle_right": True, "hand_over": 7.0}
