"""The slots of a ring over time: what a recording says of them, and the picture."""

from xml.etree import ElementTree

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.errors import SimError
from nvdsl.sim import picture as drawing
from nvdsl.sim.slots import rings
from tests.sim.programs import load
from tests.sim.simulate import run
from tests.sim.test_recording import STAGES, STEPS, chapter4, chapter5, recorded  # noqa: F401

SVG = "{http://www.w3.org/2000/svg}"


def the_ring(recording):
    (ring,) = rings(recording.launches[0].blocks[0])
    return ring


def test_fills_are_the_k_steps(chapter4):  # noqa: F811
    ring = the_ring(chapter4)
    assert (ring.name, ring.slots) == ("full", STAGES)
    assert [(fill.number, fill.slot) for fill in ring.fills] == [(k, k % STAGES) for k in range(STEPS)]
    assert {fill.bytes for fill in ring.fills} == {32768}


@pytest.mark.parametrize("delivery", sim.options.DELIVERIES)
def test_states_follow_each_other(delivery):
    """Loaded, then full, then read, and only then loaded again."""
    function = load("chapters/ch5_warp_specialized_gemm.py").gemm
    ring = the_ring(recorded(function, 128, 256, 64 * STEPS, sim.Options(delivery=delivery), stages=2))
    for fill in ring.fills:
        assert set(fill.readers) == {"wgmma 1", "wgmma 2"}
        assert fill.start < fill.full <= fill.read_from < fill.end
        assert fill.after is None or fill.end <= fill.after


def picture_of(recording):
    return ElementTree.fromstring(drawing.picture(recording))


def texts(picture):
    return [element.text for element in picture.iter(f"{SVG}text")]


def test_a_picture_has_rows_bars_and_words(chapter4):  # noqa: F811
    picture = picture_of(chapter4)
    words = texts(picture)
    assert {"gemm, block 0: ring slots over time", "TMA loads", "warps wait", "steps"} <= set(words)
    assert {f"full[{i}]" for i in range(STAGES)} <= set(words)
    tips = [element.text for element in picture.iter(f"{SVG}title")]
    assert sum("loads, 32,768 bytes" in tip for tip in tips) == STEPS
    assert sum(": wgmma 0, steps" in tip for tip in tips) == STEPS


def test_bars_lie_inside(chapter5):  # noqa: F811
    picture = picture_of(chapter5)
    width, height = float(picture.get("width")), float(picture.get("height"))
    for rect in picture.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert 0 <= x and x + w <= width and 0 <= y and y + h <= height and w >= 0


def test_a_long_loop_is_cut(monkeypatch, chapter4):  # noqa: F811
    monkeypatch.setattr(drawing, "FILLS", 4)
    picture = picture_of(chapter4)
    assert any("The first 4 of 6 fills" in text for text in texts(picture))
    tips = [element.text for element in picture.iter(f"{SVG}title")]
    assert sum("loads, 32,768 bytes" in tip for tip in tips) == 4


def test_the_same_simulation_gives_the_same_picture(chapter4):  # noqa: F811
    again = recorded(load("chapters/ch4_multistage_gemm.py").gemm, 256, 128, 64 * STEPS)
    assert drawing.picture(again) == drawing.picture(chapter4)


def test_a_kernel_without_copies_has_no_picture():
    with sim.record() as recording:
        x = np.ones(256, np.float32)
        run(load("chapters/ch1_saxpy.py").saxpy, x, x.copy(), 2.0)
    with pytest.raises(SimError, match="no ring to draw"):
        drawing.picture(recording)
