"""Calls from several threads at once: each gets its own numbers, its own errors, and one compilation serves all."""

import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import SimError, TraceError
from nvdsl.trace import kept, rewrite
from nvdsl.trace.dependencies import Dependencies
from tests.exhaustive import sample
from tests.sim import threads

THREADS = 8


@pytest.fixture(autouse=True)
def switch_often():
    """Python hands over to another thread every 50 us instead of 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def together(work, arguments):
    """``work`` of each argument in 8 threads, all of which begin at the same time."""
    barrier = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS, initializer=barrier.wait) as pool:
        return list(pool.map(work, arguments))


@pytest.mark.parametrize("calls", sample([80, 160], 1))
def test_mixed_calls(calls):
    work = threads.Work()
    wrong = [message for message in together(work.one, range(calls)) if message]
    assert not wrong


def test_one_compilation_serves_all(monkeypatch):
    traced = []

    @nv.jit
    def scale(x, *, by):
        traced.append(by)

        @nv.kernel(grid=1, block=32)
        def kernel():
            x[nv.thread_id.x] = x[nv.thread_id.x] * by

        kernel()

    def call(i):
        x = np.full(32, float(i), np.float32)
        scale(x, by=float(i % 2 + 2), target="sim")
        return x[0] == i * (i % 2 + 2.0)

    assert all(together(call, range(64)))
    assert sorted(traced) == [2.0, 3.0]


def test_an_error_is_the_one_of_its_thread():
    @nv.jit
    def gather(x, i, y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            y[nv.thread_id.x] = x[i + nv.thread_id.x]

        kernel()

    x = np.arange(64, dtype=np.float32)

    def call(i):
        y = np.zeros(32, np.float32)
        try:
            gather(x, i % 2 * 1000, y, target="sim")
        except SimError as error:
            return i % 2 and error.kind == "out-of-bounds"
        return not i % 2 and (y == x[:32]).all()

    assert all(together(call, range(200)))


def test_a_trace_that_fails_fails_for_each():
    @nv.jit
    def broken(x):
        @nv.kernel(grid=1, block=32)
        def kernel():
            x[nv.thread_id.x] = undefined_name  # noqa: F821

        kernel()

    def call(i):
        try:
            broken(np.zeros(32, np.float32), target="sim")
        except NameError as error:
            return error
        return None

    errors = together(call, range(16))
    assert len(set(map(id, errors))) == 16 and None not in errors


def test_lines_stay_those_of_their_own_function():
    """Whether ops get the lines that made them is a switch of the process: one thread lowers while another traces."""
    assert len(set(together(threads.ptx, range(16)))) == 1


def test_a_recording_is_of_its_own_thread():
    def call(i):
        x = np.zeros(32, np.float32)
        with sim.record() as recording:
            for _ in range(i % 3 + 1):
                threads.increment(x, target="sim")
        return len(recording.launches) == i % 3 + 1 and (x == i % 3 + 1).all()

    assert all(together(call, range(24)))


def test_a_jit_called_while_another_is_traced_holds_up_nobody():
    """It is refused, although the trace holds what the other thread, which compiles the same function, waits for."""
    tracing, refused = threading.Event(), []
    inner = nv.jit(threads._increment)

    @nv.jit
    def outer(x):
        tracing.set()
        time.sleep(0.1)  # until the other thread compiles `inner`
        inner(x, target="sim")

    def call(x):
        try:
            outer(x, target="sim")
        except TraceError as error:
            refused.append(error)

    x, y = np.zeros((2, 32), np.float32)
    other = threading.Thread(target=lambda: tracing.wait() and inner(y, target="sim"), daemon=True)
    first = threading.Thread(target=call, args=(x,), daemon=True)
    other.start()
    first.start()
    first.join(20)
    other.join(20)
    assert "while `outer` is traced" in str(refused[0]) and (y == 1).all()


def test_functions_are_converted_one_at_a_time(monkeypatch):
    """What Python has for syntax trees counts their depth for all threads together, and its filters of warnings are
    the process's: each thread would put back what it found."""
    monkeypatch.setattr(kept, "find", lambda function: None)
    before = list(warnings.filters)
    assert all(together(lambda i: threads.ptx(i) and threads.Work(large=False).one(i) is None, range(24)))
    for _ in range(3):
        rewrite._converted.clear()
        work = threads.Work(large=False)
        assert not [message for message in together(work.one, range(48)) if message]
    assert warnings.filters == before


FACTOR = 1.0


def scaled(function):
    x = np.ones(32, np.float32)
    function(x, target="sim")
    return float(x[0])


@pytest.fixture
def reading():
    """A function that reads a global, after its first call."""

    @nv.jit
    def scale(x):
        @nv.kernel(grid=1, block=32)
        def kernel():
            x[nv.thread_id.x] = x[nv.thread_id.x] * FACTOR

        kernel()

    assert scaled(scale) == 1.0
    return scale


def test_no_guard_holds_while_what_is_read_is_looked_at_again(reading, monkeypatch):
    """Else another thread would take it for the guard of the state before."""
    wrong, real = [], Dependencies._keep

    def keep(self, state):
        if self is reading._reads._own:
            wrong.append(self.guard() and self.state != state)
        real(self, state)

    monkeypatch.setattr(Dependencies, "_keep", keep)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert scaled(reading) == 2.0
    assert wrong and not any(wrong)


def test_an_interrupt_in_a_look_at_what_is_read(reading, monkeypatch):
    def interrupt(self, state):
        raise KeyboardInterrupt

    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    with monkeypatch.context() as patch:
        patch.setattr(Dependencies, "_keep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            scaled(reading)
    assert scaled(reading) == 2.0


def test_a_global_that_changes_between_rounds_of_threads(reading, monkeypatch):
    for factor in (2.0, 3.0, 2.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert together(lambda _: scaled(reading), range(16)) == [factor] * 16
