"""The page with a slider through the slots of a ring: what it shows at each step is what was recorded."""

import json
from pathlib import Path

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.sim import timeline
from nvdsl.sim.picture import chosen
from nvdsl.sim.slots import rings
from tests.sim import break_it
from tests.sim.programs import load
from tests.sim.simulate import run


def recorded(chapter, m, n, k, out=np.float32, **more):
    a, b, d = np.ones((m, k), np.float16), np.ones((k, n), np.float16), np.empty((m, n), out)
    with sim.record() as recording:
        run(load(f"chapters/{chapter}.py").gemm, a, b, d, **more)
    return recording


@pytest.fixture(scope="module")
def chapter4():
    return recorded("ch4_multistage_gemm", 128, 128, 384)


@pytest.fixture(scope="module")
def chapter5():
    """Two consumers, and copies that arrive in any order."""
    return recorded("ch5_warp_specialized_gemm", 128, 256, 384, options=sim.Options(delivery="random", seed=2))


# --- what the recording says of a step


def slots_at(block, t):
    """(state, k) of each slot."""
    found = []
    for ring in rings(block):
        for slot in range(ring.slots):
            begun = [fill for fill in ring.fills if fill.slot == slot and fill.start <= t]
            if not begun:
                found.append(("empty", None))
                continue
            fill = begun[-1]
            if t < fill.full:
                state = "filling"
            elif any(start <= t < end for start, end in fill.readers.values()):
                state = "read"
            else:
                state = "empty" if fill.readers and t >= fill.end else "full"
            found.append((state, fill.number))
    return found


def mbarriers_at(block, t):
    """(phase, arrivals, bytes) by name."""
    found = {}
    for sample in block.samples:
        if sample.time <= t:
            found[sample.mbarrier] = sample.arrivals, sample.bytes
    done = [span.lane for span in block.spans if span.kind == "phase" and span.end <= t]
    return {name: (done.count(name), *state) for name, state in found.items()}


def warps_at(block, t):
    """(what, line) of each warp; None where it is done."""
    found = [None] * block.warps
    for span in block.spans:
        if span.kind in ("op", "wait") and span.start <= t < span.end:
            found[int(span.lane.split()[1])] = span.name, span.where.line if span.where else None
    return found


# --- the page of slots


@pytest.mark.parametrize("name", ["chapter4", "chapter5"])
def test_every_step_is_as_recorded(name, tab, tmp_path, request):
    recording = request.getfixturevalue(name)
    block = recording.launches[0].blocks[0]
    tab.show(timeline.html(recording), tmp_path)
    states = json.loads(tab.value("JSON.stringify(Array.from({length: data.end + 1}, (_, t) => stateAt(t)))"))
    names, lines, slots = (json.loads(tab.value(f"JSON.stringify({what})")) for what in (
        "data.mbarriers.map((bar) => bar.name)", "data.lines", "data.slots"))  # fmt: skip
    assert len(states) == block.end + 1
    for t, state in enumerate(states):
        assert [(slot["state"], slot["k"]) for slot in state["slots"]] == slots_at(block, t), f"step {t}"
        told = {n: (s["phase"], s["arrivals"], s["bytes"]) for n, s in zip(names, state["mbarriers"], strict=True) if s}
        assert told == mbarriers_at(block, t), f"step {t}"
        for warp, expected in zip(state["warps"], warps_at(block, t), strict=True):
            line = lines[warp["line"]][1] if warp["line"] >= 0 else None
            assert (None if warp["state"] == "done" else (warp["what"], line)) == expected, f"step {t}"
        for slot, facts in zip(slots, state["slots"], strict=True):
            if facts["state"] == "filling":
                assert state["mbarriers"][slot["mbarriers"][0]]["bytes"] == facts["bytes"] - facts["came"], f"step {t}"
        assert all(warp["line"] >= 0 for warp in state["warps"] if warp["state"] != "done"), f"step {t}"
    seen = {slot["state"] for state in states for slot in state["slots"]}
    # Late copies come when they are waited for, so that chapter 4's slots are read as soon as they are full.
    assert seen == {"empty", "filling", "read"} | ({"full"} if name == "chapter5" else set())


def cards(tab):
    expression = "[...document.querySelectorAll('#slots .card')].map((card) => card.dataset.state)"
    return json.loads(tab.value(f"JSON.stringify({expression})"))


def lit(tab):
    expression = "[...document.querySelectorAll('.row.lit')].map((row) => Number(row.dataset.place.split(':')[1]))"
    return set(json.loads(tab.value(f"JSON.stringify({expression})")))


def lines_at(block, t):
    return {line for what in warps_at(block, t) if what for line in [what[1]] if line is not None}


def test_the_slider_moves_what_is_shown(chapter5, tab, tmp_path):
    block = chapter5.launches[0].blocks[0]
    tab.show(timeline.html(chapter5), tmp_path)
    tab.value("document.getElementById('time').focus()")
    seen = []
    for t in range(1, 61):
        tab.press("ArrowRight")
        assert tab.value("document.getElementById('now').textContent") == f"step {t} of {block.end}"
        assert cards(tab) == [state for state, _ in slots_at(block, t)]
        assert lit(tab) == lines_at(block, t)
        seen.append((cards(tab), lit(tab)))
    assert len({repr(state) for state in seen}) > 10
    assert tab.value("location.hash") == "#t=60"
    tab.press("ArrowLeft", times=3)
    assert tab.value("document.getElementById('time').value") == "57"
    tab.press("Home")
    assert set(cards(tab)) == {"empty"}
    assert tab.problems == []


