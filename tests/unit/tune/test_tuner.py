"""Whole tunings on the simulator: compiled in processes, checked and timed in a process of their own."""

import functools
import os

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call.jit import Jit
from nvdsl.call.module import context
from nvdsl.lower import stored
from nvdsl.lower.options import Options
from nvdsl.tune import tuner
from nvdsl.tune.autotune import _constants
from nvdsl.tune.bench import ProcessBench
from nvdsl.tune.compiling import Compiler
from nvdsl.tune.space import Config, Space
from nvdsl.tune.tuner import Job
from tests.exhaustive import sample
from tests.unit.tune import kernels
from tests.unit.tune.kernels import X

pytestmark = pytest.mark.usefixtures("quick_python")

SIM, STUMBLING = (f"tests.unit.tune.benches:{name}" for name in ("SimBench", "Stumbling"))
COMPILER = "tests.unit.tune.benches:SimCompiler"
SMALL = Space(block=[64, 128, 256], each=[1], wrong=[0])


def job(space=SMALL, default=None, factory=SIM, deadline=60.0, function=kernels.scale, args=(X, X, 2.0), **more):
    tuned = nv.autotune(space)(function)
    call = tuned._asked(args, {})
    return Job(
        name=tuned.__name__,
        problem=tuned._problem(call),
        space=tuned.space,
        trace=lambda config: Jit._trace(tuned, call.extended(*_constants(config))),
        options=Options(strict=True),
        default=Config(default) if default else None,
        make_bench=functools.partial(ProcessBench, factory=factory, check_deadline=deadline),
        **{"min_fill": 0.0, "compiler": COMPILER, **more},
    )


def states(candidates):
    return {tuple(c.config.values()): c.state for c in candidates}  # block, each, wrong


def test_one_is_chosen_and_each_other_says_why_not():
    space = kernels.SPACE + Space({"block": 128, "each": 1, "wrong": 1}, {"block": 96, "each": 1, "wrong": 0})
    space = space.where(lambda block, each: block * each < 1024, "small")
    candidates = tuner.tune(job(space, {"block": 128, "each": 1, "wrong": 0}, min_fill=0.3), budget=60)
    found = states(candidates)
    assert len(found) == 11
    assert list(found.values()).count("chosen") == 1
    assert found[128, 1, 1] == "wrong"
    assert {c.reason for c in candidates if c.state == "pruned"} == {
        "breaks: small", "n = 1024 is not a multiple of 96", "fills under 30% of what the best does",
    }  # fmt: skip
    best = tuner.chosen(candidates)
    assert best.ratio == 1.0 and best.config["wrong"] == 0
    assert all(c.times and c.ratio for c in candidates if c.state in ("chosen", "slower"))


def test_a_wrong_majority_cannot_win_against_a_reference():
    space = Space(block=[64, 128, 256], each=[1], wrong=[1]) + Space({"block": 128, "each": 1, "wrong": 0})
    reference = lambda x, y, alpha: alpha * x + y  # noqa: E731
    candidates = tuner.tune(job(space, reference=reference), budget=60)
    assert states(candidates) == {**{(n, 1, 1): "wrong" for n in (64, 128, 256)}, (128, 1, 0): "chosen"}


def test_without_a_majority_the_default_is_right():
    space = Space(block=[64], each=[1], wrong=[1]) + Space({"block": 128, "each": 1, "wrong": 0})
    for default, right in (({"block": 64, "each": 1, "wrong": 1}, 1), ({"block": 128, "each": 1, "wrong": 0}, 0)):
        candidates = tuner.tune(job(space, default), budget=60)
        assert {c.config["wrong"]: c.state for c in candidates} == {right: "chosen", 1 - right: "wrong"}
    with pytest.raises(nv.TuneError, match="disagree about the result"):
        tuner.tune(job(space), budget=60)


def test_a_default_that_differs_from_the_majority_is_reported():
    space = Space(block=[64, 128, 256], each=[1], wrong=[0])
    with pytest.warns(nv.TuneWarning, match="the default configuration .* gives another result than 3 of 4"):
        candidates = tuner.tune(job(space, {"block": 64, "each": 1, "wrong": 1}), budget=60)
    assert tuner.chosen(candidates).config["wrong"] == 0


@pytest.mark.parametrize(("stumble", "reason"), sample([
    ("crash:check:0", "crashed: SIGABRT"), ("hang:check:0", "hung: not done after 2 s"),
    ("raise:check:0", "CUDA_ERROR_LAUNCH_FAILED"), ("crash:time:0", "crashed: SIGABRT"),
    ("hang:time:0", "hung: not done after"), ("crash:check:1", "crashed: SIGABRT"),
], 3))  # fmt: skip
def test_a_candidate_that_fails_takes_nothing_down(monkeypatch, stumble, reason):
    monkeypatch.setenv("STUMBLE", stumble)
    candidates = tuner.tune(job(factory=STUMBLING, deadline=2.0 if "hang" in stumble else 60.0), budget=60)
    failed = [c for c in candidates if c.state == "failed"]
    assert len(failed) == 1 and reason in failed[0].reason
    assert candidates.index(failed[0]) == int(stumble[-1])
    assert tuner.chosen(candidates) is not failed[0]


