"""The GPU's bench on a driver without a GPU, whose launches compute in Python."""

import ctypes

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.device import Devices
from nvdsl.lower import compiler, stored
from nvdsl.tune import bench as benches
from nvdsl.tune import data
from nvdsl.tune.bench import GpuBench, Setup
from tests.unit.driver.fake_cuda import FakeCuda, Kernel

N = 64
PARAMETERS = (8, 8, 4)  # bytes of y, x, alpha: in the order in which the kernel uses them


@nv.jit
def scale(x, y, alpha, *, block=32):
    @nv.kernel(grid=x.shape[0] // block, block=block)
    def kernel():
        i = nv.block_id.x * block + nv.thread_id.x
        y[i] += alpha * x[i]

    kernel()


class Timed(FakeCuda):
    """Events are read off a clock that each launch moves by its number of threads."""

    clock = 0.0

    def event(self):
        return {}

    def record(self, event, stream):
        self._record("record")
        event["at"] = self.clock

    def elapsed(self, start, end):
        return end["at"] - start["at"]


def floats(address, count):
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def run(launched, cuda):
    """What the kernel would do; blocks of 16 threads forget the last element."""
    cuda.clock += launched.config.block[0]
    *addresses, number = launched.parameters
    y, x = (floats(int.from_bytes(address, "little"), N) for address in addresses)
    end = N - (launched.config.block[0] == 16)
    alpha = np.frombuffer(number, np.float32)[0]
    y[:end] += alpha * x[:end]


@pytest.fixture(scope="module")
def packed():
    x = nv.ShapeDtype((N,), nv.f32)
    blocks = (32, 16, 64)
    return [stored.pack(compiler.lower(scale.trace(x, x, 2.0, block=n)), [], "candidate") for n in blocks]


def make(packed, monkeypatch, **more):
    monkeypatch.setattr(benches, "FLUSH_BYTES", 4096)
    x = nv.ShapeDtype((N,), nv.f32)
    call = scale.describe((x, x, 2.0), {})
    specs = dict(zip("x y alpha".split(), call.specs, strict=True))
    cuda = Timed(run=run, kernels={"kernel": Kernel("kernel", PARAMETERS)})
    setup = Setup("scale", specs, {"alpha": 2.0}, {}, more.pop("expected", None), frozenset([1]), **more)
    bench = GpuBench(setup, Devices(cuda))
    bench.doing = lambda number: None
    for number, kernels in enumerate(packed):
        bench.add(number, kernels)
    return bench, cuda, specs


def test_results_are_grouped_and_arrays_fresh_each_time(packed, monkeypatch):
    bench, cuda, specs = make(packed, monkeypatch)
    assert [bench.check(n) for n in (0, 1, 2, 1, 0)] == [0, 1, 0, 1, 0]  # y is restored before each
    arrays = data.host_arrays({n: specs[n] for n in "xy"}, {}, 0)
    got = bench._result("y")
    assert np.allclose(got, arrays["y"] + 2 * arrays["x"])  # the same data as a reference gets


def test_a_reference_is_group_0(packed, monkeypatch):
    _, _, specs = make(packed, monkeypatch)
    arrays = data.host_arrays({n: specs[n] for n in "xy"}, {}, 0)
    bench, *_ = make(packed, monkeypatch, expected={"y": arrays["y"] + 2 * arrays["x"]})
    assert [bench.check(n) for n in (1, 0, 2)] == [1, 0, 0]


def test_each_is_timed_once_a_round_after_a_flush(packed, monkeypatch):
    bench, cuda, _ = make(packed, monkeypatch)
    told = []
    bench.doing = told.append
    cuda.calls.clear()
    assert bench.time([0, 2], 3) == {0: [32.0] * 3, 2: [64.0] * 3}
    assert told == [0, 2, 2, 0, 0, 2]  # there and back
    names = [n for n in cuda.names() if n in ("copy", "fill", "record", "launch")]
    assert names == ["copy", "fill", "record", "launch", "record"] * 6


def test_large_arrays_are_filled_by_doubling(packed, monkeypatch):
    monkeypatch.setattr(data, "PERIOD", 7)
    bench, _, specs = make(packed, monkeypatch)
    whole = floats(bench._memory["x"], N)
    assert (whole == np.resize(data.pattern(specs["x"], 0), N)).all()
    assert (whole[:7] == whole[7:14]).all()
