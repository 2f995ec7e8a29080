"""A GPU's road without a GPU: a driver that records what is launched; torch, CuPy and JAX on it, stand-ins."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import itertools
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from nvdsl import sim
from nvdsl.call import signature as signatures
from nvdsl.call.launches import Launches
from nvdsl.driver import device
from nvdsl.driver.array_spec import packed_strides
from nvdsl.driver.device import devices
from nvdsl.driver.launch import Launch
from nvdsl.kernels.gemm import choose, simple
from nvdsl.kernels.gemm.launch import _multiprocessors
from nvdsl.kernels.gemm.tuned import tuned_matmul
from nvdsl.mlir.threads import Once
from tests.unit.driver import libraries
from tests.unit.driver.fake_cuda import FakeCuda, _Encoded

module = importlib.import_module("nvdsl.kernels.gemm.matmul")


class Recorder(FakeCuda):
    """Two devices; a tensor map's last 8 bytes are its address."""

    def multiprocessors(self, ordinal):
        return 132

    def encode(self, tensor_map, address):
        return self.moved(None, tensor_map, address)

    def moved(self, encoded, tensor_map, address):
        self.maps.append((tensor_map, address))
        memory = ctypes.create_string_buffer(bytes(120) + struct.pack("<Q", address), 128)
        return _Encoded(memory, ctypes.addressof(memory))


@pytest.fixture(autouse=True)
def nothing_chosen():
    """As if no product had been computed before, see `choose`."""
    for store in (choose._used, choose._menus, choose._mixed):
        store.clear()
    choose.choose.cache_clear()


@pytest.fixture
def gpu(monkeypatch):
    """``launches``: the kernel's entry (an object of its own for each compilation), the stream, and every address and
    number that it got; ``allocations``: what calls took and have not freed."""
    cuda = Recorder(count=2)
    for name, value in (("_cuda", cuda), ("_devices", {}), ("_default", None)):
        monkeypatch.setattr(devices, name, value)
    for owner, name in ((sim, "_default"), (device, "simulated")):  # this driver's answer ends with it
        monkeypatch.setattr(owner, name, functools.cache(getattr(owner, name).__wrapped__))
    for store in (module._bound, module._launches):
        store.clear()
    for function in (tuned_matmul, simple.matmul):
        monkeypatch.setattr(function, "_compiled", Once())
        monkeypatch.setattr(function, "_launches", Launches())
    tuned_matmul._chosen.clear()
    monkeypatch.setattr(signatures, "_looks", {})
    _multiprocessors.cache_clear()
    launches = []

    def launch(self, run, record):
        words, maps = record.words, {i for i, _ in self._maps}
        given = [
            struct.unpack("<Q", ctypes.string_at(words[i] + 120, 8))[0] if i in maps else words[self._count + i]
            for i in range(self._count)
        ]
        launches.append(SimpleNamespace(kernel=self.kernel, stream=run.stream, given=given, shape=record.shape))

    def recorded(self, frame):
        found = record(self, frame)
        if found is not None:
            found.again = functools.partial(launch, self, frame[0], found._record)
        return found

    record = Launch.recorded
    monkeypatch.setattr(Launch, "launch", launch)
    monkeypatch.setattr(Launch, "recorded", recorded)
    cuda.launches = launches
    yield cuda
    _multiprocessors.cache_clear()
    module._launches.clear()


@pytest.fixture
def torch(monkeypatch):
    made = itertools.count(0x900000, 0x10000)
    streams = [0x51, 0x52]
    torch = libraries.install_torch(monkeypatch, streams=streams)
    torch.streams = streams
    torch.float16 = "float16"
    torch.empty = lambda shape, dtype, device: tensor(torch, next(made), shape, dtype=dtype)
    return torch


@pytest.fixture
def cupy(monkeypatch):
    """``on``: the devices that were made current, the last one last; new arrays lie there."""
    cupy, addresses = libraries.install_cupy(monkeypatch), itertools.count(0x900000, 0x10000)
    cupy.on = [0]

    @contextlib.contextmanager
    def device(ordinal):
        cupy.on.append(ordinal)
        yield
        cupy.on.pop()

    def empty(shape, dtype):
        strides = np.empty(shape, dtype).strides
        return cupy.ndarray(dtype, shape, strides, device=cupy.on[-1], address=next(addresses))

    cupy.cuda.Device, cupy.empty = device, empty
    return cupy


@pytest.fixture
def jax(monkeypatch):
    """Arrays on the CPU lie in NumPy arrays; those of a GPU at addresses."""
    jax, addresses = libraries.install_jax(monkeypatch), itertools.count(0x900000, 0x10000)

    def device_put(host, device):
        made = jax.Array(host.dtype.name, host.shape, next(addresses), platform=device.platform, host=host)
        made._devices = {device}
        return made

    jax.device_put = device_put
    return jax


def tensor(torch, address, shape=(64, 64), strides=None, device=0, dtype="float16"):
    return torch.Tensor(dtype, shape, strides or packed_strides(tuple(shape)), device, address)
