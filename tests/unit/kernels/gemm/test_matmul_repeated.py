"""Repeated products on the GPU's road, with a driver that records: each call is what a first one would be."""

from __future__ import annotations

import functools
import importlib
import struct

import pytest

import nvdsl as nv
from nvdsl.call import collect
from nvdsl.errors import ArgumentError
from nvdsl.kernels import Config
from nvdsl.kernels.gemm.tuned import tuned_matmul
from tests.unit.driver import libraries
from tests.unit.kernels.conftest import tensor
from tests.unit.passed_rooms import rooms, way

SMALL = Config(64, 64, stages=2, consumers=1)
A, B, C, OUT = 0x10000, 0x20000, 0x30000, 0x40000
module = importlib.import_module("nvdsl.kernels.gemm.matmul")


def multiply(torch, a=A, b=B, out=OUT, **options):
    a, b, out = (tensor(torch, x) if isinstance(x, int) else x for x in (a, b, out))
    return nv.matmul(a, b, out, config=SMALL, target="gpu", **options)


def last(gpu):
    return set(gpu.launches[-1].given)


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def test_each_call_has_its_addresses(gpu, torch):
    for turn in range(5):
        for a, b, out in ((A, B, OUT), (A + 0x1000 * turn + 64, B, OUT), (B, A, OUT + 0x100000)):
            result = tensor(torch, out)
            assert multiply(torch, a, b, result) is result
            assert {a, b, out} <= last(gpu)
    assert len(module._launches) == 1 and len(gpu.launches) == 15


def test_memory_that_comes_again_as_another_array(gpu, torch):
    kinds = {
        "this": {}, "shape": {"a": ((128, 64), None), "out": ((128, 64), None)}, "strides": {"a": ((64, 64), (1, 64))},
        "rows apart": {"out": ((64, 64), (128, 1))},
    }  # fmt: skip
    seen = []
    for _ in range(4):
        for kind in kinds.values():
            arrays = [tensor(torch, at, *kind.get(name, ())) for name, at in (("a", A), ("b", B), ("out", OUT))]
            multiply(torch, *arrays)
            seen.append(gpu.launches[-1].kernel)
    assert len(set(map(id, seen[:4]))) == 2 and len(module._launches) == 4  # columns of A are read otherwise
    assert seen == seen[:4] * 4


def test_an_operand_that_tma_can_not_read_is_copied_each_time(gpu, torch):
    for _ in range(4):
        multiply(torch)
        aligned = gpu.launches[-1].kernel
        count = len(gpu.launches)
        multiply(torch, a=A + 2)
        assert len(gpu.launches) == count + 2 and gpu.launches[-1].kernel is aligned
        assert A + 2 in gpu.launches[-2].given and A + 2 not in last(gpu)
    assert len(gpu.allocations) == 1  # the copies' memory, kept for the stream
    gpu.capturing |= {call[2] for call in gpu.calls if call[0] == "alloc"}
    taken = gpu.names().count("alloc")
    multiply(torch, a=A + 2)  # a graph may run beside the stream: its copy lies elsewhere
    assert len(gpu.allocations) == 1 and gpu.names().count("alloc") == taken + 1


@pytest.mark.parametrize("options", [{}, {"bias": True}], ids=["plain", "bias"])
def test_a_result_that_overlaps_an_operand_is_refused_each_time(gpu, torch, options):
    if options:
        options = {"bias": tensor(torch, C, (1, 64))}
    for _ in range(4):
        multiply(torch, **options)
        for out, name in ((A, "a"), (A + 8190, "a"), (A - 8190, "a"), (B, "b"), (B + 16, "b")):
            if out % 16:
                out = tensor(torch, out)
            with pytest.raises(ArgumentError, match=f"out and {name} overlap in memory") as caught:
                multiply(torch, out=out, **options)
            assert caught.value.where.file == __file__
        multiply(torch, out=A + 8192, **options)
        assert A + 8192 in last(gpu)
    assert len(gpu.launches) == 8


