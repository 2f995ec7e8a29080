"""Repeated calls of functions over rows on the GPU's road, with a driver that records."""

from __future__ import annotations

import itertools

import pytest

import nvdsl as nv
from nvdsl.driver.array_spec import packed_strides
from nvdsl.errors import ArgumentError
from nvdsl.kernels.rows import cross_entropy, norm, softmax
from tests.unit.driver import libraries
from tests.unit.passed_rooms import rooms, way

X, Y, W, R, S = 0x10000, 0x20000, 0x30000, 0x40000, 0x50000


@pytest.fixture(autouse=True)
def afresh(gpu, torch, monkeypatch):
    for module in (softmax, norm, cross_entropy):
        for calls in (module._FORWARD, module._BACKWARD):
            calls._launches.clear()
    for each in (softmax.kernels.softmax, norm.norm_kernels.norm, cross_entropy.kernels.cross_entropy):
        monkeypatch.setattr(each, "_compiled", type(each._compiled)())
    made = itertools.count(0x900000, 0x10000)
    torch.float32 = "float32"
    torch.empty = lambda shape, dtype, device: of(torch, next(made), shape, dtype)


def of(torch, address, shape=(64, 64), dtype="float16"):
    return torch.Tensor(dtype, shape, packed_strides(tuple(shape)), 0, address)


def test_each_call_has_its_addresses_and_checks_them(gpu, torch, monkeypatch):
    call = lambda x, y: nv.softmax(of(torch, x), y if y is None else of(torch, y), target="gpu")  # noqa: E731
    for turn in range(5):
        if turn == 2:
            monkeypatch.setattr(softmax, "Rows", libraries.raising(AssertionError("the long way")))
        for x, y in ((X, Y), (Y + 64, X), (X, X)):
            call(x, y)
            assert {x, y} <= set(gpu.launches[-1].given)
        new = call(X, None)
        assert new.data_ptr() in gpu.launches[-1].given
        if turn:
            with pytest.raises(ArgumentError, match="out and x overlap"):
                call(X, X + 128)


def test_further_outputs_are_made_or_given_each_time(gpu, torch, monkeypatch):
    x, weight, residual = of(torch, X), of(torch, W, (64,)), of(torch, R)
    means = of(torch, S, (64,), "float32")
    for turn in range(4):
        if turn == 2:
            monkeypatch.setattr(norm, "Rows", libraries.raising(AssertionError("the long way")))
        out, total, mean, rstd = nv.layer_norm(
            x, weight, residual=residual, residual_out=residual, mean=means, rstd=True, target="gpu"
        )
        assert total is residual and mean is means and out.shape == (64, 64) and rstd.shape == (64,)
        given = gpu.launches[-1].given
        assert {X, W, R, S, out.data_ptr(), rstd.data_ptr()} <= set(given)
        assert nv.layer_norm(x, weight, mean=False, target="gpu").shape == (64, 64)
        assert S not in gpu.launches[-1].given
        nv.layer_norm(x, weight, out=of(torch, Y), target="gpu")
        with pytest.raises(ArgumentError, match="out and weight overlap"):
            nv.layer_norm(x, weight, out=of(torch, W - 64), target="gpu")


def test_numbers_are_checked_each_time(gpu, torch):
    x, labels = of(torch, X), of(torch, Y, (64,), "int64")
    for _ in range(4):
        nv.cross_entropy(x, labels, label_smoothing=0.1, z_loss=0.1, target="gpu")
        nv.rms_norm(x, target="gpu")
        for name, value in (("label_smoothing", 1.5), ("label_smoothing", float("nan")), ("z_loss", float("inf"))):
            with pytest.raises(ArgumentError, match=f"{name}={value}"):
                nv.cross_entropy(x, labels, **{"label_smoothing": 0.1, "z_loss": 0.1, name: value}, target="gpu")
        for eps in (-1.0, float("nan"), 1e300):
            with pytest.raises(ArgumentError, match="eps is a finite number of f32, 0 or more"):
                nv.rms_norm(x, eps=eps, target="gpu")


def test_options_are_told_apart(gpu, torch):
    x, labels, kinds = of(torch, X), of(torch, Y, (64,), "int64"), []
    for _ in range(3):
        for options in ({}, {"label_smoothing": 0.5}, {"reduction": "sum"}, {"ignore_index": 3}, {"z_loss": 1}):
            assert nv.cross_entropy(x, labels, target="gpu", **options).shape == ()
            kinds.append((gpu.launches[-2].kernel, options))
    assert len({id(kernel) for kernel, _ in kinds}) == 3  # smoothed or not, mean or sum


def test_a_repeated_call_is_short(gpu, torch):
    x, y = of(torch, X), of(torch, Y)
    for call in (lambda: nv.softmax(x, y, target="gpu"), lambda: nv.rms_norm(x, out=y, target="gpu")):
        for _ in range(3):
            call()
        passed = way(call)
        assert rooms(passed)[-3:] == ["kernels", "call", "driver"], passed
        assert len(passed) <= 7, passed
