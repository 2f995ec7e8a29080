"""The picture of mbarrier phases, from the program of docs/ideas/mbarriers.md."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from nvdsl import sim
from nvdsl.errors import SimError
from nvdsl.sim import phase_picture as phases
from nvdsl_command import script

PROGRAM = Path(__file__).parents[2] / "docs" / "ideas" / "mbarriers.py"


@pytest.fixture(scope="module")
def recording():
    with pytest.MonkeyPatch.context() as patch, sim.record() as recorded:
        patch.setenv("NVDSL_TARGET", "sim")
        assert script.run(str(PROGRAM), []).report == ""
    return recorded


def test_each_phase_is_there_with_what_it_needs(recording):
    full, empty = phases.mbarriers(recording.launches[0].blocks[0])
    assert (full.name, empty.name) == ("full", "empty")
    assert len(full.phases) == 3 and len(empty.phases) in (2, 3)  # the last release may be after the last load
    needs = [(sample.arrivals, sample.bytes) for _, _, sample in full.intervals(1000)]
    assert needs == [(1, 0), (0, 1024)] * 3 + [(1, 0)]
    assert [span.args["parity"] for span in full.waits] == [0, 1, 0]
    assert [span.args["parity"] for span in empty.waits] == [1, 0, 1]
    assert empty.waits[0].end - empty.waits[0].start == 1  # the phase before the first is over


def test_svg_names_phases_and_waits(recording):
    picture = ElementTree.fromstring(phases.picture(recording))
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("phase 0, parity 0") == 2 and words.count("phase 1, parity 1") == 2
    assert words.count("wait(parity=1)") == 3


def test_a_recording_without_mbarriers_has_no_picture():
    with pytest.raises(SimError, match="nothing arrived on an mbarrier"):
        phases.picture(sim.recording.Recording())
