"""A signature: equal for arguments that one compilation and one device serve, and for no others."""

from __future__ import annotations

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.call import signature as signatures
from nvdsl.call.signature import constants, look_at, signature
from tests.unit.driver import libraries


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setattr(signatures, "_looks", {})
    return libraries.install_torch(monkeypatch)


def what(*arguments):
    return signature(arguments)[0]


def test_it_says_where_arrays_lie_and_numbers_as_they_are(torch):
    x = torch.Tensor("float16", (2, 3), (3, 1), address=0x7000)
    assert signature((x, 3, 2.5, None))[1] == (0x7000, 3, 2.5, 0)
    assert signature(())[1] == ()


def test_what_a_compilation_depends_on_tells_arrays_apart(torch):
    given = {
        "this": ("float16", (2, 3), (3, 1), 0), "dtype": ("bfloat16", (2, 3), (3, 1), 0),
        "shape": ("float16", (3, 2), (3, 1), 0), "strides": ("float16", (2, 3), (1, 2), 0),
        "device": ("float16", (2, 3), (3, 1), 1),
    }  # fmt: skip
    seen = {name: what(torch.Tensor(*x)) for name, x in given.items()}
    assert len(set(seen.values())) == len(given)
    assert what(torch.Tensor(*given["this"], address=0x7770)) == seen["this"]


def test_each_address_is_told_apart_by_what_it_lacks_of_16_bytes(torch):
    def at(*addresses):
        return what(*(torch.Tensor("float16", (2, 3), (3, 1), address=a) for a in addresses))

    assert at(0x7000, 0x8010) == at(0x9000, 0x7000)
    lacking = [(0, 0), (2, 0), (0, 2), (2, 2), (8, 0)]
    assert len({at(0x7000 + a, 0x8000 + b) for a, b in lacking}) == len(lacking)
    assert at(0x7002, 0x8000) == at(0x7012, 0x9000)


def test_libraries_are_told_apart(torch, monkeypatch):
    cupy = libraries.install_cupy(monkeypatch)
    x = cupy.ndarray("float16", (2, 3), (6, 2), address=0x7000)
    assert signature((x,))[1] == (0x7000,)
    assert what(x) != what(torch.Tensor("float16", (2, 3), (6, 2)))
    assert what(x) != what(cupy.ndarray("float16", (2, 3), (6, 2), device=1))


def test_numbers_are_told_apart_by_type_alone():
    assert what(1) == what(-7) and what(1.0) == what(2.0)
    assert len({what(x) for x in (1, 1 << 31, 1.0, True, None)}) == 5
    assert what(2**31 - 1) == what(-(2**31)) != what(-(2**31) - 1) == what(2**63 - 1)


def test_what_takes_a_longer_look(torch):
    unplain = torch.Tensor("float16", (2, 3), (3, 1))
    unplain.data_ptr = libraries.raising(RuntimeError("no storage"))
    for argument in (np.zeros(3), np.float32(1), "a constant", nv.f16, unplain, 2**63):
        assert signature((1, argument)) is None
    assert what(1, torch.Tensor("float16", (2, 3), (3, 1)))


def test_a_look_is_for_its_classes_alone(torch):
    x = torch.Tensor("float16", (2, 3), (3, 1))
    look = look_at((x, 1))
    assert look((x, 2)) == signature((x, 2))
    for others in ((x, True), (x, 1.0), (1, x), (x,), (x, 1, 1), (x, None), (type("Sub", (torch.Tensor,), {}), 1)):
        assert look(others) is None


def test_looks_are_bounded(monkeypatch):
    monkeypatch.setattr(signatures, "_looks", {})
    monkeypatch.setattr(signatures, "_MOST", 3)
    one, many = what(1), [(1,) * n for n in range(2, 6)]
    for arguments in many:
        signature(arguments)
        assert len(signatures._looks) <= 3
    assert what(1) != one and what(1) == what(2)  # a look that is written again has signatures of its own


def test_constants_are_told_apart_as_a_trace_does():
    values = (1, 1.0, True, 0.0, -0.0, "1", None, (1, 2), (1.0, 2), (True, 2), nv.f32, nv.i32)
    seen = [constants({"x": value}) for value in values]
    assert len(set(seen)) == len(values)
    assert seen == [constants({"x": value}) for value in values]
    assert constants({"x": 1, "y": 2}) != constants({"x": 1, "z": 2})
    assert constants({"x": [1]}) is None
