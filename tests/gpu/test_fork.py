"""A child process after `os.fork` of a process that used the GPU: CUDA forbids it, and the error says so."""

import numpy as np

import nvdsl as nv
from nvdsl.errors import DeviceError
from nvdsl.testing import in_child
from tests.sim import threads


@in_child(timeout=120)
def test_the_gpu_is_refused_by_name_and_the_rest_works():
    x = np.zeros(32, np.float32)
    threads.increment(x)
    threads.increment(x)
    assert (x == 2).all()

    def on_the_gpu():
        try:
            threads.increment(x)
        except DeviceError as error:
            return str(error)
        return "no error"

    said = threads.forked(on_the_gpu)
    assert "forked from one that had used CUDA" in said and "spawn" in said

    def in_the_simulator():
        y = np.zeros(32, np.float32)
        threads.increment(y, target="sim")
        return float(y[0])

    assert threads.forked(in_the_simulator) == 1.0
    assert threads.forked(lambda: threads.ptx(0)) == threads.ptx(0)
    threads.increment(x)  # the parent goes on
    assert (x == 3).all()


@in_child(timeout=120)
def test_a_child_of_a_process_that_only_traced_has_the_gpu():
    threads.increment.compile(nv.ShapeDtype((32,), nv.f32))

    def on_the_gpu():
        x = np.zeros(32, np.float32)
        threads.increment(x, target="gpu")
        return float(x[0])

    assert threads.forked(on_the_gpu, 60.0) == 1.0


@in_child(timeout=120)
def test_device_arrays_that_were_prepared_are_refused_too():
    import pytest

    torch = pytest.importorskip("torch")
    x = torch.zeros(32, device="cuda")
    for _ in range(4):  # the third one is packed
        threads.increment(x)

    def again():
        try:
            threads.increment(x)
        except (DeviceError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    assert "fork" in threads.forked(again, 60.0)
