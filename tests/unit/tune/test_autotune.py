"""The decorator: where a configuration comes from, and what a call, a tuning and the environment do."""

import functools
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.lower import cache
from nvdsl.tune import device, store, table
from nvdsl.tune.bench import ProcessBench
from nvdsl.tune.progress import Silent
from nvdsl.tune.space import Config

pytestmark = pytest.mark.usefixtures("quick_python")

GPU = {"name": "NVIDIA H200", "capability": "9.0"}
N = 512
X = nv.ShapeDtype((N,), nv.f32)


def make(space=None, **settings):
    """A tuned function; ``seen`` holds the configurations that it was traced with."""
    seen = []

    @nv.autotune(space or nv.Space(block=[64, 128, 256]), **settings)
    @nv.jit
    def scale(x, y, alpha, *, block=32, offset=0):
        seen.append(block)
        nv.require_multiples(n=(x.shape[0], block))

        @nv.kernel(grid=x.shape[0] // block, block=block)
        def kernel():
            i = nv.block_id.x * block + nv.thread_id.x
            y[i] = alpha * x[i] + offset

        kernel()

    bench = functools.partial(ProcessBench, factory="tests.unit.tune.benches:SimBench")
    scale.overrides = {"make_bench": bench, "compiler": "tests.unit.tune.benches:SimCompiler"}
    return scale, seen


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def gpu(monkeypatch):
    """Tuning is possible, on the simulator's bench."""
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "ordinal", lambda call: 0)
    monkeypatch.setattr(device, "identity", lambda call: dict(GPU))
    monkeypatch.setattr(device, "multiprocessors", lambda call: 132)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "no NVIDIA driver")


def keep(function, block, *args):
    """Put an answer for a call into the cache."""
    call = function._asked(args, {})
    question, gpu, valid = function._file_of(call, function._problem(call))
    store.save(store.Record(question, gpu, valid, {"block": block}, {}))
    return question, gpu


def ship(function, path, block, *args):
    call = function._asked(args, {})
    question = function._question(function._problem(call))
    table.write(path, function.kernel, [store.Record(question, GPU, {}, {"block": block}, {})])


# --- where a configuration comes from ----------------------------------------------------------------------------


