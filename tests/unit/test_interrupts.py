"""Ctrl-C at any time, in a trace, a compilation or a simulation, leaves everything usable."""

import gc
import random
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

import nvdsl as nv
from nvdsl import sim
from tests.exhaustive import exhaustive
from tests.sim import threads

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

NVDSL = str(Path(nv.__file__).parent)


def _interrupt(*_):
    raise KeyboardInterrupt


def _outcome(call):
    """Whether a call was interrupted, and the traceback of anything else that it raised."""
    try:
        call()
    except KeyboardInterrupt:
        return True, None
    except BaseException:
        return False, traceback.format_exc()
    return False, None


def _interrupted(call, after):
    """`_outcome` of a call with an interrupt so many seconds from its start."""
    signal.signal(signal.SIGALRM, _interrupt)

    def timed():
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    return _outcome(timed)


def _in_another_thread(call):
    """A lock that an interrupted call left would be this thread's own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(20)
    if found:
        return found[0]
    frame = sys._current_frames().get(thread.ident)
    return "hangs at\n" + "".join(traceback.format_stack(frame)) if frame is not None else "ended with an error"


def _interrupt_and_go_on(call, count, seed):
    """Interrupt calls of new functions; the first wrong thing, and how many were interrupted."""
    draw, interrupted = random.Random(seed), 0
    gc.disable()  # what a finalizer raises, Python only prints
    expected = threads.ptx(0)
    for i in range(count):
        work = threads.Work(large=False)
        start = time.monotonic()
        call(work, i)
        took = time.monotonic() - start
        work = threads.Work(large=False)
        after = draw.uniform(0.0, 0.8 * took)
        hit, wrong = _interrupted(lambda: call(work, i), after)  # noqa: B023
        interrupted += hit
        wrong = wrong or _in_another_thread(lambda: work.one(i)) or work.one(i)  # noqa: B023
        if wrong:
            return f"call {i} of seed {seed}, interrupted: {hit}, after {after * 1e3:.3f} ms: {wrong}", interrupted
    for given in (_in_another_thread(lambda: threads.ptx(0)), threads.ptx(0)):
        if given != expected:
            return f"after all, the same function has other PTX:\n{given}", interrupted
    return None, interrupted


def _simulate(work, i):
    kind = work.kinds[i % len(work.kinds)]
    assert kind(random.Random(i), threads.np.random.default_rng(i))


def _compile(work, i):
    threads.ptx(i)


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (_simulate, 10),
        (_compile, 4),
        pytest.param(_simulate, 200, marks=exhaustive),
        pytest.param(_compile, 60, marks=exhaustive),
    ],
)
def test_everything_goes_on_after_an_interrupt(call, count):
    wrong, interrupted = threads.forked(lambda: _interrupt_and_go_on(call, count, count), 30.0 + 3 * count)
    assert wrong is None, wrong
    assert interrupted


# --- where a call changes what outlives it


class _AtCall:
    """Interrupts a call as soon as call number ``number`` of a C function by these files of nvdsl has returned: there
    Python looks for signals."""

    def __init__(self, number, files):
        self.number, self.files, self.seen, self.at = number, files, 0, None

    def __call__(self, frame, event, function):
        if event == "c_return" and frame.f_code.co_filename in self.files:
            self.seen += 1
            if self.seen == self.number:
                sys.setprofile(None)
                self.at = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({function.__name__})"
                raise KeyboardInterrupt

    def run(self, call):
        sys.setprofile(self)
        try:
            return _outcome(call)
        finally:
            sys.setprofile(None)


def _stateful():
    """The files of nvdsl that hold a lock, a context variable or a table."""
    names = ("Lock(", "lock(", "ContextVar", "Once", "settrace", "_bars", "_globals.")
    found = [path for path in Path(NVDSL).rglob("*.py") if any(name in path.read_text() for name in names)]
    return {str(path) for path in found}


def _recorded(work):
    with sim.record():
        assert work.one(2) is None


def _interrupt_everywhere(step):
    gc.disable()
    files, number, missed = _stateful(), 1, 0
    while missed < 3:
        work = threads.Work(large=False)
        profile = _AtCall(number, files)
        hit, wrong = profile.run(lambda: _recorded(work))  # noqa: B023
        missed = 0 if hit else missed + 1
        wrong = wrong or _in_another_thread(lambda: work.one(2)) or work.one(2) or work.one(3)  # noqa: B023
        if wrong:
            return f"interrupted at {profile.at}: {wrong}", number
        number += step
    return None, number


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=exhaustive)])
def test_an_interrupt_wherever_something_outlives_the_call(step):
    wrong, number = threads.forked(lambda: _interrupt_everywhere(step), 400.0)
    assert wrong is None, wrong
    assert number > 200


def test_an_import_that_was_interrupted_is_made_again():
    """The simulator's ops are imported at the first launch."""

    def again():
        threads.Work().one(0)
        for name in [name for name in sys.modules if name.startswith("nvdsl.sim.dialects")]:
            if name.rpartition(".")[2] not in ("arith", "scf"):  # these were complete
                del sys.modules[name]
        del sim.dialects
        return threads.Work().one(0)

    assert threads.forked(again) is None


def test_no_dialect_is_registered_in_a_call():
    """The import of a dialect registers its namespace, which can't be done again if it was interrupted."""

    code = """if True:
        import sys
        from tests.sim import threads
        before = set(sys.modules)
        assert threads.Work().one(5) is None and threads.ptx(0)
        print(*sorted(name for name in set(sys.modules) - before if "_ops_gen" in name))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(NVDSL).parent)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


# --- programs that were started


def test_no_assembler_goes_on_after_an_interrupt(tmp_path, monkeypatch):
    program, started = tmp_path / "ptxas", tmp_path / "started"
    program.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 60\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("NVDSL_PTXAS", str(program))
    monkeypatch.setenv("NVDSL_CACHE", "off")

    assert _interrupted(lambda: threads.ptx(0), 0.5) == (True, None)
    assert not Path("/proc", started.read_text().strip()).exists()
