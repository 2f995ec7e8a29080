"""Plans: staging of host arrays, device arrays in place, copies of the host program, checks, streams."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from nvdsl.driver import arrays
from nvdsl.errors import ArgumentError, DeviceError
from tests.unit.driver import libraries
from tests.unit.driver.doubling import KERNEL, ONE, PROGRAM, THIN, TY, double, read_and_write, tensor
from tests.unit.driver.fake_cuda import fake, pointer
from tests.unit.driver.host_program import build, function


@pytest.fixture
def doubling():
    cuda, devices = fake(KERNEL, run=double)
    return build(PROGRAM, [KERNEL], written=frozenset({1}), devices=devices), cuda


# --- host arrays that kernels use


def test_numpy_is_staged_and_what_was_written_comes_back(doubling):
    executable, cuda = doubling
    a, d = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    executable.call(a, d)
    assert (d == 2 * a).all()
    assert [call[:2] for call in cuda.calls] == [
        ("push", 0x100), ("load", b"cubin"), ("function", "f_kernel"),
        ("alloc", 24), ("copy", "HD"), ("alloc", 24), ("copy", "HD"),
        ("config", (1, 1, 1)), ("launch", "f_kernel"),
        ("copy", "DH"), ("synchronize", 0), ("free", 0), ("free", 0), ("pop",),
    ]  # fmt: skip
    assert cuda.allocations == {}


def test_every_host_layout(doubling):
    executable, _ = doubling
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (base[::2, ::2], base[:2, :3], np.asfortranarray(base[:2, :3]), base[1::-1, 2::-1]):
        d = np.zeros((3, 2), np.float32).T
        executable.call(view, d)
        assert (d == 2 * view).all()


def test_only_what_is_between_the_strides_is_written(doubling):
    executable, _ = doubling
    base = np.full((4, 6), -1, np.float32)
    executable.call(np.ones((2, 3), np.float32), base[::2, ::2])
    assert (base[::2, ::2] == 2).all()
    assert (base[1::2] == -1).all() and (base[:, 1::2] == -1).all()


def test_without_written_all_that_a_kernel_sees_comes_back():
    cuda, devices = fake(KERNEL)
    executable = build(PROGRAM, [KERNEL], devices=devices)
    assert executable.written == {0, 1}


def test_a_readonly_input_is_staged_and_a_readonly_output_refused(doubling):
    executable, cuda = doubling
    frozen = np.ones((2, 3), np.float32)
    frozen.flags.writeable = False
    d = np.zeros((2, 3), np.float32)
    executable.call(frozen, d)
    assert (d == 2).all()
    with pytest.raises(ArgumentError, match="argument 1 is read-only, and the call writes it"):
        executable.call(d, frozen)


def test_bfloat16_tensors_of_torch_on_the_cpu(monkeypatch):
    torch = libraries.install_torch(monkeypatch)
    ty = "memref<2x3xbf16>"

    def copy(launched, cuda):
        source, target = map(pointer, launched.parameters)
        ctypes.memmove(target, source, 12)

    cuda, devices = fake(KERNEL, run=copy)
    program = function(f"%a: {ty}, %d: {ty}", ONE + read_and_write(ty=ty) + "\nreturn")
    executable = build(program, [KERNEL], written=frozenset({1}), devices=devices)
    source, target = (np.full((2, 3), value, ml_dtypes.bfloat16) for value in (1.5, 0))
    executable.call(*(torch.Tensor("bfloat16", (2, 3), (3, 1), -1, host=x) for x in (source, target)))
    assert (target == source).all()


def test_empty_arrays():
    ty = "memref<0x3xf32>"
    cuda, devices = fake(KERNEL)
    program = function(f"%a: {ty}, %d: {ty}", ONE + read_and_write(ty=ty) + "\nreturn")
    build(program, [KERNEL], devices=devices).call(*(np.zeros((0, 3), np.float32) for _ in range(2)))
    assert cuda.allocations == {}


# --- device arrays


@pytest.fixture
def torch(monkeypatch):
    return libraries.install_torch(monkeypatch)


def test_device_arrays_are_used_in_place_without_waiting(torch):
    cuda, devices = fake(KERNEL)
    executable = build(PROGRAM, [KERNEL], devices=devices)
    executable.call(tensor(torch, 0x1000), tensor(torch, 0x2000))
    assert [pointer(p) for p in cuda.launches[0].parameters] == [0x1000, 0x2000]
    assert cuda.names() == ["push", "load", "function", "config", "launch", "pop"]
    assert cuda.launches[0].config.stream == 0x51


def test_nothing_is_pushed_where_the_context_is_current(torch, doubling):
    executable, cuda = doubling
    cuda.run, cuda.current = None, 0x100
    executable.call(tensor(torch), tensor(torch))
    assert "push" not in cuda.names() and "pop" not in cuda.names()


def test_the_arrays_device_is_used(torch):
    cuda, devices = fake(KERNEL, count=2)
    cuda.current = 0x100
    executable = build(PROGRAM, [KERNEL], devices=devices)
    executable.call(tensor(torch, device=1), tensor(torch, device=1))
    assert ("push", 0x101) in cuda.calls
    assert cuda.current == 0x100
    assert cuda.launches[0].config.stream == 0x52  # torch's current stream there


def test_a_mixed_call_waits_and_runs_on_the_device_arrays_stream(torch, doubling):
    executable, cuda = doubling
    memory = (ctypes.c_float * 6)(*range(6))
    d = np.zeros((2, 3), np.float32)
    executable.call(tensor(torch, ctypes.addressof(memory)), d)
    assert (d.ravel() == [0, 2, 4, 6, 8, 10]).all()
    assert ("synchronize", 0x51) in cuda.calls


def test_two_devices(torch, doubling):
    executable, cuda = doubling
    with pytest.raises(ArgumentError, match="argument 1 is on device 1, an array before it on device 0"):
        executable.call(tensor(torch), tensor(torch, device=1))


def test_jax_inputs_wait_and_jax_outputs_are_refused(monkeypatch, torch, doubling):
    jax = libraries.install_jax(monkeypatch)
    executable, cuda = doubling
    cuda.run = None
    x = jax.Array("float32", (2, 3))
    executable.call(x, tensor(torch))
    # before: the producer's work; after: our kernel, since JAX may reuse the memory at any time
    waits = [call for call in cuda.calls if call[0] in ("synchronize", "launch")]
    assert waits == [("synchronize", 1), ("launch", "f_kernel"), ("synchronize", 0)]
    with pytest.raises(ArgumentError, match="read-only.*\n.*JAX arrays are immutable"):
        executable.call(tensor(torch), x)


# --- checks


def wrong(torch):
    return {
        "dtype": (tensor(torch, dtype="float16"), "its elements are f16, not f32"),
        "shape": (tensor(torch, shape=(3, 2), strides=(2, 1)), r"its shape is \(3, 2\), not \(2, 3\)"),
        "strides": (tensor(torch, strides=(1, 2)), r"its strides are \(1, 2\) elements, not \(3, 1\)"),
        "shared": (tensor(torch, strides=(0, 1)), r"its strides are \(0, 1\)"),
        "address": (tensor(torch, address=0x1002), "starts at address 0x1002"),
        "rank": (tensor(torch, shape=(6,), strides=(1,)), r"its shape is \(6,\)"),
    }


@pytest.mark.parametrize("what", ["dtype", "shape", "strides", "shared", "address", "rank"])
def test_arrays_that_do_not_fit(torch, doubling, what):
    executable, cuda = doubling
    array, text = wrong(torch)[what]
    with pytest.raises(ArgumentError, match=f"argument 1 .*{text}") as caught:
        executable.call(tensor(torch), array)
    assert caught.value.rule
    assert cuda.launches == []


def test_an_output_whose_elements_share_memory(torch):
    ty = "memref<2x3xf32, strided<[0, 1]>>"
    cuda, devices = fake(KERNEL)
    program = function(f"%a: {ty}, %d: {ty}", ONE + read_and_write(ty=ty) + "\nreturn")
    executable = build(program, [KERNEL], written=frozenset({1}), devices=devices)
    shared = tensor(torch, strides=(0, 1))
    with pytest.raises(ArgumentError, match="elements of argument 1 share memory"):
        executable.call(shared, shared)


def test_names_are_used_in_messages(torch):
    program = function(f"%a: {TY}, %d: {TY}, %n: i32", ONE + read_and_write() + "\nreturn")
    executable = build(program, [KERNEL], names=["a", "out", "count"], devices=fake(KERNEL)[1])
    with pytest.raises(ArgumentError, match="^out is 2x3 f16"):
        executable.call(tensor(torch), tensor(torch, dtype="float16"), 3)
    with pytest.raises(ArgumentError, match="^out is no array"):
        executable.call(tensor(torch), 3, 3)
    with pytest.raises(ArgumentError, match="^count is 2.5"):
        executable.call(tensor(torch), tensor(torch), 2.5)


@pytest.mark.parametrize(
    ("ty", "value", "text"),
    [
        ("i32", 2**32, "argument 0 is 4294967296"),
        ("i32", -(2**31) - 1, "argument 0 is -2147483649"),
        ("i8", 256, "argument 0 is 256"),
        ("i1", 2, "argument 0 is 2"),
        ("i32", "x", "argument 0 is 'x'"),
        ("f32", None, "argument 0 is None"),
        ("index", 1.0, "argument 0 is 1.0"),
    ],
)
def test_numbers_that_do_not_fit(ty, value, text):
    executable = build(function(f"%x: {ty}", f"return %x : {ty}", f"-> {ty}"), devices=fake()[1])
    with pytest.raises(ArgumentError, match=text):
        executable.call(value)


def test_the_number_of_arguments(doubling):
    executable, _ = doubling
    with pytest.raises(ArgumentError, match="f takes 2 arguments, 1 were given"):
        executable.call(np.zeros((2, 3), np.float32))


def test_a_call_with_what_describe_said(doubling):
    executable, _ = doubling
    a, d = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    specs, values = zip(*map(arrays.describe, (a, d)), strict=True)
    executable(values, specs, None)
    assert (d == 2).all()


# --- failures


def test_memory_is_freed_when_a_call_fails():
    def explode(launched, cuda):
        raise KeyError("bug in a kernel")

    cuda, devices = fake(KERNEL, run=explode)
    executable = build(function(f"%a: {TY}, %d: {TY}", THIN), [KERNEL], devices=devices)
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(KeyError):
        executable.call(x, x)
    assert cuda.allocations == {}
    assert cuda.current == 0


def test_a_failure_that_surfaces_at_the_end_names_the_kernels(doubling):
    executable, cuda = doubling
    cuda.fail["synchronize"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS .*kernels of this call: f_kernel"):
        executable.call(x, x)


def test_an_error_while_freeing_does_not_hide_the_first(doubling):
    executable, cuda = doubling
    cuda.fail |= {"launch": "CUDA_ERROR_LAUNCH_FAILED", "free": "CUDA_ERROR_LAUNCH_FAILED"}
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(DeviceError, match="kernel f_kernel could not be launched"):
        executable.call(x, x)


def test_building_needs_no_gpu(monkeypatch):
    from nvdsl.driver import cuda as driver

    monkeypatch.setattr(driver, "cuda", lambda: pytest.fail("the driver was loaded"))
    build(function(f"%a: {TY}, %d: {TY}", THIN), [KERNEL])
