"""Launchers: what is still checked and looked up each time, and that nothing of a call is kept."""

from __future__ import annotations

import ctypes
import gc
import struct
import threading
import weakref

import numpy as np
import pytest

from nvdsl.driver import launcher as launcher_module
from nvdsl.driver.arrays import describe
from nvdsl.driver.host import tensor_maps
from nvdsl.driver.kept_memory import LEAST, ZEROS
from nvdsl.driver.run import Run
from nvdsl.errors import ArgumentError, DeviceError
from tests.unit.driver import libraries
from tests.unit.driver.doubling import KERNEL, ONE, PROGRAM, TY, read_and_write, tensor
from tests.unit.driver.fake_cuda import Kernel, fake, pointer
from tests.unit.driver.host_program import build, function, launch
from tests.unit.driver.test_launch import MIXED, MIXED_ARGUMENTS

SCRATCH = f"%t = gpu.alloc () : {TY}\n" + read_and_write("%a", "%t") + f"\ngpu.dealloc %t : {TY}\n"


@pytest.fixture
def torch(monkeypatch):
    return libraries.install_torch(monkeypatch)


def launcher(executable, *arrays, **operands):
    """As after a call with these arrays."""
    executable.call(*arrays)
    return executable.launcher([describe(x)[1] if describe(x) else x for x in arrays], **operands)


def doubling(torch, **options):
    cuda, devices = fake(KERNEL, **options)
    one = launcher(build(PROGRAM, [KERNEL], devices=devices), tensor(torch), tensor(torch))
    cuda.calls.clear()
    cuda.launches.clear()
    return one, cuda


def given(launched):
    return [pointer(p) for p in launched.parameters]


def test_each_call_has_its_addresses(torch):
    one, cuda = doubling(torch)
    for _ in range(4):
        for at in ([0x1000, 0x2000], [0x3000, 0x4000], [0x1000, 0x4000]):
            cuda.calls.clear()
            one(tuple(at))
            assert given(cuda.launches[-1]) == at
    assert cuda.names() == ["push", "launch", "pop"]


def test_the_stream_is_asked_for_each_time(monkeypatch):
    streams = [0x51, 0x52]
    one, cuda = doubling(libraries.install_torch(monkeypatch, streams=streams))
    one((0x1000, 0x2000))
    streams[0] = 0x77
    one((0x1000, 0x2000))
    one((0x1000, 0x2000), stream=0x99)
    one((0x1000, 0x2000))
    assert [launched.config.stream for launched in cuda.launches] == [0x51, 0x77, 0x99, 0x77]


def test_the_arrays_device_is_used_whatever_is_current(torch):
    cuda, devices = fake(KERNEL, count=2)
    executable = build(PROGRAM, [KERNEL], devices=devices)
    ones = [launcher(executable, *(tensor(torch, device=i) for _ in range(2))) for i in range(2)]
    cuda.calls.clear()
    for current, which, pushes in ((0x100, 0, []), (0x100, 1, [0x101]), (0x101, 1, []), (0x101, 0, [0x100])):
        cuda.current = current
        ones[which]((0x1000, 0x2000))
        assert [call[1] for call in cuda.calls if call[0] == "push"] == pushes
        assert cuda.current == current
        assert cuda.launches[-1].config.stream == (0x51, 0x52)[which]
        cuda.calls.clear()


def test_addresses_are_checked_each_time(torch):
    one, cuda = doubling(torch)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="argument 1 starts at address 0x2002"):
            one((0x1000, 0x2002))
        one((0x1000, 0x2004))
    assert len(cuda.launches) == 2


def test_numbers_are_checked_and_converted_each_time(torch):
    kernel = Kernel("f_kernel", (4, 8))
    cuda, devices = fake(kernel)
    body = f"%zero = arith.constant 0 : index\nmemref.store %x, %a[%zero, %zero] : {TY}"
    executable = build(function(f"%x: f32, %a: {TY}", ONE + launch(body) + "\nreturn"), [kernel], devices=devices)
    one = launcher(executable, 1.0, tensor(torch))
    for x in (0.5, 3, 0.5, -0.5, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.5):
        one((x, 0x1000))
        number, array = cuda.launches[-1].parameters
        assert (number, pointer(array)) == (struct.pack("<f", x), 0x1000)
    with pytest.raises(ArgumentError, match="argument 0 is 'x'"):
        one(("x", 0x1000))