def test_a_winner_must_give_the_same_result_again(monkeypatch):
    monkeypatch.setenv("STUMBLE", "flaky:check:0 flaky:check:1")
    candidates = tuner.tune(job(factory=STUMBLING), budget=60)
    assert tuner.chosen(candidates) is candidates[2]
    for candidate in candidates[:2]:  # one that is slower than the third is never run again
        assert candidate.state == "slower" or candidate.reason == "its result is not the same each time"
    monkeypatch.setenv("STUMBLE", "flaky:check:0 flaky:check:1 flaky:check:2")
    with pytest.raises(nv.TuneError, match="3 x wrong: its result is not the same each time"):
        tuner.tune(job(factory=STUMBLING), budget=60)


def test_when_all_fail_the_error_says_why(monkeypatch):
    monkeypatch.setenv("STUMBLE", "crash:check:0 crash:check:1 crash:check:2")
    with pytest.raises(nv.TuneError, match="3 x failed: crashed: SIGABRT"):
        tuner.tune(job(factory=STUMBLING), budget=60)


def test_a_crashing_compiler_is_one_candidates_matter():
    candidates = tuner.tune(job(compiler="tests.unit.tune.test_tuner:Crashing"), budget=60)
    (refused,) = [c for c in candidates if c.state == "refused"]
    assert "the compiler crashed" in refused.reason
    assert tuner.chosen(candidates)


class Crashing:
    """A compiler that does not survive blocks of 128 threads."""

    def compile(self, module, options):
        if _threads(Compiler().compile(module, options)) == 128:
            os.abort()
        return module


def _threads(packed):
    (kernel,) = stored.unpack(packed, "candidate", context())[0].kernels.values()
    return kernel.max_threads


@nv.jit
def spilling(x, *, keep=1):
    """Keeps ``keep`` values in each of 1024 threads alive over a barrier: 64 registers are there."""

    @nv.kernel(grid=1, block=1024)
    def kernel():
        values = [x[nv.thread_id.x + i] for i in range(keep)]
        nv.sync_threads()
        for i in range(keep):
            x[nv.thread_id.x + i] = values[(i + 1) % keep] * values[i]

    kernel()


def test_what_ptxas_advises_against_is_refused():
    found = job(Space(keep=[1, 128]), function=spilling, args=(nv.ShapeDtype((2048,), nv.f32),))
    search = tuner._Search(found)
    search.prune()
    search.compile(float("inf"))
    assert {c.config["keep"]: c.state for c in search.candidates} == {1: "", 128: "refused"}
    assert "local memory" in [c.reason for c in search.candidates][1]


@nv.jit
def wide(x, *, n=64):
    """Sums 128 x ``n`` elements in the registers of 128 threads."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        a = nv.smem((128, 64), nv.f16, swizzle=128)
        b = nv.smem((64, n), nv.f16, swizzle=128)
        acc = nv.accumulator(128, n, nv.f32)
        for _ in nv.range(4):
            acc += a @ b
        nv.wgmma_wait(0)
        acc.store(x, (0, 0))

    kernel()


def test_what_must_spill_is_pruned_before_it_is_compiled():
    found = job(Space(n=[64, 256]), function=wide, args=(nv.ShapeDtype((128, 256), nv.f32),))
    search = tuner._Search(found)
    search.prune()
    assert {c.config["n"]: c.state for c in search.candidates} == {64: "", 256: "pruned"}
    (pruned,) = [c.reason for c in search.candidates if c.reason]
    assert "a loop carries" in pruned and "which has 255" in pruned


@nv.jit
def gather(x, index, y, *, block=64):
    """y[i] = x[index[i]]: random indices would be out of bounds."""

    @nv.kernel(grid=index.shape[0] // block, block=block)
    def kernel():
        i = nv.block_id.x * block + nv.thread_id.x
        y[i] = x[index[i]]

    kernel()


def test_inputs_that_cannot_be_random():
    args = nv.ShapeDtype((8,), nv.f32), nv.ShapeDtype((128,), nv.i32), nv.ShapeDtype((128,), nv.f32)
    made = {"index": np.arange(128, dtype=np.int32) % 8}
    settings = {"inputs": lambda index: made, "reference": lambda x, index: x[index]}
    candidates = tuner.tune(job(Space(block=[64, 128]), function=gather, args=args, **settings), budget=60)
    assert {c.state for c in candidates} == {"chosen", "slower"}


def test_inputs_of_another_shape_are_an_error():
    with pytest.raises(nv.ArgumentError, match="x is float32 of shape"):
        tuner.tune(job(inputs=lambda: {"x": np.zeros(3, np.float32)}), budget=60)


def test_a_used_up_budget_still_chooses():
    found = job(default={"block": 128, "each": 1, "wrong": 0})
    search = tuner._Search(found)
    search.prune()
    search.compile(float("inf"))
    bench = found.make_bench(search.setup(), search.packed)
    try:
        search.check(bench, until=0.0)  # past: only the first is run
        search.race(bench, until=0.0)
    finally:
        bench.close()
    candidates = search.candidates
    assert states(candidates) == {(128, 1, 0): "chosen", (64, 1, 0): "refused", (256, 1, 0): "refused"}
    assert "budget" in candidates[1].reason
