"""stream=: every kind of object that stands for a stream, and the default of each library."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nvdsl.driver import arrays, stream
from nvdsl.errors import ArgumentError
from tests.unit.driver import libraries


class Index:
    def __index__(self):
        return 7


class Int:
    """A CUstream of cuda.bindings has __int__ alone."""

    def __int__(self):
        return 8


@pytest.mark.parametrize(
    ("given", "handle"),
    [
        (0, 0),
        (0x7F00, 0x7F00),
        (np.int64(9), 9),
        (Index(), 7),
        (Int(), 8),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 5)), 5),
        (SimpleNamespace(__cuda_stream__=(0, 6)), 6),
        (SimpleNamespace(cuda_stream=3), 3),
        (SimpleNamespace(ptr=4), 4),
        (None, 0),
    ],
)
def test_handles(given, handle):
    assert stream.resolve(given) == handle


@pytest.mark.parametrize("given", ["0", 1.5, True, object(), b"1"])
def test_what_is_no_stream(given):
    with pytest.raises(ArgumentError, match="a stream is an int handle"):
        stream.resolve(given)


def place_of(array):
    return arrays.describe(array)[1][1]


@pytest.mark.parametrize("raw", [True, False])
def test_torchs_current_stream_of_the_arrays_device(monkeypatch, raw):
    torch = libraries.install_torch(monkeypatch, streams=(0x10, 0x20), raw=raw)
    assert stream.resolve(None, place_of(torch.Tensor("float32", (4,), (1,), 1))) == 0x20
    assert stream.resolve(3, place_of(torch.Tensor("float32", (4,), (1,), 1))) == 3


def test_cupys_current_stream(monkeypatch):
    cupy = libraries.install_cupy(monkeypatch, streams=(0x30, 0x40))
    assert stream.resolve(None, place_of(cupy.ndarray("float32", (4,), (4,), device=0))) == 0x30


def test_jax_has_no_stream(monkeypatch):
    jax = libraries.install_jax(monkeypatch)
    assert stream.resolve(None, place_of(jax.Array("float32", (4,)))) == 0
