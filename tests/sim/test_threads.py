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
from nvdsl.errors import SimError
from nvdsl.trace import rewrite
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


def test_mixed_calls():
    work = threads.Work()
    wrong = [message for message in together(work.one, range(160)) if message]
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


def test_a_jit_called_while_another_is_traced():
    """The trace holds what the other thread, which compiles the same function, waits for."""
    tracing = threading.Event()
    inner = nv.jit(threads._increment)

    @nv.jit
    def outer(x):
        tracing.set()
        time.sleep(0.1)  # until the other thread compiles `inner`
        inner(np.zeros(32, np.float32), target="sim")

        @nv.kernel(grid=1, block=32)
        def kernel():
            x[nv.thread_id.x] = 2.0

        kernel()

    x, y = np.zeros((2, 32), np.float32)
    other = threading.Thread(target=lambda: tracing.wait() and inner(y, target="sim"), daemon=True)
    first = threading.Thread(target=outer, args=(x,), kwargs={"target": "sim"}, daemon=True)
    other.start()
    first.start()
    first.join(20)
    other.join(20)
    assert (x == 2).all() and (y == 1).all()


def test_functions_are_converted_one_at_a_time():
    """What Python has for syntax trees counts their depth for all threads together, and its filters of warnings are
    the process's: each thread would put back what it found."""
    before = list(warnings.filters)
    assert all(together(lambda i: threads.ptx(i) and threads.Work(large=False).one(i) is None, range(24)))
    for _ in range(3):
        rewrite._converted.clear()
        work = threads.Work(large=False)
        assert not [message for message in together(work.one, range(48)) if message]
    assert warnings.filters == before