def test_keys_go_from_change_to_change(chapter4, tab, tmp_path):
    block = chapter4.launches[0].blocks[0]
    expected = [t for t in range(1, block.end) if slots_at(block, t) != slots_at(block, t - 1)]
    tab.show(timeline.html(chapter4), tmp_path)
    stops = []
    for _ in expected:
        tab.press("n")
        stops.append(int(tab.value("document.getElementById('time').value")))
    assert set(expected) <= {*stops, block.end}, "nothing changes between two stops"
    tab.press("p")
    assert int(tab.value("document.getElementById('time').value")) == stops[-2]


def test_the_address_names_a_step(chapter4, tab, tmp_path):
    block = chapter4.launches[0].blocks[0]
    tab.show(timeline.html(chapter4), tmp_path, "#t=37")
    assert tab.value("document.getElementById('time').value") == "37"
    assert cards(tab) == [state for state, _ in slots_at(block, 37)]
    tab.value("location.hash = '#t=9999'")
    tab.wait(f"document.getElementById('time').value == '{block.end}'")


def test_a_narrow_and_dark_screen(chapter5, tab, tmp_path):
    tab.show(timeline.html(chapter5), tmp_path)
    light = tab.value("getComputedStyle(document.body).backgroundColor")
    tab.resize(360, 700, dark=True)
    assert tab.value("document.documentElement.scrollWidth") <= 360
    assert tab.value("getComputedStyle(document.body).backgroundColor") != light


def test_roles_and_source(chapter4, chapter5):
    told = timeline.timeline(*chosen(chapter5))
    assert [group["name"] for group in told["groups"]] == ["producer", "consumer 0", "consumer 1"]
    assert [slot["name"] for slot in told["slots"]] == [f"ring.full[{i}]" for i in range(4)]
    names = [bar["name"] for bar in told["mbarriers"]]
    assert [[names[i] for i in slot["mbarriers"]] for slot in told["slots"]] == [
        [f"ring.full[{i}]", f"ring.empty[{i}]"] for i in range(4)
    ]
    (source,) = told["source"]
    assert source["text"][0].strip().startswith("@nv.kernel(")
    assert source["text"][-1].strip() == "acc.store(d, (row + first, col))"
    text = Path(load("chapters/ch5_warp_specialized_gemm.py").__file__).read_text().splitlines()
    assert source["text"][-1] == text[source["first"] - 1 + len(source["text"]) - 1]
    assert [group["name"] for group in timeline.timeline(*chosen(chapter4))["groups"]] == ["loads and multiplies"]


@pytest.mark.parametrize("fills", [1, 2])
def test_a_ring_with_more_slots_than_fills(fills):
    """The empty barriers of the slots in use stand beside these."""
    told = timeline.timeline(*chosen(recorded("ch5_warp_specialized_gemm", 128, 256, 64 * fills)))
    names = [bar["name"] for bar in told["mbarriers"]]
    assert [slot["name"] for slot in told["slots"]] == [f"ring.full[{i}]" for i in range(fills)]
    assert [[names[i] for i in slot["mbarriers"]] for slot in told["slots"]] == [
        [f"ring.full[{i}]", f"ring.empty[{i}]"] for i in range(fills)
    ]


def test_who_is_stuck_stays_so(tab, tmp_path):
    """The exercise of chapter 7 ends in a deadlock: at the last step its producer and its consumers wait."""
    exercise = next(exercise for exercise in map(break_it.exercise, break_it.CHAPTERS) if "ch7" in exercise.path.name)
    with sim.record() as recording, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NVDSL_TARGET", "sim")
        exercise.run(tmp_path)
    tab.show(timeline.html(recording), tmp_path, "#t=100000")
    assert "The simulation stopped: deadlock" in tab.value("document.getElementById('about').textContent")
    roles = tab.value("document.getElementById('roles').textContent")
    assert "stuck: mbarrier ring.empty[3]" in roles and "stuck: mbarrier ring.full[3]" in roles
    assert lit(tab) and tab.problems == []


def test_a_long_loop_is_cut(chapter4, monkeypatch):
    monkeypatch.setattr(timeline, "FILLS", 4)
    told = timeline.timeline(*chosen(chapter4))
    assert told["cut"] == "the first 4 of 6 fills"
    assert sum(len(slot["fills"]) for slot in told["slots"]) == 4
    assert told["end"] < chapter4.launches[0].blocks[0].end
    assert all(op[0] <= told["end"] for ops in told["warps"] for op in ops)


def test_stores_have_a_row():
    recording = recorded("ch6_tma_store_gemm", 128, 128, 128, np.float16, tile=(128, 128, 64), stages=2)
    stores = timeline.timeline(*chosen(recording))["stores"]
    assert {who for _, _, who, _ in stores} == {"warp 4", "warp 8"}
    assert sum(bytes for *_, bytes in stores) == 128 * 128 * 2


def test_a_picture_becomes_a_page_by_its_name(chapter4, tmp_path):
    chapter4.write_picture(tmp_path / "slots.html")
    chapter4.write_picture(tmp_path / "slots.svg")
    assert (tmp_path / "slots.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "slots.svg").read_text().startswith("<svg")
