"""Repeated calls of recurrent layers on the GPU's road, with a driver that records."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.kernels.recurrent import calls, cell_calls, gradients
from tests.unit.driver import libraries

STEPS, BATCH, INPUTS, HIDDEN = 3, 70, 16, 24


@pytest.fixture(autouse=True)
def afresh(gpu, torch, monkeypatch):
    for module in (calls, cell_calls, gradients):
        monkeypatch.setattr(module, "_calls", module.Calls())
    made = itertools.count(0x9000000, 0x100000)
    torch.float32, torch.float16 = "float32", "float16"
    torch.empty = lambda shape, dtype, device: _of(torch, next(made), *shape, dtype=dtype)


@pytest.fixture
def cupy(monkeypatch):
    """CuPy whose arrays say in ``taken`` on which stream their memory was taken."""
    cupy, made = libraries.install_cupy(monkeypatch), itertools.count(0x9000000, 0x100000)
    cupy.current, cupy.taken, usual = 0x61, [], 0x61

    @contextlib.contextmanager
    def stream(handle, device):
        cupy.current = handle
        yield
        cupy.current = usual

    def empty(shape, dtype):
        cupy.taken.append(cupy.current)
        return array(dtype, shape, packed_strides(tuple(shape)), 0, next(made))

    def array(dtype, shape, strides, device, address):
        return cupy.ndarray(dtype, shape, [n * np.dtype(dtype).itemsize for n in strides], device, address)

    cupy.cuda.ExternalStream, cupy.cuda.Device = stream, lambda device: contextlib.nullcontext()
    cupy.Tensor, cupy.empty = array, empty
    return cupy


def _of(torch, address, *shape, dtype="float16"):
    return torch.Tensor(dtype, shape, packed_strides(tuple(shape)), 0, address)


def _lstm(torch, at):
    """x, weights and states from address ``at`` on."""
    rows = 4 * HIDDEN
    shapes = [(STEPS, BATCH, INPUTS), (rows, INPUTS), (rows, HIDDEN), (rows,), (rows,), *[(1, BATCH, HIDDEN)] * 2]
    x, *weights, h, c = (_of(torch, at + 0x10000 * i, *shape) for i, shape in enumerate(shapes))
    return x, weights, (h, c)


def _given(gpu, before):
    return {value for launch in gpu.launches[before:] for value in launch.given}


def test_a_sequence_and_its_gradient_launch_again(gpu, torch, monkeypatch):
    counts = set()
    for turn in range(4):
        if turn == 2:
            for module in (calls, gradients):
                monkeypatch.setattr(module, "Layers", libraries.raising(AssertionError("the long way")))
        x, weights, state = _lstm(torch, 0x100000 * (1 + turn % 3))
        before = len(gpu.launches)
        y, ends, saved = nv.lstm(x, weights, state, save=True, target="gpu")
        found = _given(gpu, before)
        assert {a.data_ptr() for a in (x, *weights, *state, y, *ends, *saved)} <= found
        assert y.shape == (STEPS, BATCH, HIDDEN) and [s.shape for s in ends] == [(1, BATCH, HIDDEN)] * 2
        middle = len(gpu.launches)
        dx, dweights, dstate = nv.lstm_backward(y, None, x, weights, state, saved, target="gpu")
        found = _given(gpu, middle)
        assert {a.data_ptr() for a in (y, x, *weights[:2], *saved[:3], dx, *dweights, *dstate)} <= found
        assert [d.shape for d in dweights] == [w.shape for w in weights]
        counts.add((middle - before, len(gpu.launches) - middle))
    assert len(counts) == 1


def test_layers_and_directions_launch_again(gpu, torch, monkeypatch):
    rows = 3 * HIDDEN
    for turn in range(3):
        if turn == 2:
            monkeypatch.setattr(calls, "Layers", libraries.raising(AssertionError("the long way")))
        x = _of(torch, 0x10000, STEPS, BATCH, INPUTS)
        shapes = [(rows, width) for k in range(4) for width in (INPUTS if k < 2 else 2 * HIDDEN, HIDDEN)]
        weights = [_of(torch, 0x20000 + 0x10000 * i, *shape) for i, shape in enumerate(shapes)]
        before = len(gpu.launches)
        y, end = nv.gru(x, weights, bidirectional=True, target="gpu")
        found = _given(gpu, before)
        assert y.shape == (STEPS, BATCH, 2 * HIDDEN) and end.shape == (4, BATCH, HIDDEN)
        of_direction = {end.data_ptr() + 2 * BATCH * HIDDEN * i for i in range(4)}  # f16
        assert {y.data_ptr(), y.data_ptr() + 2 * HIDDEN, *of_direction} <= found


def test_memory_of_cupy_belongs_to_the_stream_that_is_given(gpu, cupy):
    for stream in (0x77, 0x77, 0x78, None, None):
        x, weights, state = _lstm(cupy, 0x100000)
        before, launched, expected = len(cupy.taken), len(gpu.launches), {stream or cupy.current}
        nv.lstm(x, weights, state, save=True, stream=stream, target="gpu")
        assert set(cupy.taken[before:]) == expected
        assert {launch.stream for launch in gpu.launches[launched:]} == expected


def test_a_cell_launches_again(gpu, torch, monkeypatch):
    for turn in range(4):
        if turn == 2:
            monkeypatch.setattr(cell_calls, "Run", libraries.raising(AssertionError("the long way")))
        x, weights, (h, c) = _lstm(torch, 0x100000 * (1 + turn % 3))
        step, h, c = (_of(torch, a.data_ptr(), *a.shape[1:]) for a in (x, h, c))
        before = len(gpu.launches)
        new = nv.lstm_cell(step, (h, c), *weights, target="gpu")
        assert len(gpu.launches) == before + 1
        assert {a.data_ptr() for a in (step, h, c, *weights, *new)} <= _given(gpu, before)
        nv.lstm_cell(step, None, weights[0], weights[1], target="gpu")
        assert h.data_ptr() not in gpu.launches[-1].given
