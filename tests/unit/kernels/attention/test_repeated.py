"""Repeated calls of ``nv.attention`` on the GPU's road, with a driver that records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.driver.executable import Executable
from nvdsl.errors import ArgumentError
from nvdsl.kernels.attention import attention as module
from tests.unit.driver import libraries

SHAPE = (1, 64, 2, 64)
Q, K, V, OUT = (0x100000 * (i + 1) for i in range(4))


@pytest.fixture(autouse=True)
def afresh(gpu, torch, monkeypatch):
    module._CALLS._launches.clear()
    made = itertools.count(0x9000000, 0x10000)
    torch.empty = lambda shape, dtype, device: of(torch, next(made), shape, dtype)
    torch.float32 = "float32"


def of(torch, address, shape=SHAPE, dtype="float16"):
    return torch.Tensor(dtype, shape, packed_strides(tuple(shape)), 0, address)


def call(torch, out=None, first=0, **options):
    return nv.attention(*(of(torch, address + first) for address in (Q, K, V)), out, target="gpu", **options)


def test_a_call_that_comes_again_takes_the_short_way(gpu, torch, monkeypatch):
    """With a result of the caller's or a new one, with logarithms, whatever says that they are wanted."""
    for turn in range(4):
        if turn == 2:
            monkeypatch.setattr(module, "_Call", libraries.raising(AssertionError("the long way")))
        into = of(torch, OUT)
        for options in ({}, {"return_lse": 1}):
            for out in (None, into):
                found = call(torch, out, 0x1000 * turn, **options)
                result, *lse = found if "return_lse" in options else (found,)
                assert out is None or result is out
                assert all(x.shape == (1, 2, 64) and str(x.dtype) == "torch.float32" for x in lse)
                launched = set(gpu.launches[-1].given)
                assert {x.data_ptr() for x in (result, *lse)} | {x + 0x1000 * turn for x in (Q, K, V)} <= launched
        if turn:
            with pytest.raises(ArgumentError, match="out and k overlap"):
                call(torch, of(torch, K + 128))


@pytest.mark.parametrize("causal", [{}, {"causal": False}, {"causal": True}])
def test_arrays_alone_are_found_first(gpu, torch, monkeypatch, causal):
    """Without a target, which no one gives: the very launch of the long way, and its errors."""
    monkeypatch.setenv("NVDSL_TARGET", "gpu")
    for turn in range(4):
        if turn == 2:
            monkeypatch.setattr(module, "_Call", libraries.raising(AssertionError("the long way")))
        for out in (None, of(torch, OUT)):
            q, k, v = (of(torch, address + 0x1000 * turn) for address in (Q, K, V))
            result = nv.attention(q, k, v, out, **causal)
            assert out is None or result is out
            launched = set(gpu.launches[-1].given)
            assert {x.data_ptr() for x in (result, q, k, v)} <= launched
        if turn:
            with pytest.raises(ArgumentError, match="out and k overlap"):
                nv.attention(q, k, v, of(torch, k.data_ptr() + 128), **causal)


def test_the_last_launch_is_no_other_calls(gpu, torch):
    """Calls in turn, which differ in one thing: the shape, the mask, the library's type."""
    kinds = [{}, {"causal": True}, {"shape": (1, 64, 4, 64)}, {"dtype": "bfloat16"}]
    parameters = []
    for _ in range(3):
        for kind in kinds:
            options = {k: v for k, v in kind.items() if k == "causal"}
            given = {k: v for k, v in kind.items() if k != "causal"}
            nv.attention(*(of(torch, x, **given) for x in (Q, K, V, OUT)), target="gpu", **options)
            parameters.append(vars(gpu.launches[-1]).copy())
    assert parameters[:4] == parameters[4:8] == parameters[8:]
    assert all(one not in parameters[:i] for i, one in enumerate(parameters[:4]))


@pytest.mark.parametrize("scale", [np.array([0.5, 0.5]), np.array(0.5), [0.5]])
def test_an_option_that_is_an_array_is_refused_each_time(gpu, torch, scale):
    """It is not compared with that of the call before, which would be element by element."""
    for _ in range(3):
        call(torch, of(torch, OUT), scale=0.5)
        with pytest.raises(ArgumentError, match="scale"):
            call(torch, of(torch, OUT), scale=scale)


def test_parts_are_launched_as_they_were(gpu, torch, monkeypatch):
    """With the memory of the stream: how much of it is known of the shapes. Else each call would take its own."""
    for turn in range(4):
        if turn == 3:
            monkeypatch.setattr(Executable, "execute", libraries.raising(AssertionError("not recorded")))
        call(torch, of(torch, OUT), splits=3)
    first, second = gpu.launches[-2:]
    assert len(gpu.launches) == 8 and first.given != second.given


@pytest.mark.exhaustive
def test_options_are_told_apart(gpu, torch):
    table, used = of(torch, 0x7000000, (1, 1), "int32"), of(torch, 0x8000000, (1,), "int32")
    every = [{}, {"scale": 0.5}, {"softcap": 2.0}, {"window": (3, None)}, {"splits": 2}, {"seqused_k": used},
             {"seqused_k": used, "page_table": table}]  # fmt: skip
    for _ in range(3):
        for options in every:
            call(torch, of(torch, OUT), **options)
    assert len(module._CALLS._launches) == len(every)


def test_operands_without_a_function_are_refused_each_time(gpu, torch):
    for _ in range(3):
        call(torch)
        with pytest.raises(ArgumentError, match="operands without score"):
            call(torch, operands=[of(torch, 0x7000000)])
