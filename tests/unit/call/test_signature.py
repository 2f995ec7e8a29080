"""A glance: equal for arguments that one compilation and one device serve, and for no others."""

from __future__ import annotations

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call import signature as signatures
from nvdsl.call.signature import constants, glance, keep, learn
from tests.unit.driver import libraries


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setattr(signatures, "_looks", dict(signatures._looks))
    torch = libraries.install_torch(monkeypatch)
    learn([torch.Tensor("float16", (2, 3), (3, 1))])
    return torch


def what(*arguments):
    return glance(arguments)[0]


def test_a_glance_says_where_arrays_lie_and_numbers_as_they_are(torch):
    x = torch.Tensor("float16", (2, 3), (3, 1), address=0x7000)
    assert glance((x, 3, 2.5, None))[1] == [0x7000, 3, 2.5, 0]


def test_what_a_compilation_depends_on_tells_arrays_apart(torch):
    given = {
        "this": ("float16", (2, 3), (3, 1), 0), "dtype": ("bfloat16", (2, 3), (3, 1), 0),
        "shape": ("float16", (3, 2), (3, 1), 0), "strides": ("float16", (2, 3), (1, 2), 0),
        "device": ("float16", (2, 3), (3, 1), 1),
    }  # fmt: skip
    seen = {name: what(torch.Tensor(*x)) for name, x in given.items()}
    assert len(set(seen.values())) == len(given)
    assert what(torch.Tensor(*given["this"], address=0x7777)) == seen["this"]


def test_libraries_are_told_apart(torch, monkeypatch):
    cupy = libraries.install_cupy(monkeypatch)
    x = cupy.ndarray("float16", (2, 3), (6, 2), address=0x7000)
    learn([x])
    assert glance((x,))[1] == [0x7000]
    assert what(x) != what(torch.Tensor("float16", (2, 3), (6, 2)))
    assert what(x) != what(cupy.ndarray("float16", (2, 3), (6, 2), device=1))


def test_numbers_are_told_apart_by_type_alone():
    assert what(1) == what(-7) and what(1.0) == what(2.0)
    assert len({what(x) for x in (1, 1 << 31, 1.0, True, None)}) == 5


def test_what_takes_a_longer_look(torch):
    unplain = torch.Tensor("float16", (2, 3), (3, 1))
    unplain.data_ptr = libraries.raising(RuntimeError("no storage"))
    learn([np.zeros(3)])  # has no glance: it is staged
    for argument in (np.zeros(3), np.float32(1), "a constant", nv.f16, unplain):
        assert glance((1, argument)) is None


def test_constants_are_told_apart_as_a_trace_does():
    values = (1, 1.0, True, 0.0, -0.0, "1", None, (1, 2), (1.0, 2), (True, 2), nv.f32, nv.i32)
    seen = [constants({"x": value}) for value in values]
    assert len(set(seen)) == len(values)
    assert seen == [constants({"x": value}) for value in values]
    assert constants({"x": 1, "y": 2}) != constants({"x": 1, "z": 2})
    assert constants({"x": [1]}) is None


def test_the_table_is_bounded(monkeypatch):
    monkeypatch.setattr(signatures, "_MOST", 3)
    known = {}
    for i in range(5):
        keep(known, i, object())
    assert set(known) == {3, 4}
    keep(known, 9, None)
    assert 9 not in known
