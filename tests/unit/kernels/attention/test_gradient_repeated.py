"""Repeated calls of ``nv.attention_backward`` on the GPU's road, with a driver that records."""

from __future__ import annotations

import itertools

import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention import gradient
from tests.unit.driver import libraries

SHAPE = (1, 64, 2, 64)
GIVEN = [0x100000 * (i + 1) for i in range(6)]


@pytest.fixture(autouse=True)
def afresh(gpu, torch, monkeypatch):
    gradient._CALLS._launches.clear()
    monkeypatch.setattr(gradient.gradients, "_compiled", type(gradient.gradients._compiled)())
    made = itertools.count(0x9000000, 0x10000)
    torch.empty = lambda shape, dtype, device: of(torch, next(made), shape, dtype)


def of(torch, address, shape=SHAPE, dtype="float16"):
    return torch.Tensor(dtype, shape, packed_strides(tuple(shape)), 0, address)


def call(torch, *, first=0, **options):
    torch.float32 = "float32"
    *heads, lse = (of(torch, address + first) for address in GIVEN)
    lse = of(torch, GIVEN[5] + first, (1, 2, 64), "float32")
    return nv.attention_backward(*heads, lse, target="gpu", **options)


def test_a_call_that_comes_again_takes_the_short_way(gpu, torch, monkeypatch):
    for turn in range(4):
        if turn == 2:
            monkeypatch.setattr(gradient, "Heads", libraries.raising(AssertionError("the long way")))
        found = call(torch, first=0x1000 * turn)
        launched = {address for launch in gpu.launches[-3:] for address in launch.given}
        assert {x.data_ptr() for x in found} | {address + 0x1000 * turn for address in GIVEN} <= launched
        into = of(torch, 0x7000000)
        dq, dk, dv = call(torch, dk=into)
        assert dk is into and dq is not None and len({dq.data_ptr(), dk.data_ptr(), dv.data_ptr()}) == 3
        if turn:
            with pytest.raises(ArgumentError, match="dk and q overlap"):
                call(torch, dk=of(torch, GIVEN[1] + 128))


def test_options_are_told_apart(gpu, torch):
    for _ in range(3):
        for options in ({}, {"scale": 0.5}, {"window": [None, None]}):
            call(torch, **options)
    assert len(gradient._CALLS._launches) == 2  # a list is not remembered