def test_the_order_explicit_cache_table_heuristic_defaults(gpu, folder):
    bare, _ = make()
    assert bare.choice(X, X, 2.0) == ("defaults", Config({"block": 32}))
    guessing, _ = make(heuristic=lambda x: {"block": x.shape[0] // 2})
    assert guessing.choice(X, X, 2.0) == ("heuristic", Config({"block": 256}))
    shipped, seen = make(heuristic=lambda: {"block": 256}, table=folder / "table.json")
    ship(shipped, folder / "table.json", 128, X, X, 2.0)
    assert shipped.choice(X, X, 2.0) == ("table", Config({"block": 128}))
    keep(shipped, 64, X, X, 2.0)
    shipped._chosen.clear()
    assert shipped.choice(X, X, 2.0) == ("cache", Config({"block": 64}))
    shipped.trace(X, X, 2.0, block=16)
    assert seen[-1] == 16


def test_a_heuristic_that_chooses_what_is_refused_is_told_once(no_gpu):
    """What is used instead may be far slower, and nobody would see it."""
    function, _ = make(heuristic=lambda: {"block": 96})
    with pytest.warns(nv.TuneWarning, match=r"the heuristic chose .*96.*, which is refused .*\(n = 512") as told:
        assert function.choice(X, X, 2.0) == ("defaults", Config({"block": 32}))
        assert function.choice(X, X, 2.0) == ("defaults", Config({"block": 32}))
    assert len(told) == 1


def test_off_asks_neither_cache_nor_table(gpu, folder, monkeypatch):
    function, _ = make(heuristic=lambda: {"block": 256}, table=folder / "table.json")
    ship(function, folder / "table.json", 128, X, X, 2.0)
    keep(function, 64, X, X, 2.0)
    monkeypatch.setenv("NVDSL_TUNE", "off")
    assert function.choice(X, X, 2.0)[0] == "heuristic"


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("NVDSL_TUNE", "sometimes")
    with pytest.raises(nv.ArgumentError, match="NVDSL_TUNE=sometimes"):
        make()[0].choice(X, X, 2.0)


def test_an_answer_that_does_not_fit_these_shapes_is_passed_over(gpu):
    function, _ = make(shape_class=lambda: "all alike")
    keep(function, 256, X, X, 2.0)
    odd = nv.ShapeDtype((96,), nv.f32)
    assert function.choice(odd, odd, 2.0) == ("defaults", Config({"block": 32}))
    assert function.choice(X, X, 2.0)[0] == "cache"


def test_where_nothing_fits_the_error_is_the_functions_own(no_gpu):
    function, _ = make()
    odd = nv.ShapeDtype((33,), nv.f32)
    with pytest.raises(nv.ArgumentError, match="n = 33 is not a multiple of 32") as caught:
        function.compile(odd, odd, 2.0)
    assert caught.value.where.file == __file__


def test_without_defaults_the_first_of_the_space_that_fits(no_gpu):
    @nv.autotune(nv.Space(block=[256, 96, 64]).where(lambda block: block < 256, "small"))
    @nv.jit
    def function(x, *, block):
        nv.require_multiples(n=(x.shape[0], block))

    assert function.choice(X) == ("space", Config({"block": 64}))


def test_a_changed_kernel_is_out_of_date(gpu, monkeypatch):
    function, _ = make()
    keep(function, 64, X, X, 2.0)
    other, _ = make(nv.Space(block=[64, 128]))
    with pytest.warns(nv.CacheWarning, match="out of date: the search space changed"):
        assert other.choice(X, X, 2.0)[0] == "defaults"


def test_constants_are_part_of_the_question(gpu):
    function, _ = make()
    keep(function, 64, X, X, 2.0)
    assert function.choice(X, X, 2.0)[0] == "cache"
    assert function.choice(X, X, 2.0, offset=1)[0] == "defaults"


def test_a_table_is_used_without_a_gpu(no_gpu, folder):
    function, _ = make(table=folder / "table.json")
    ship(function, folder / "table.json", 128, X, X, 2.0)
    assert function.choice(X, X, 2.0) == ("table", Config({"block": 128}))


# --- what a person may get wrong -----------------------------------------------------------------------------------


def test_tuned_parameters_are_keyword_only():
    def function(x, block):
        pass

    with pytest.raises(nv.ArgumentError, match="sets block") as caught:
        nv.autotune(nv.Space(block=[1]))(function)
    assert caught.value.where.line == function.__code__.co_firstlineno


@pytest.mark.parametrize("guess", [{"blocks": 1}, None, 64], ids=str)
def test_a_heuristic_of_other_parameters_is_refused(no_gpu, guess):
    function, _ = make(heuristic=lambda: guess)
    with pytest.raises(nv.ArgumentError, match="the heuristic of scale chose") as caught:
        function.choice(X, X, 2.0)
    assert caught.value.where.file == __file__


def test_a_shape_class_that_json_can_not_hold_is_refused(no_gpu, folder):
    function, _ = make(shape_class=lambda x: {1, 2}, table=folder / "table.json")
    with pytest.raises(nv.ArgumentError, match="the shape_class of .*: Object of type set") as caught:
        function.choice(X, X, 2.0)
    assert caught.value.where.file == __file__


def test_a_misspelled_setting_is_refused():
    for wrong in ({"tolerance": "little"}, {"heuristic": {"block": 32}}):
        with pytest.raises(nv.ArgumentError, match=f"autotune with {next(iter(wrong))}="):
            make(**wrong)
    with pytest.raises(nv.ArgumentError, match="autotune with tolerence") as caught:
        make(tolerence=1.0)
    assert "tolerance" in caught.value.rule and caught.value.where.file == __file__


def test_an_unhashable_constant_is_explained():
    with pytest.raises(nv.ArgumentError, match="can't be hashed"):
        make()[0].choice(X, X, 2.0, offset=[1])


# --- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_runs_with_the_choice_and_traces_once(no_gpu):
    function, seen = make(heuristic=lambda: {"block": 128})
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    for _ in range(3):
        function(x, y, 3.0, target="sim")
    assert seen == [128]
    assert (y == 3 * x).all()
    function(x, y, 1.0, block=64, target="sim")
    assert seen == [128, 64]


# --- tuning ----------------------------------------------------------------------------------------------------


def test_tune_finds_keeps_and_uses(gpu, folder, capsys):
    function, seen = make()
    assert function.choice(X, X, 2.0)[0] == "defaults"
    found = function.tune(X, X, 2.0, budget=30)
    shown = capsys.readouterr().err.splitlines()  # what a person sees who asked for nothing
    assert [line.partition(" (")[0] for line in shown] == [
        f"tuning scale: {stage}" for stage in ("pruning", "compiling", "checking", "timing")
    ]
    assert found.source == "tuned" and found.gpu == GPU["name"]
    assert len(found.candidates) == 4  # with the defaults
    assert "fills under 25%" in found.report()  # 2 blocks, where the defaults have 16
    assert "ratio" in found.report()
    assert function.choice(X, X, 2.0) == ("cache", found.config)
    (file,) = folder.glob("tune/*/*.json")
    assert json.loads(file.read_text())["config"] == found.config.plain()
    seen.clear()
    assert function.tune(X, X, 2.0).source == "cache"
    assert not seen
    exported = function.export(folder / "out.json")
    assert [e["config"] for e in json.loads(exported.read_text())["entries"]] == [found.config.plain()]
    assert function.tune(X, X, 2.0, budget=30, force=True).source == "tuned"


def test_always_tunes_at_the_first_call_only(gpu, monkeypatch):
    monkeypatch.setenv("NVDSL_TUNE", "always")
    function, _ = make(nv.Space(block=[64, 128]))
    calls = []
    real = type(function)._tune
    monkeypatch.setattr(type(function), "_tune", lambda self, *args: calls.append(1) or real(self, *args))
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    for _ in range(2):
        function(x, y, 3.0, target="sim")
    assert len(calls) == 1
    assert (y == 3 * x).all()  # the caller's arrays were not what was tuned on
    again, _ = make(nv.Space(block=[64, 128]))  # as in another process
    assert again.choice(x, y, 3.0)[0] == "cache"
    assert len(calls) == 1


def test_always_goes_on_where_tuning_fails(gpu, monkeypatch):
    monkeypatch.setenv("NVDSL_TUNE", "always")
    monkeypatch.setenv("STUMBLE", "crash:check:0 crash:check:1")
    function, _ = make(nv.Space(block=[64]))
    function.overrides["make_bench"] = functools.partial(ProcessBench, factory="tests.unit.tune.benches:Stumbling")
    with pytest.warns(nv.TuneWarning, match="no configuration runs"):
        assert function.choice(X, X, 2.0)[0] == "defaults"


def test_wrong_arguments_are_explained(no_gpu):
    for args in ((X,), (X, X, 2.0, 3.0)):
        with pytest.raises(nv.ArgumentError, match="scale..: .*argument"):
            make()[0].compile(*args)


@pytest.mark.parametrize("how", ["tune", "always"])
def test_without_a_gpu_tuning_warns_and_takes_what_there_is(no_gpu, monkeypatch, how):
    function, _ = make(heuristic=lambda: {"block": 128})
    with pytest.warns(nv.TuneWarning, match="scale can't be tuned here .no NVIDIA driver") as caught:
        if how == "tune":
            found = function.tune(X, X, 2.0)
            assert (found.source, found.config) == ("heuristic", Config({"block": 128}))
        else:
            monkeypatch.setenv("NVDSL_TUNE", "always")
            assert function.choice(X, X, 2.0)[0] == "heuristic"
    assert caught[0].filename == __file__


def test_who_tunes_a_kernel_of_nvdsls_is_warned_at_the_own_line(no_gpu):
    a = np.ones((512, 512), np.float16)
    with pytest.warns(nv.TuneWarning, match="can't be tuned here") as caught:
        nv.matmul.tune(a, a.T, np.zeros((512, 512), np.float16), target="sim")
    assert caught[0].filename == __file__


def test_without_being_asked_nothing_is_said(no_gpu):
    function, _ = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function.choice(X, X, 2.0)


WAITING = """
import sys
import threading
sys.path[:0] = {path!r}
import fcntl
with open({lock!r}, "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read(1)
    from nvdsl.tune import store
    store.save(store.Record({question!r}, {gpu!r}, {valid!r}, {{"block": 256}}, {{}}))
"""


def test_two_processes_tune_one_after_the_other(gpu, folder):
    """The second waits for the first, and takes what it found."""
    function, seen = make()
    call = function._asked((X, X, 2.0), {})
    question, identity, valid = function._file_of(call, function._problem(call))
    lock = folder / "locks" / "device-0.lock"
    lock.parent.mkdir(parents=True)
    program = WAITING.format(path=sys.path, lock=str(lock), question=question, gpu=identity, valid=valid)
    environment = {**os.environ, "PYTHONPATH": str(Path(nv.__file__).parents[1])}
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert other.stdout.readline() == "locked\n"
    threading.Timer(0.5, lambda: (other.stdin.write("x"), other.stdin.close())).start()
    start = time.monotonic()
    found = function.tune(X, X, 2.0)
    assert time.monotonic() - start >= 0.4
    assert (found.source, found.config) == ("cache", Config({"block": 256}))
    assert not seen
    assert other.wait(20) == 0
    other.stdout.close()


def test_threads_tune_once(gpu):
    """All ask at the same time: one searches, the others take what it found."""
    function, _ = make()
    found = []

    def tune():
        found.append(function.tune(X, X, 2.0, progress=Silent()))

    workers = [threading.Thread(target=tune) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(one.source for one in found) == ["cache", "cache", "tuned"]
    assert len({one.config for one in found}) == 1


def test_who_waits_too_long_tunes_too(gpu, folder, monkeypatch):
    monkeypatch.setattr(sys.modules[nv.Autotuned.__module__], "PATIENCE", 0.2)
    function, _ = make(nv.Space(block=[64, 128]))
    with cache.alone("device-0", 1.0) as held:
        assert held
        assert function.tune(X, X, 2.0, progress=Silent()).source == "tuned"


def test_a_choice_is_made_once_for_all_threads(gpu):
    asked = []

    def heuristic():
        asked.append(1)
        time.sleep(0.05)
        return {"block": 128}

    function, _ = make(heuristic=heuristic)
    found = []
    workers = [threading.Thread(target=lambda: found.append(function.choice(X, X, 2.0))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [("heuristic", Config({"block": 128}))] * 8 and len(asked) == 1
