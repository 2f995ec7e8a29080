"""Rings: the order of stages and phases, and which barrier each side waits for and arrives at."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import kernel_ops, refused_body, trace
from tests.unit.trace.tracing import trace as trace_function
from tests.unit.traced import evaluate as fold

WAIT, EXPECT, ARRIVE = (f"nvgpu.mbarrier.{x}" for x in ("try_wait.parity", "arrive.expect_tx", "arrive"))
INIT, CREATE = "nvgpu.mbarrier.init", "nvgpu.mbarrier.create"


def positions(stages, phase, count):
    """(stage, phase) of a ring's first uses: slot after slot, and the other phase after each round."""
    return [(i % stages, (phase + i // stages) % 2) for i in range(count)]


@given(st.integers(1, 7), st.integers(0, 1))
@settings(max_examples=20)
def test_positions_go_round_the_ring(stages, phase):
    def build():
        state, found = nv.PipelineState(stages, 0, phase), []
        for _ in range(3 * stages + 2):
            found += [state.stage, state.phase]
            state = state.next()
        return found

    numbers = [int(x) for x in fold(build)]
    assert list(zip(numbers[::2], numbers[1::2], strict=True)) == positions(stages, phase, 3 * stages + 2)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_traced_loop_carries_the_position(stages):
    def after(n):
        state = nv.PipelineState(stages, 0, 1)
        for _ in nv.range(n):
            state = state.next()
        return state.stage, state.phase

    traced = trace_function(after, nv.i32)
    assert [traced.run(n) for n in range(12)] == positions(stages, 1, 12)


def test_a_position_is_immutable():
    def build():
        state = nv.PipelineState(2)
        state.next()
        return [state.stage, state.phase]

    assert fold(build) == [0, 0]


# --- the ring's barriers ---------------------------------------------------------------------------------


def test_full_completes_with_the_producer_and_empty_with_all_consumers():
    def body():
        ring = nv.Ring(4, bytes=1024, consumers=3)
        assert (len(ring.full), len(ring.empty), ring.stages, ring.bytes) == (4, 4, 4, 1024)

    module = trace(body)
    full, empty = (op.results[0] for op in find(module, CREATE))
    counts = {True: [], False: []}
    for init in find(module, INIT):
        counts[init.operands[0] == full].append((constant(init.operands[2]), constant(init.operands[1])))
        assert init.operands[0] in (full, empty)
    assert counts == {True: [(i, 1) for i in range(4)], False: [(i, 3) for i in range(4)]}


def test_one_thread_initializes_and_the_block_waits_for_it():
    def body():
        nv.Ring(2, bytes=64)
        nv.nanosleep(1)

    module = trace(body)
    names = kernel_ops(module)
    assert names.count("gpu.barrier") == 1
    inits = [i for i, name in enumerate(names) if name == "scf.if"]
    assert max(inits) < names.index("gpu.barrier") < names.index("nvvm.nanosleep")
    for branch in find(module, "scf.if"):
        assert [evaluate(branch.operands[0], t) for t in (0, 1, 127)] == [1, 0, 0]
        assert find(branch, INIT) and find(branch, "nvvm.fence.mbarrier.init")


def test_a_cluster_synchronizes_by_itself():
    def body():
        nv.Ring(2, bytes=64, sync=False)

    assert "gpu.barrier" not in kernel_ops(trace(body))


def barriers_used(body, *names):
    """{name: [(group, evaluated operands)]} of the barrier ops in ``body(ring)``, group "full" or "empty"."""

    def kernel():
        body(nv.Ring(3, bytes=4096, consumers=2))

    module = trace(kernel, block=256)
    groups = dict(zip(("full", "empty"), (op.results[0] for op in find(module, CREATE)), strict=True))
    found = []
    for op in find(module, *(names or (WAIT, EXPECT, ARRIVE))):
        group = next(name for name, value in groups.items() if value == op.operands[0])
        found.append((op.name.removeprefix("nvgpu.mbarrier."), group, [evaluate(x, 0) for x in list(op.operands)[1:]]))
    return found


def test_a_producer_finds_the_empty_slots_free():
    """It waits for the parity before the first, which counts as complete, then expects the slot's bytes."""

    def body(ring):
        barrier = ring.acquire(ring.producer_state())
        assert barrier.group is ring.full

    wait, expect = barriers_used(body)
    assert wait[:2] == ("try_wait.parity", "empty")
    assert wait[2][0] == 1, "parity"
    assert wait[2][2] == 0, "slot"
    assert expect == ("arrive.expect_tx", "full", [4096, 0])


def test_a_consumer_waits_for_the_first_bytes():
    def body(ring):
        state = ring.consumer_state()
        ring.wait(state)
        ring.release(state)

    wait, arrive = barriers_used(body)
    assert wait[:2] == ("try_wait.parity", "full")
    assert (wait[2][0], wait[2][2]) == (0, 0)
    assert arrive == ("arrive", "empty", [0])


def test_each_use_of_a_slot_waits_for_the_next_parity():
    def body(ring):
        state = ring.consumer_state()
        for _ in range(7):
            ring.wait(state)
            state = state.next()

    waits = barriers_used(body, WAIT)
    assert [(ops[2], ops[0]) for _, _, ops in waits] == positions(3, 0, 7)


def test_a_release_may_be_one_threads():
    def kernel():
        ring = nv.Ring(2, bytes=64)
        ring.release(ring.consumer_state(), predicate=nv.warpgroup_thread() == 5)

    module = trace(kernel, block=256)
    (arrive,) = find(module, ARRIVE)
    branch = arrive.operation.parent
    assert branch.name == "scf.if"
    assert [t for t in range(256) if evaluate(branch.operands[0], t)] == [5, 133]


@pytest.mark.parametrize("stages", [0, -1, 2.0, "3"])
def test_rings_without_stages_are_refused(stages):
    def body():
        nv.Ring(stages, bytes=64)

    assert "at least 1" in refused_body(body).rule


def test_more_bytes_than_a_barrier_counts_are_refused():
    def body():
        ring = nv.Ring(2, bytes=1 << 20)
        ring.acquire(ring.producer_state())

    assert str((1 << 20) - 1) in refused_body(body).rule
