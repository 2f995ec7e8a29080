"""Ctrl-C at any time, in a trace, a compilation or a simulation, leaves everything usable."""

import gc
import random
import signal
import threading
import time

import pytest

from tests.exhaustive import exhaustive
from tests.sim import threads

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def _interrupted(call, after):
    """Whether the call was interrupted, so many seconds from its start."""

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


def _in_another_thread(call):
    """A lock that an interrupted call left would be this thread's own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(20)
    return found[0] if found else "hangs"


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
        interrupted += _interrupted(lambda: call(work, i), draw.uniform(0.0, 0.8 * took))  # noqa: B023
        wrong = _in_another_thread(lambda: work.one(i)) or work.one(i)  # noqa: B023
        if wrong:
            return wrong, interrupted
    lines = "its lines have changed"
    return None if _in_another_thread(lambda: threads.ptx(0)) == threads.ptx(0) == expected else lines, interrupted


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
    assert wrong is None
    assert interrupted
