"""A child process after `os.fork` traces, compiles and simulates, whatever its parent did before and is doing."""

import multiprocessing
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver import cuda
from nvdsl.errors import DeviceError
from nvdsl.mlir.threads import Once, lock, mlir
from nvdsl.sim import matrix
from tests.sim import threads

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_children_trace_compile_and_simulate():
    work = threads.Work(large=False)
    assert not [message for message in map(work.one, range(5)) if message]
    for i in range(4):
        assert threads.forked(lambda i=i: work.one(i) or threads.Work(large=False).one(i)) is None
        assert threads.forked(lambda: threads.ptx(0)) == threads.ptx(0)


def test_a_pool_of_forked_processes():
    x = np.zeros(32, np.float32)
    threads.increment(x, target="sim")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_incremented, range(4)).get(30) == [1.0, 2.0, 3.0, 4.0]


def _incremented(i):
    x = np.full(32, float(i), np.float32)
    threads.increment(x, target="sim")
    return float(x[0])


def test_what_another_thread_holds_does_not_stop_a_child():
    """A thread traces, for as long as it is told to, while another one forks."""
    tracing, go_on = threading.Event(), threading.Event()

    @nv.jit
    def slow(x):
        tracing.set()
        go_on.wait(20)

        @nv.kernel(grid=1, block=32)
        def kernel():
            x[nv.thread_id.x] = 3.0

        kernel()

    def call(function):
        x = np.zeros(32, np.float32)
        function(x, target="sim")
        return float(x[0])

    thread = threading.Thread(target=call, args=(slow,))
    thread.start()
    tracing.wait()
    try:
        assert threads.forked(lambda: call(threads.increment)) == 1.0
        assert threads.forked(lambda: go_on.set() or call(slow)) == 3.0  # the very one that the thread is tracing
        lowered_meanwhile = threads.forked(lambda: threads.ptx(0))
    finally:
        go_on.set()
        thread.join()
    assert lowered_meanwhile == threads.ptx(0)  # with the same lines


def test_a_lock_of_the_forking_thread_stays_its_own():
    mine = lock()
    with mine, mlir:
        assert threads.forked(lambda: mine._is_owned() and mlir._is_owned())
    assert not mine._is_owned()


def test_one_makes_and_others_wait():
    once, made = Once(), []

    def make():
        time.sleep(0.02)
        made.append(threading.get_ident())
        return len(made)

    workers = [threading.Thread(target=once.make, args=("key", make)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(made) == 1 and once.get("key") == 1 and len(once) == 1
    assert once.make("other", make) == 2


def test_what_is_forgotten_while_it_is_made_is_not_kept():
    once = Once()

    def make():
        once.clear()
        return 1

    assert once.make("key", make) == 1 and once.get("key") is None


def test_the_driver_of_the_parent_is_refused_by_name(monkeypatch):
    real = SimpleNamespace(cuCtxGetCurrent=lambda: (0, 1))
    driver = object.__new__(cuda.Cuda)
    driver._api = real
    monkeypatch.setattr(cuda, "_the_cuda", driver)

    def ask():
        try:
            driver.is_current(1)
        except DeviceError as error:
            return str(error)
        return "no error"

    said = threads.forked(ask)
    assert "forked from one that had used CUDA" in said and "spawn" in said and 'target="sim"' in said
    assert driver.is_current(1)


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_a_fork_waits_for_the_products_of_other_threads(dtype):
    """OpenBLAS has a lock, which a child would find held for ever."""
    kind = np.float32 if dtype == "f32" else np.int8
    a, b = np.ones((64, 4096), kind), np.ones((256, 4096), kind)
    stopped, began = threading.Event(), threading.Event()

    def multiply():
        while not stopped.is_set():
            matrix.mma(a, b, None, d_dtype=dtype)
            began.set()

    thread = threading.Thread(target=multiply)
    thread.start()
    began.wait()
    try:
        for _ in range(2):
            assert threads.forked(lambda: float(matrix.mma(a, b, None, d_dtype=dtype)[0, 0])) == 4096.0
    finally:
        stopped.set()
        thread.join()