def test_numbers_of_all_calls_are_recorded_with_the_launch(torch):
    """Even 0.0, which a number of the call's own is not: 0.0 and -0.0 would be one."""
    kernel = Kernel("f_kernel", (4, 8))
    cuda, devices = fake(kernel)
    body = f"%zero = arith.constant 0 : index\nmemref.store %x, %a[%zero, %zero] : {TY}"
    executable = build(function(f"%a: {TY}, %x: f32", ONE + launch(body) + "\nreturn"), [kernel], devices=devices)
    one = launcher(executable, tensor(torch), 0.0, order=[0, 1], numbers=(0.0,))
    for _ in range(3):
        one((0x1000,))
    assert [launched.parameters[0] for launched in cuda.launches[-3:]] == [struct.pack("<f", 0.0)] * 3
    assert all(one._recorded.values())


def test_a_launch_that_is_recorded_is_its_streams_own(torch):
    one, cuda = doubling(torch)
    for _ in range(4):
        for handle in (7, 8):
            one((0x1000, 0x2000), stream=handle)
            assert cuda.launches[-1].config.stream == handle
    assert cuda.names().count("config") == 2


def test_what_is_recorded_is_bounded(torch, monkeypatch):
    monkeypatch.setattr(launcher_module, "_MOST", 4)
    one, cuda = doubling(torch)
    for i in range(40):
        one((0x1000, 0x2000 + 4 * i))
        one((0x1000, 0x2000 + 4 * i))
        assert given(cuda.launches[-1]) == [0x1000, 0x2000 + 4 * i]
        assert len(one._recorded) <= 4


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_launch_that_fails_names_its_kernel_recorded_or_not(torch, calls):
    one, cuda = doubling(torch)
    for _ in range(calls):
        one((0x1000, 0x2000))
    cuda.fail["launch"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceError, match="kernel f_kernel could not be launched: CUDA_ERROR_ILLEGAL_ADDRESS"):
        one((0x1000, 0x2000))
    assert cuda.names()[-1] == "pop"


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_each_launch_is_waited_for_where_that_is_asked(torch, monkeypatch, calls):
    monkeypatch.setenv("NVDSL_SYNC", "1")
    one, cuda = doubling(torch)
    for _ in range(calls):
        one((0x1000, 0x2000))
    cuda.fail["synchronize"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceError, match="kernel f_kernel failed while it ran: CUDA_ERROR_ILLEGAL_ADDRESS"):
        one((0x1000, 0x2000))


def scratch(torch, **options):
    cuda, devices = fake(KERNEL, **options)
    executable = build(function(f"%a: {TY}", ONE + SCRATCH + "return"), [KERNEL], devices=devices)
    return launcher(executable, tensor(torch)), cuda


FILLED = f"%t = gpu.alloc () : {TY}\n%o = arith.constant 0.0 : f32\ngpu.memset %t, %o : {TY}, f32\n"


def filled(torch, fill=FILLED):
    """A call that fills memory of its own, and reads it."""
    cuda, devices = fake(KERNEL)
    body = ONE + fill + read_and_write("%a", "%t") + "\nreturn"
    one = launcher(build(function(f"%a: {TY}", body), [KERNEL], devices=devices), tensor(torch))
    cuda.calls.clear()
    return one, cuda


def test_repeated_calls_of_a_stream_share_memory(torch):
    one, cuda = filled(torch)
    other = launcher(build(function(f"%a: {TY}", ONE + FILLED + read_and_write("%a", "%t") + "\nreturn"), [KERNEL],
                           devices=one._executable._devices), tensor(torch))  # fmt: skip
    cuda.calls.clear()
    for handle in (7, 8):
        seen = []
        for at in (0x1000, 0x3000, 0x1000, 0x1000, 0x3000):
            for each in (one, other):
                each((at,), stream=handle)
                seen.append(given(cuda.launches[-1]))
        assert len({t for _, t in seen}) == 1
        assert [a for a, _ in seen[::2]] == [a for a, _ in seen[1::2]] == [0x1000, 0x3000, 0x1000, 0x1000, 0x3000]
    assert cuda.names().count("alloc") == 2 and "free" not in cuda.names()
    steps = [name for name in cuda.names() if name in ("fill", "launch")]
    assert steps == ["fill", "launch"] * 20  # what is recorded fills, too


