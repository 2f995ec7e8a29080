"""The picture of a cluster's loads, from the program of docs/ideas/clusters.md."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from nvdsl import sim
from nvdsl.errors import SimError
from nvdsl.sim import cluster_picture as cluster
from nvdsl_command import script

IDEAS = Path(__file__).parents[2] / "docs" / "ideas"


def recorded(name):
    with pytest.MonkeyPatch.context() as patch, sim.record() as recording:
        patch.setenv("NVDSL_TARGET", "sim")
        assert script.run(str(IDEAS / name), []).report == ""
    return recording


def test_each_block_loads_half_for_both():
    recording = recorded("clusters.py")
    first, second = cluster.loads(recording.launches[0])
    assert (first.issuer, second.issuer) == (0, 1)
    assert sorted(first.landed) == sorted(second.landed) == [0, 1]
    assert {span.args["to"] for span in first.landed.values()} == {0}
    assert {span.args["to"] for span in second.landed.values()} == {2048}
    picture = ElementTree.fromstring(cluster.picture(recording))
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("load 1: byte 2,048, completes on full") == 2
    assert "load 0: 2,048 bytes, for block 0 and block 1" in words


def test_a_kernel_without_multicast_has_no_picture():
    with pytest.raises(SimError, match="no load went to several blocks"):
        cluster.picture(recorded("mbarriers.py"))