def test_c_may_be_the_result_itself_and_overlap_it_in_no_other_way(gpu, torch):
    c = tensor(torch, C)
    for _ in range(4):
        multiply(torch, c=c)
        multiply(torch, out=C, c=c)
        assert C in last(gpu)
        with pytest.raises(ArgumentError, match="out and c overlap"):
            multiply(torch, out=C + 128, c=c)
    assert len(gpu.launches) == 8


def test_c_at_the_results_address_is_the_result_only_if_it_looks_like_it(gpu, torch):
    turned = tensor(torch, OUT, (64, 64), (1, 64))
    for _ in range(4):
        multiply(torch, c=tensor(torch, C, (64, 64), (1, 64)))
        with pytest.raises(ArgumentError, match="out and c overlap"):
            multiply(torch, c=turned)


def test_repeated_calls_do_not_take_the_long_way(gpu, torch, monkeypatch):
    out, bias = tensor(torch, OUT), tensor(torch, C, (1, 64))
    kinds = [{}, {"out": None}, {"c": out, "out": out, "beta": 2.0}, {"bias": bias, "activation": "relu"}, {"alpha": 2}]
    kinds += [{"a": A + 2}, {"scale_a": 2.0}, {"a": tensor(torch, A, strides=(1, 64))}]
    for _ in range(2):
        for kind in kinds:
            multiply(torch, **kind)
    monkeypatch.setattr(module, "ProductCall", libraries.raising(AssertionError("the long way")))
    for kind in kinds:
        multiply(torch, **kind)


def test_numbers_are_those_of_the_call(gpu, torch):
    c = tensor(torch, C)
    for alpha, beta in [(0.5, 2.0), (0.25, 3.0), (0.5, 2.0), (0.5, 2.0), (0.25, 2.0), (-0.0, 2.0), (0.0, 2.0)]:
        multiply(torch, c=c, alpha=alpha, beta=beta)
        assert {bits(alpha), bits(beta)} <= last(gpu)
        multiply(torch, c=c, alpha=alpha, beta=beta, scale_a=3.0)
        assert {bits(3 * alpha), bits(beta)} <= last(gpu)
    with_c = gpu.launches[-1].kernel
    for _ in range(4):
        multiply(torch, c=c, alpha=0.5, beta=0.0)  # c is not read
        assert C not in last(gpu) and gpu.launches[-1].kernel is not with_c
        with pytest.raises(ArgumentError, match=r"beta = 2\.0 without c"):
            multiply(torch, alpha=0.5, beta=2.0)


def test_numbers_of_doubles_are_doubles(gpu, torch):
    given = [tensor(torch, at, dtype="float64") for at in (A, B, OUT)]
    for alpha, beta in [(0.1, 1 / 3), (1e-300, 1e300), (0.1, 1 / 3), (0.7, 2.0)]:
        nv.matmul(*given, c=tensor(torch, C, dtype="float64"), alpha=alpha, beta=beta, target="gpu")
        assert {struct.unpack("<Q", struct.pack("<d", x))[0] for x in (alpha, beta)} <= last(gpu)


def test_a_number_beyond_f32_is_named_in_a_repeated_call_too(gpu, torch):
    for _ in range(3):
        multiply(torch, alpha=0.5)
        with pytest.raises(ArgumentError, match=r"alpha .*= 1e\+39"):
            multiply(torch, alpha=1e39)


def test_a_scale_that_is_a_number_is_no_array_and_an_operand_is_none(gpu, torch):
    for _ in range(4):
        multiply(torch, scale_a=2.0)
        with pytest.raises(ArgumentError, match="a is a float"):
            multiply(torch, a=2.0)


def test_another_device_is_another_call(gpu, torch):
    for _ in range(4):
        for device in range(2):
            gpu.calls.clear()
            multiply(torch, *(tensor(torch, at, device=device) for at in (A, B, OUT)))
            assert ("push", 0x100 + device) in gpu.calls and gpu.launches[-1].stream == (0x51, 0x52)[device]
        with pytest.raises(ArgumentError, match="on device 1, an array before it on device 0"):
            multiply(torch, out=tensor(torch, OUT, device=1))