RESTORED = FILLED.replace(", f32\n", ", f32 {nvdsl.restored}\n")


def test_what_is_restored_is_filled_once_for_a_stream(torch):
    one, cuda = filled(torch, RESTORED)
    for handle in (7, 8):
        seen = []
        for at in (0x1000, 0x3000, 0x1000, 0x3000, 0x1000):
            one((at,), stream=handle)
            seen.append(given(cuda.launches[-1])[1])
        kept, zeros = seen[0], seen[-1]
        assert seen == [kept, kept, zeros, zeros, zeros] and kept != zeros
        assert not any(ctypes.string_at(zeros, ZEROS))
    # The zeros of the stream; then the first call with an address fills, and where one comes again, nothing does.
    steps = [name for name in cuda.names() if name in ("fill", "launch")]
    assert steps == 2 * ["fill", "fill", "launch", "fill", "launch", "launch", "launch", "launch"]
    cuda.capturing.add(7)
    one((0x1000,), stream=7)  # a graph may run beside the stream
    assert cuda.names()[-4:-2] == ["fill", "launch"] and given(cuda.launches[-1])[1] not in (kept, zeros)


def test_zeros_are_given_out_as_far_as_they_go():
    run = Run(None, 7, [], False, zeros=0x10000)
    found = [run.zeros(size) for size in (4, 300, ZEROS - 1024, 257, 1)]
    assert found == [0x10000, 0x10100, 0x10300, None, 0x10000 + ZEROS - 256]
    assert Run(None, 7, [], False).zeros(4) is None


@pytest.mark.parametrize("why", ["captured", "unknown", "per thread", "busy", "large"])
def test_who_can_not_share_has_memory_of_its_own(torch, monkeypatch, why):
    if why == "large":
        monkeypatch.setattr(launcher_module, "MOST", 8)
    one, cuda = filled(torch)
    handle, before = 2 if why == "per thread" else 7, set(cuda.allocations)
    if why == "captured":
        one((0x1000,), stream=handle), one((0x1000,), stream=handle)  # recorded launches are no part of a graph, either
        before = set(cuda.allocations)
        cuda.capturing.add(handle)
    if why == "unknown":
        cuda.fail["capturing"] = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"
    if why == "busy":
        one((0x1000,), stream=handle)
        before = set(cuda.allocations)
        assert one._device.memories.of(handle) is not None
    cuda.calls.clear()
    for _ in range(3):
        one((0x1000,), stream=handle)
    assert cuda.names().count("alloc") == cuda.names().count("free") == 3
    assert set(cuda.allocations) == before


def test_kept_memory_grows(torch):
    cuda, devices = fake(KERNEL)
    memory = devices.get(0).memories.of(7)
    first = memory.reserve(1000, cuda, 7)
    assert memory.reserve(LEAST, cuda, 7) == first != memory.reserve(LEAST + 1, cuda, 7)
    assert [call[1] for call in cuda.calls if call[0] == "alloc"] == [LEAST, 2 * LEAST]
    assert "free" not in cuda.names()  # recorded launches hold addresses in the first


def test_a_fill_that_fails_says_so(torch):
    one, cuda = filled(torch)
    for _ in range(3):
        cuda.fail["fill"] = "CUDA_ERROR_INVALID_VALUE"
        with pytest.raises(DeviceError, match=r"fill: CUDA_ERROR_INVALID_VALUE|could not be filled"):
            one((0x1000,))
        assert one._device.memories.of(one._current_stream()) is not None  # nobody holds it
        one._device.memories._known[one._current_stream()].lock.release()
        cuda.fail.clear()
        one((0x1000,))


