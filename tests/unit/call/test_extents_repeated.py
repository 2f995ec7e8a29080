"""Repeated calls of a dynamic kernel on the GPU's road, with a driver that records: one compilation, many sizes."""

from __future__ import annotations

import ctypes
from typing import Annotated

import pytest

import nvdsl as nv
from nvdsl.call import signature as signatures
from nvdsl.driver import executable as executables
from nvdsl.driver.device import Devices
from nvdsl.errors import ArgumentError
from nvdsl.lower import compiler
from tests.unit.driver import libraries
from tests.unit.driver.fake_cuda import FakeCuda, Kernel


class Recorder(FakeCuda):
    """``sent``: of each launch the grid and the parameters, as integers."""

    def __init__(self):
        super().__init__(count=1)
        self.sent = []

    def function(self, module, name):
        self.kernels[module, name] = Kernel(name, ())
        return module, name

    def launch(self, config, function, parameters):
        pointers = (ctypes.c_uint64 * COUNT).from_address(parameters)
        self.sent.append((config.grid, [ctypes.c_uint64.from_address(p).value for p in pointers]))


COUNT = 6  # parameters of the kernel: two pointers, two extents, two strides


@pytest.fixture
def cuda(monkeypatch):
    cuda = Recorder()
    monkeypatch.setitem(executables.build.__kwdefaults__, "devices", Devices(cuda))
    monkeypatch.setattr(signatures, "_looks", {})
    return cuda


@pytest.fixture
def lowered(monkeypatch):
    """How often something was lowered."""
    count, lower = [], compiler.lower
    monkeypatch.setattr(compiler, "lower", lambda *args: count.append(args) or lower(*args))
    return count


@pytest.fixture
def tensor(monkeypatch):
    torch = libraries.install_torch(monkeypatch)
    return lambda address, *shape, row=0: torch.Tensor("float32", shape, (row or shape[1], 1), address=address)


def made():
    @nv.jit
    def copy(x: Annotated[nv.Array, "m", "k % 4"], y: Annotated[nv.Array, "m", "k % 4"]):
        @nv.kernel(grid=x.shape[0], block=32)
        def kernel():
            for i in nv.range(nv.thread_id.x, x.shape[1], 32):
                y[nv.block_id.x, i] = x[nv.block_id.x, i]

        kernel()

    return copy


def test_new_sizes_are_launched_by_what_was_compiled(cuda, tensor, lowered):
    copy = made()
    sizes = [(3, 8), (5, 4), (7, 12), (3, 8), (5, 4), (3, 8)]
    for m, k in sizes:
        copy(tensor(0x10000, m, k), tensor(0x20000, m, k), target="gpu")
    assert len(lowered) == 1
    assert [grid[0] for grid, _ in cuda.sent] == [m for m, _ in sizes]
    for (_, k), (_, sent) in zip(sizes, cuda.sent, strict=True):
        assert sent.count(0x10000) == sent.count(0x20000) == 1
        assert sent.count(k) == 3, "the extent and both strides"
    assert len(copy._launches) == 3, "one for each of the sizes"


def test_a_padded_array_has_the_same_kernel_and_a_launch_of_its_own(cuda, tensor, lowered):
    copy = made()
    for _ in range(3):
        copy(tensor(0x10000, 3, 8), tensor(0x20000, 3, 8), target="gpu")
        copy(tensor(0x10000, 3, 8, row=16), tensor(0x20000, 3, 8), target="gpu")
    assert len(lowered) == 1 and len(copy._launches) == 2
    assert [sent.count(16) for _, sent in cuda.sent] == [0, 1] * 3


def test_rows_that_are_not_aligned_are_another_kernel(cuda, tensor, lowered):
    copy = made()
    for row in (8, 9, 10, 12, 11, 13):
        copy(tensor(0x10000, 3, 8, row=row), tensor(0x20000, 3, 8), target="gpu")
    assert len(lowered) == 3, "multiples of 4, of 2, and others"


def test_a_broken_promise_is_told_each_time(cuda, tensor, lowered):
    copy = made()
    copy(tensor(0x10000, 3, 8), tensor(0x20000, 3, 8), target="gpu")
    for _ in range(3):
        with pytest.raises(ArgumentError, match="k is 6 in x"):
            copy(tensor(0x10000, 3, 6), tensor(0x20000, 3, 6), target="gpu")
        with pytest.raises(ArgumentError, match="m is 3 in x, .* and 4 in y"):
            copy(tensor(0x10000, 3, 8), tensor(0x20000, 4, 8), target="gpu")
    assert len(lowered) == 1 and len(cuda.sent) == 1


def test_extents_of_0_launch_nothing(cuda, tensor, lowered):
    copy = made()
    for _ in range(3):
        copy(tensor(0x10000, 0, 8), tensor(0x20000, 0, 8), target="gpu")
    assert not cuda.sent


def test_the_text_that_a_kernel_is_found_by_on_disk_has_no_sizes():
    copy = made()
    modules = [copy.trace(*[nv.ShapeDtype(shape, nv.f32)] * 2) for shape in ((3, 8), (100, 4096), ("m", "k"))]
    assert len({str(module) for module in modules}) == 1
