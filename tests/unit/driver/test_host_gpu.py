"""gpu operations of host functions in LLVM's style: memory, copies and fills that the program orders itself."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from nvdsl.errors import ArgumentError, LowerError
from tests.unit.driver import libraries
from tests.unit.driver.doubling import KERNEL, THIN, TY, double, tensor
from tests.unit.driver.fake_cuda import fake
from tests.unit.driver.host_program import build, function


@pytest.fixture
def thin():
    cuda, devices = fake(KERNEL, run=double)
    executable = build(function(f"%a: {TY}, %d: {TY}", THIN), [KERNEL], written=frozenset({1}), devices=devices)
    return executable, cuda


def test_a_program_that_copies_by_itself(thin):
    executable, cuda = thin
    a, d = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    executable.call(a, d)
    assert (d == 2 * a).all()
    body = [call[:2] for call in cuda.calls if call[0] not in ("load", "function", "config")]
    assert body == [
        ("push", 0x100), ("alloc", 24), ("alloc", 24), ("copy", "HD"), ("fill", 0), ("launch", "f_kernel"),
        ("copy", "DH"), ("synchronize", 0), ("synchronize", 0), ("free", 0), ("free", 0), ("pop",),
    ]  # fmt: skip
    assert cuda.allocations == {}


def test_such_a_program_takes_strided_host_arrays(thin):
    executable, _ = thin
    base = np.zeros((4, 6), np.float32)
    executable.call(np.ones((3, 2), np.float32).T, base[::2, ::2])
    assert (base[::2, ::2] == 2).all()
    assert base.sum() == 12


def test_such_a_program_takes_device_arrays(monkeypatch, thin):
    torch = libraries.install_torch(monkeypatch)
    executable, _ = thin
    memory = [(ctypes.c_float * 6)(*range(6)) for _ in range(2)]
    executable.call(*(tensor(torch, ctypes.addressof(m)) for m in memory))
    assert list(memory[1]) == [0, 2, 4, 6, 8, 10]


def test_only_the_target_of_a_copy_is_written(thin):
    assert thin[0].written == {1}
    frozen = np.ones((2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="argument 1 is read-only"):
        thin[0].call(frozen, frozen)


def test_memory_is_freed_early_where_the_program_says_so():
    body = f"""%x = gpu.alloc () : {TY}
      gpu.dealloc %x : {TY}
      gpu.wait
      return"""
    cuda, devices = fake()
    build(function("", body), devices=devices).call()
    assert cuda.names() == ["push", "alloc", "free", "synchronize", "pop"]


@pytest.mark.parametrize(
    ("ty", "value", "expected"),
    [
        ("f32", "1.0", (0x3F800000, 4, 6)),
        ("f16", "1.0", (0x3C00, 2, 6)),
        ("i8", "-1", (0xFF, 1, 6)),
        ("f64", "0.0", (0, 4, 12)),
    ],
)
def test_memset(ty, value, expected):
    body = f"""%x = gpu.alloc () : memref<2x3x{ty}>
      %v = arith.constant {value} : {ty}
      gpu.memset %x, %v : memref<2x3x{ty}>, {ty}
      return"""
    cuda, devices = fake()
    build(function("", body), devices=devices).call()
    assert [call for call in cuda.calls if call[0] == "fill"] == [("fill", *expected, 0)]


def test_memset_of_an_8_byte_pattern():
    body = """%x = gpu.alloc () : memref<6xf64>
      gpu.memset %x, %v : memref<6xf64>, f64
      return"""
    executable = build(function("%v: f64", body), devices=fake()[1])
    with pytest.raises(ArgumentError, match="gpu.memset of 8-byte elements with 1.5"):
        executable.call(1.5)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "%v = memref.subview %a[0, 0][2, 2][1, 1] : memref<2x3xf32> to memref<2x2xf32, strided<[3, 1]>>\n"
            "%x = gpu.alloc () : memref<2x2xf32>\n"
            "gpu.memcpy %x, %v : memref<2x2xf32>, memref<2x2xf32, strided<[3, 1]>>\nreturn",
            "gpu.memcpy on a memref with gaps",
        ),
        ("%x = gpu.alloc host_shared () : memref<2x3xf32>\nreturn", "gpu.alloc with host_shared memory"),
    ],
)
def test_what_a_host_program_cannot_do(body, text):
    with pytest.raises(LowerError, match=text):
        build(function(f"%a: {TY}", body))


def test_a_function_cannot_return_an_array():
    with pytest.raises(LowerError, match="func.return of a memref"):
        build(function(f"%a: {TY}", f"return %a : {TY}", f"-> {TY}"))