def test_memory_of_a_call_is_that_calls_own(torch):
    one, cuda = scratch(torch)
    for _ in range(4):
        one((0x1000,))
    assert cuda.allocations == {} and cuda.names().count("alloc") == cuda.names().count("free") == 5


def test_memory_of_a_call_outlives_another_call(torch):
    one, cuda = scratch(torch)
    alive = []

    def run(launched, cuda):
        cuda.run = None
        mine = set(cuda.allocations)
        one((0x3000,))
        alive.append(mine <= set(cuda.allocations))

    for _ in range(3):
        cuda.run = run
        one((0x1000,))
    assert alive == [True] * 3 and cuda.allocations == {}


def test_a_recorded_launch_keeps_its_tensor_maps(torch, monkeypatch):
    monkeypatch.setattr(tensor_maps, "_CACHED_MAPS", 1)
    kernel = Kernel("f_kernel", (128, 4, 8, 8, 4))
    gc.freeze()  # what other tests left is not looked through
    cuda, devices = fake(kernel)
    executable = build(function(MIXED_ARGUMENTS, MIXED), [kernel], devices=devices)
    a, d = tensor(torch, 0x10000, dtype="float16", shape=(128, 64), strides=(64, 1)), tensor(torch, 0x20000)
    d.shape, d._strides = (16, 16), (16, 1)
    one, kept, move = launcher(executable, a, d, 2.5, 3, -1), [], cuda.moved

    def moved(*arguments):
        encoded = move(*arguments)
        kept.append(weakref.ref(encoded))
        return encoded

    cuda.moved = moved
    for at in (0x30000, 0x30000, 0x40000, 0x50000):
        one((at, 0x20000, 2.5, 3, -1))
    gc.collect()
    one((0x30000, 0x20000, 2.5, 3, -1))
    assert pointer(cuda.launches[-1].parameters[0][-8:]) == 0x30000
    assert [one() is not None for one in kept] == [True, False, True]


def test_a_failure_names_the_kernel_and_frees(torch):
    one, cuda = scratch(torch)
    cuda.fail["launch"] = "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DeviceError, match="kernel f_kernel could not be launched: CUDA_ERROR_INVALID_VALUE"):
        one((0x1000,))
    assert cuda.allocations == {} and cuda.current == 0
    cuda.fail = {"alloc": "CUDA_ERROR_OUT_OF_MEMORY"}
    with pytest.raises(DeviceError, match=r"f: alloc: CUDA_ERROR_OUT_OF_MEMORY .*kernels of this call: f_kernel"):
        one((0x1000,))


def test_what_can_not_be_launcher(torch, monkeypatch):
    cuda, devices = fake(KERNEL)
    executable = build(PROGRAM, [KERNEL], written=frozenset({1}), devices=devices)
    host, device = np.zeros((2, 3), np.float32), tensor(torch)
    assert launcher(executable, device, device) is not None
    cuda.run = None
    assert launcher(executable, host, host) is None
    here = torch.Tensor("float32", (2, 3), (3, 1), -1, host=host)
    assert launcher(executable, here, here) is None
    jax = libraries.install_jax(monkeypatch)
    assert launcher(executable, jax.Array("float32", (2, 3)), device) is None


def test_arrays_are_not_kept(torch):
    gc.freeze()  # what other tests left is not looked through
    cuda, devices = fake(KERNEL)
    executable = build(PROGRAM, [KERNEL], devices=devices)
    a, d = tensor(torch), tensor(torch)
    one, seen = launcher(executable, a, d), [weakref.ref(a), weakref.ref(d)]
    one((a.data_ptr(), d.data_ptr()))
    del a, d
    gc.collect()
    assert [one() for one in seen] == [None, None]


def test_several_threads(torch):
    cuda, devices = fake(KERNEL)
    one = launcher(build(PROGRAM, [KERNEL], devices=devices), tensor(torch), tensor(torch))
    cuda.current = 0x100
    cuda.launches.clear()

    def work(number):
        for i in range(200):
            one((0x1000 * number, 0x1000 * number + 16 * i), stream=number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cuda.launches) == 800
    for launched in cuda.launches:
        source, target = given(launched)
        assert source == 0x1000 * launched.config.stream and 0 <= target - source < 16 * 200