def test_a_result_is_made_for_each_call(gpu, torch):
    results = [multiply(torch, out=None) for _ in range(5)]
    addresses = [result.data_ptr() for result in results]
    assert len(set(addresses)) == 5
    assert all(at in launched.given for at, launched in zip(addresses, gpu.launches, strict=True))


def test_batches_of_several_launches_start_where_they_lie(gpu, torch):
    stacked = lambda at: tensor(torch, at, (2, 3, 64, 64), (4096, 8192, 64, 1))  # noqa: E731
    packed = tensor(torch, OUT, (2, 3, 64, 64), (3 * 4096, 4096, 64, 1))
    seen = []
    for _ in range(4):
        gpu.launches.clear()
        multiply(torch, stacked(A), stacked(B), packed)
        seen.append([launched.given for launched in gpu.launches])
    first, second = seen[0]
    assert first != second and {A, B, OUT} <= set(first)
    assert seen == [[first, second]] * 4


def test_what_is_tuned_is_taken_by_the_next_call(gpu, torch, monkeypatch):
    for _ in range(3):
        multiply(torch)
    assert len(module._launches) == 1
    tuned_matmul._remember(None)
    long_way = module.ProductCall
    monkeypatch.setattr(module, "ProductCall", libraries.raising(AssertionError("the long way")))
    with pytest.raises(AssertionError, match="the long way"):
        multiply(torch)
    monkeypatch.setattr(module, "ProductCall", long_way)
    multiply(torch)
    monkeypatch.setattr(module, "ProductCall", libraries.raising(AssertionError("the long way")))
    multiply(torch)
    assert len(gpu.launches) == 5


def test_an_activation_that_reads_something_else_is_compiled_anew(gpu, torch):
    by = [2.0]

    def scaled(x):
        return x * by[0]

    kernels = []
    for factor in (2.0, 3.0, 2.0):
        by[0] = factor
        for _ in range(3):
            multiply(torch, activation=scaled)
            kernels.append(gpu.launches[-1].kernel)
    two, three = kernels[0], kernels[3]
    assert two is not three
    assert [id(x) for x in kernels] == [id(x) for x in [two] * 3 + [three] * 3 + [two] * 3]


def test_a_call_that_shall_only_compile_runs_nothing(gpu, torch):
    for _ in range(3):
        multiply(torch)
    with collect.compiled():
        multiply(torch)
    assert len(gpu.launches) == 3


def test_the_stream_is_asked_for_each_time(gpu, torch):
    for stream in (0x51, 0x77, 0x51, 0x78):
        torch.streams[0] = stream
        multiply(torch)
        multiply(torch, stream=5)
        assert [launched.stream for launched in gpu.launches[-2:]] == [stream, 5]


@pytest.mark.parametrize("given", [{}, {"out": None}, {"c": C, "beta": 2.0}], ids=["out", "new", "c"])
def test_a_repeated_call_passes_three_rooms_and_never_goes_back(gpu, torch, given):
    given = {name: tensor(torch, x) if name == "c" else x for name, x in given.items()}
    made = tensor(torch, OUT)
    torch.empty = lambda shape, dtype, device: made
    arrays = [tensor(torch, A), tensor(torch, B)]
    call = functools.partial(nv.matmul, *arrays, **{"out": tensor(torch, OUT), **given}, target="gpu")
    for _ in range(3):
        call()
    passed = way(call)
    assert rooms(passed) == ["kernels", "call", "driver"]
    assert len(passed) <= 7, passed
    assert len(gpu.launches) == 4


def test_two_operands_are_copied_by_one_launch(gpu, torch):
    for calls in range(1, 4):
        multiply(torch, a=A + 2, b=B + 2)
        assert len(gpu.launches) == 2 * calls
        copies = gpu.launches[-2].given
        assert A + 2 in copies and B + 2 in copies
