"""What a simulation records: spans that agree with the kernel, in an order that a GPU may show; the trace of it."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import SimError
from nvdsl.sim import perfetto
from tests.exhaustive import sample
from tests.sim.kernels import registers
from tests.sim.programs import CASES, case, load
from tests.sim.simulate import run

pytestmark = pytest.mark.usefixtures("quick_python")

ROOT = Path(__file__).parents[2]
STEPS, STAGES = 6, 3  # k-steps and slots of chapter 4's ring


def recorded(function, m, n, k, options=None, blocks=16, **constants):
    a, b, d = np.ones((m, k), np.float16), np.ones((k, n), np.float16), np.empty((m, n), np.float32)
    with sim.record(blocks) as recording:
        run(function, a, b, d, options=options or sim.Options(), **constants)
    return recording


@pytest.fixture(scope="module")
def chapter4():
    return recorded(load("chapters/ch4_multistage_gemm.py").gemm, 256, 128, 64 * STEPS)


@pytest.fixture(scope="module")
def chapter5():
    return recorded(load("chapters/ch5_warp_specialized_gemm.py").gemm, 128, 256, 64 * STEPS)


def of_kind(block, kind):
    return [span for span in block.spans if span.kind == kind]


def test_a_launch_says_what_it_is(chapter4):
    (launch,) = chapter4.launches
    assert (launch.grid, launch.threads, launch.of, launch.stopped) == ((2, 1, 1), 128, 2, "")
    assert launch.kernel == "gemm"
    assert [block.name for block in launch.blocks] == ["block 0", "block 1"]


def test_what_a_phase_needs_counts_the_bytes_that_its_arrival_announced(chapter4):
    """After an arrive.expect_tx of 32 KB no arrival is missing, and all bytes are. Three boxes bring them."""
    for block in chapter4.launches[0].blocks:
        first = [(s.arrivals, s.bytes) for s in block.samples if s.mbarrier == "full[0]"][:5]
        assert first == [(1, 0), (0, 32768), (0, 16384), (0, 8192), (0, 0)]


def test_copies_and_bytes_are_the_kernels(chapter4):
    """A step brings a tile of A (one box) and one of B (two boxes of 64 columns): 32 KB."""
    for block in chapter4.launches[0].blocks:
        loads = of_kind(block, "load")
        assert len(loads) == 3 * STEPS
        assert sum(span.args["bytes"] for span in loads) == 2 * 128 * 64 * 2 * STEPS
        assert {span.args["mbarrier"] for span in loads} == {f"full[{i}]" for i in range(STAGES)}


def test_phases_are_rounds_of_the_ring(chapter4):
    phases = defaultdict(list)
    for span in of_kind(chapter4.launches[0].blocks[0], "phase"):
        phases[span.lane].append(span)
    counts = {lane: len(spans) for lane, spans in phases.items()}
    assert counts == {f"full[{i}]": STEPS // STAGES for i in range(STAGES)}
    for spans in phases.values():
        assert [span.args["phase"] for span in spans] == [0, 1]
        assert all(span.args["arrivals"] == 1 and span.args["bytes"] == 32768 for span in spans)


def test_groups_hold_all_wgmmas(chapter4):
    """128 rows are two wgmmas of 64, 64 columns of f16 are four of k16: eight a step, in one group."""
    groups = of_kind(chapter4.launches[0].blocks[0], "wgmma")
    assert [span.args for span in groups] == [{"group": i, "wgmmas": 8} for i in range(1, STEPS + 1)]
    overlapping = [one for one, two in zip(groups, groups[1:], strict=False) if two.start < one.end]
    assert len(overlapping) == STEPS - 1  # wgmma_wait(1): the next one begins before the last one is waited for


def test_nobody_waits_for_what_comes_later(chapter5):
    """A wait for a full slot ends when, or after, the loads into it have ended."""
    block = chapter5.launches[0].blocks[0]
    ends = defaultdict(int)
    for span in of_kind(block, "load"):
        key = span.args["mbarrier"], span.args["phase"]
        ends[key] = max(ends[key], span.end)
    waits = [s for s in of_kind(block, "wait") if s.name.startswith("wait ring.full")]
    assert len(waits) == 8 * STEPS  # two consumer warpgroups
    for span in waits:
        assert span.end >= ends[span.name.removeprefix("wait "), span.args["phase"]]


def test_a_slot_is_refilled_after_its_readers_released_it(chapter5):
    block = chapter5.launches[0].blocks[0]
    released = {(s.lane, s.args["phase"]): s.end for s in of_kind(block, "phase") if s.lane.startswith("ring.empty")}
    assert released
    for span in of_kind(block, "load"):
        if span.args["phase"] > 0:
            empty = span.args["mbarrier"].replace("full", "empty"), span.args["phase"] - 1
            assert span.start >= released[empty]


def test_what_a_warp_does_follows_each_other(chapter5):
    for block in chapter5.launches[0].blocks:
        for i in range(block.warps):
            spans = [s for s in block.spans if s.lane == f"warp {i}"]
            assert spans[0].start == 0
            assert all(one.end == two.start for one, two in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize("options", [sim.Options(delivery="eager"), sim.Options(delivery="random", order="random")])
@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_every_schedule_has_the_same_events(chapter5, options, level):
    """At another time, in another order."""
    function = load("chapters/ch5_warp_specialized_gemm.py").gemm
    chosen = sim.Options(options.delivery, options.order, level=level)
    other = recorded(function, 128, 256, 64 * STEPS, chosen)
    kinds = [sorted(s.kind for s in r.launches[0].blocks[0].spans) for r in (chapter5, other)]
    assert kinds[0] == kinds[1]


def test_eager_copies_take_one_step():
    recording = recorded(load("chapters/ch4_multistage_gemm.py").gemm, 128, 128, 256, sim.Options(delivery="eager"))
    assert {span.end - span.start for span in of_kind(recording.launches[0].blocks[0], "load")} == {1}


def test_the_number_of_blocks_has_a_limit(chapter4):
    recording = recorded(load("chapters/ch4_multistage_gemm.py").gemm, 256, 128, 128, blocks=1)
    (launch,) = recording.launches
    assert (len(launch.blocks), launch.of) == (1, 2)
    assert launch.blocks[0].name == "block 0"


def test_launches_follow_each_other():
    function = load("chapters/ch4_multistage_gemm.py").gemm
    a, d = np.ones((128, 128), np.float16), np.empty((128, 128), np.float32)
    with sim.record() as recording:
        for _ in range(2):
            run(function, a, a, d)
    first, second = recording.launches
    assert second.start == first.end > 0


def test_nothing_is_recorded_outside():
    function = load("chapters/ch2_tma_saxpy.py").saxpy
    x = np.ones((64, 128), np.float32)
    with sim.record() as recording:
        pass
    run(function, x, x.copy(), 2.0)
    assert recording.launches == []


# --- a kernel that goes wrong


@nv.jit
def waits_for_ever(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        never = nv.Mbarriers(1, arrivals=2)
        if nv.thread_id.x == 0:
            never[0].arrive()
        never[0].wait(0)
        x[nv.thread_id.x] = 1.0

    kernel()


def test_a_deadlock_shows_who_waits():
    with sim.record() as recording, pytest.raises(SimError):
        run(waits_for_ever, np.zeros(32, np.float32))
    (launch,) = recording.launches
    assert launch.stopped.startswith("deadlock")
    (stuck,) = [span for span in launch.blocks[0].spans if span.args.get("over") is False]
    assert "never" in stuck.name and "1 of 2 arrivals" in stuck.name
    assert stuck.where.file == __file__


# --- the trace


@pytest.fixture(scope="module")
def events(chapter5):
    trace = json.loads(json.dumps(perfetto.trace(chapter5)))
    assert trace["otherData"]["launches"][0]["kernel"] == "gemm"
    return trace["traceEvents"]


REQUIRED = {
    "X": {"ts", "dur", "cat"}, "C": {"ts"}, "M": set(), "s": {"ts", "id", "cat"}, "f": {"ts", "id", "cat", "bp"},
}  # fmt: skip


def test_events_have_the_fields_of_their_kind(events):
    for event in events:
        assert {"ph", "pid", "tid", "name", "args"} <= event.keys()
        assert REQUIRED[event["ph"]] <= event.keys()
        assert all(isinstance(event[key], int) for key in ("pid", "tid", "ts", "dur") if key in event)
        assert event.get("ts", 0) >= 0 and event.get("dur", 1) >= 1


def test_spans_of_a_thread_do_not_overlap(events):
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert threads.keys() <= named
    for spans in threads.values():
        spans.sort(key=lambda event: event["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(spans, spans[1:], strict=False))


def test_each_lane_has_a_name(events):
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    warps = {f"warp {i}" for i in range(12)}
    mbarriers = {f"ring.{which}[{i}]" for which in ("full", "empty") for i in range(4)}
    assert warps | mbarriers | {"TMA load", "wgmma 1", "wgmma 2"} <= names


def test_an_arrow_goes_from_each_issue_to_its_copy(events):
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    loads = [e for e in events if e["ph"] == "X" and e["cat"] == "load"]
    assert len(loads) == 5 * STEPS  # one box of A, four of B
    assert starts.keys() == ends.keys() and len(starts) == len(loads)
    assert all(starts[i]["ts"] < ends[i]["ts"] for i in starts)


def test_events_know_line_slot_and_bytes(events):
    load_ = next(e for e in events if e["ph"] == "X" and e["cat"] == "load" and e["args"]["mbarrier"] == "ring.full[3]")
    assert load_["args"]["slot"] == 3
    assert load_["args"]["bytes"] == 128 * 64 * 2
    file, line = load_["args"]["line"].split(":")
    text = (ROOT / "chapters" / file).read_text().splitlines()[int(line) - 1]
    assert "a_tma.load" in text


def test_counters_end_at_zero_bytes(events):
    last = {}
    for event in events:
        if event["ph"] == "C":
            assert event["args"]["bytes"] >= 0
            if event["ts"] >= last.get(event["name"], (0, 0))[0]:
                last[event["name"]] = event["ts"], event["args"]["bytes"]
    assert len(last) == 8 and {size for _, size in last.values()} == {0}


def test_a_program_writes_its_trace_when_it_ends(tmp_path):
    path = tmp_path / "trace.json"
    command = [sys.executable, str(ROOT / "chapters/ch2_tma_saxpy.py")]
    environment = {"NVDSL_TARGET": "sim", "NVDSL_SIM_TRACE": str(path), "PYTHONPATH": str(ROOT), "PATH": ""}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    assert json.loads(path.read_text())["otherData"]["launches"][0]["kernel"] == "saxpy"


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    x = np.ones((64, 128), np.float32)
    options = sim.Options(trace=str(tmp_path / "nowhere" / "trace.json"))
    with pytest.raises(SimError, match="there is no folder"):
        run(load("chapters/ch2_tma_saxpy.py").saxpy, x, x.copy(), 2.0, options=options)


def test_a_picture_in_a_file_of_another_kind_is_refused(tmp_path, chapter4):
    with pytest.raises(SimError, match="a picture in .*slots.png") as caught:
        chapter4.write_picture(tmp_path / "slots.png")
    assert "file.svg" in caught.value.rule and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sample(CASES, 9))
def test_every_kernel_of_the_repository_can_be_recorded(name):
    """Clusters, multicast, bulk stores, named barriers, setmaxnreg: nothing is left open, no span is upside down."""
    one = case(name)
    one.reset()
    with sim.record() as recording:
        one.program.run(sim.Options(delivery="random", order="random", seed=1))
    one.check()
    spans = [span for launch in recording.launches for block in launch.blocks for span in block.spans]
    assert recording.launches and all(0 <= span.start < span.end for span in spans)
    assert not any({"delivered", "over", "waited"} & span.args.keys() for span in spans)
    json.dumps(perfetto.trace(recording))


# --- clusters, stores, registers


@nv.jit
def spread(x, y):
    """Block 0 of each cluster loads one tile into both blocks; each stores its copy by TMA."""
    x_tma, y_tma = nv.TMA(x, tile=(16, 64)), nv.TMA(y, tile=(16, 64))

    @nv.kernel(grid=(4, 1), block=64, cluster=2)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1, sync=False)
        nv.cluster_sync()
        if nv.thread_id.x == 0:
            full[0].arrive_expect_tx(tile.bytes)
            if nv.cluster_rank() == 0:
                x_tma.load(tile, full[0], ((nv.block_id.x // 2) * 16, 0), multicast_mask=3)
        full[0].wait(0)
        nv.named_barrier_sync(1, 64)
        if nv.thread_id.x == 0:
            y_tma.store(tile, (nv.block_id.x * 16, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0, read=True)
            nv.bulk_wait_group(0)
        nv.cluster_sync()

    kernel()


@pytest.mark.parametrize("delivery", sim.options.DELIVERIES)
def test_a_multicast_is_a_copy_in_each_block(delivery):
    x, y = np.ones((32, 64), np.float32), np.zeros((64, 64), np.float32)
    with sim.record() as recording:
        run(spread, x, y, options=sim.Options(delivery=delivery))
    assert y.all()
    blocks = recording.launches[0].blocks
    assert [block.name for block in blocks] == [f"block {i}" for i in range(4)]
    for block in blocks:
        (load_,), (store,) = of_kind(block, "load"), of_kind(block, "store")
        assert load_.args["bytes"] == store.args["bytes"] == 4096
        assert load_.end <= store.start < store.args["read"] <= store.end
        waits = [s.name for s in block.spans if s.kind == "wait" and s.lane == "warp 0"]
        assert waits == ["the cluster's barrier", "wait full", "named barrier 1", "wait for bulk stores to read",
                         "wait for bulk stores", "the cluster's barrier"]  # fmt: skip
    starts = [of_kind(block, "load")[0].start for block in blocks]
    assert starts[0] == starts[1]  # the one instruction of block 0
    json.dumps(perfetto.trace(recording))


def test_setmaxnreg_waits_for_registers():
    with sim.record() as recording:
        run(registers, np.zeros(384, np.int32), options=sim.Options(order="reverse"))
    spans = recording.launches[0].blocks[0].spans
    given = max(s.end for s in spans if s.name == "setmaxnreg 24")
    taken = [s.end for s in spans if s.name == "setmaxnreg 240"]
    assert len(taken) == 8 and max(taken) >= given
    assert {s.args["registers"] for s in spans if s.name.startswith("setmaxnreg")} == {24, 240}
