"""Views on the host: what address, shape and strides a kernel or a tensor map gets."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nvdsl.errors import LowerError
from tests.unit.driver import libraries
from tests.unit.driver.fake_cuda import Kernel, fake, pointer
from tests.unit.driver.host_program import build, function, launch

BASE = 0x10000


@pytest.fixture
def torch(monkeypatch):
    return libraries.install_torch(monkeypatch)


def tensor(torch, shape=(128, 64), strides=(64, 1), address=BASE, dtype="float32"):
    return torch.Tensor(dtype, shape, strides, 0, address)


ARRAY = "%a: memref<128x64xf32>"


def address_of(torch, body: str, view_type: str, *scalars: int, arguments: str = ARRAY) -> int:
    """Where a kernel finds ``%v[0, ..., 0]``, as bytes past the array's address: its pointer, and the
    static offset of its parameter's type, which the kernel adds."""
    program = function(arguments, f"%one = arith.constant 1 : index\n{body}\n{_touch(view_type)}\nreturn")
    kernel = Kernel("f_kernel", (8,))
    cuda, devices = fake(kernel)
    build(program, [kernel], devices=devices).call(tensor(torch), *scalars)
    static = re.search(r"offset: (\d+)", view_type)
    return pointer(cuda.launches[0].parameters[0]) - BASE + 4 * (int(static.group(1)) if static else 0)


def _touch(view_type: str) -> str:
    rank = view_type.split("<")[1].count("x")
    indices = ", ".join(["%zero"] * rank)
    return launch(f"""%zero = arith.constant 0 : index
        %value = arith.constant 1.0 : f32
        memref.store %value, %v[{indices}] : {view_type}""")


SUBVIEW = "memref<8x16xf32, strided<[64, 1], offset: {}>>"


def test_static_subview(torch):
    ty = SUBVIEW.format(3 * 64 + 5)
    body = f"%v = memref.subview %a[3, 5][8, 16][1, 1] : memref<128x64xf32> to {ty}"
    assert address_of(torch, body, ty) == 4 * (3 * 64 + 5)


def test_a_kernel_gets_the_base_of_a_static_view(torch):
    """Bare pointers: what LLVM's lowering of a parameter of this type adds its offset to."""
    kernel = Kernel("f_kernel", (8,))
    cuda, devices = fake(kernel)
    ty = SUBVIEW.format(192)
    body = f"""%one = arith.constant 1 : index
      %v = memref.subview %a[3, 0][8, 16][1, 1] : memref<128x64xf32> to {ty}
      {_touch(ty)}
      return"""
    build(function(ARRAY, body), [kernel], devices=devices).call(tensor(torch))
    assert pointer(cuda.launches[0].parameters[0]) == BASE


def test_dynamic_subview(torch):
    ty = SUBVIEW.format("?")
    body = f"%v = memref.subview %a[%i, 5][8, 16][1, 1] : memref<128x64xf32> to {ty}"
    for i in (0, 7):
        got = address_of(torch, body, ty, i, arguments="%a: memref<128x64xf32>, %i: index")
        assert got == 4 * (i * 64 + 5)


def test_subview_of_a_subview(torch):
    ty = SUBVIEW.format("?")
    inner = "memref<4x4xf32, strided<[128, 2], offset: ?>>"
    body = f"""%s = memref.subview %a[%i, 5][8, 16][1, 1] : memref<128x64xf32> to {ty}
      %v = memref.subview %s[1, %i][4, 4][2, 2] : {ty} to {inner}"""
    got = address_of(torch, body, inner, 3, arguments="%a: memref<128x64xf32>, %i: index")
    assert got == 4 * ((3 * 64 + 5) + (64 + 3))


def test_subview_that_drops_a_dimension(torch):
    ty = "memref<64xf32, strided<[1], offset: 192>>"
    body = f"%v = memref.subview %a[3, 0][1, 64][1, 1] : memref<128x64xf32> to {ty}"
    assert address_of(torch, body, ty) == 4 * 192


def test_reinterpret_cast_counts_from_the_base(torch):
    view, ty = SUBVIEW.format(192), "memref<4x4xf32, strided<[4, 1], offset: 10>>"
    body = f"""%s = memref.subview %a[3, 0][8, 16][1, 1] : memref<128x64xf32> to {view}
      %v = memref.reinterpret_cast %s to offset: [10], sizes: [4, 4], strides: [4, 1] : {view} to {ty}"""
    assert address_of(torch, body, ty) == 40


def test_dynamic_reinterpret_cast(torch):
    ty = "memref<4x4xf32, strided<[4, 1], offset: ?>>"
    body = f"""%v = memref.reinterpret_cast %a to offset: [%i], sizes: [4, 4], strides: [4, 1] :
      memref<128x64xf32> to {ty}"""
    assert address_of(torch, body, ty, 9, arguments="%a: memref<128x64xf32>, %i: index") == 36


def test_reinterpret_cast_of_a_view_with_a_dynamic_offset_is_refused(torch):
    ty = SUBVIEW.format("?")
    body = f"""%s = memref.subview %a[%i, 5][8, 16][1, 1] : memref<128x64xf32> to {ty}
      %v = memref.reinterpret_cast %s to offset: [0], sizes: [4, 4], strides: [4, 1] : {ty} to memref<4x4xf32>
      return"""
    with pytest.raises(LowerError, match="on a view with a dynamic offset"):
        build(function("%a: memref<128x64xf32>, %i: index", body))


def test_dim():
    body = """%zero = arith.constant 0 : index
      %d = memref.dim %a, %zero : memref<128x64xf32>
      %e = memref.dim %a, %i : memref<128x64xf32>
      return %d, %e : index, index"""
    executable = build(function("%a: memref<128x64xf32>, %i: index", body, "-> (index, index)"), devices=fake()[1])
    assert len(executable._steps) == 1
    assert executable.call(np.zeros((128, 64), np.float32), 1) == (128, 64)


def test_a_layout_follows_a_cast(torch):
    """A tensor map of a view that was cast to an unranked memref has the view's shape and strides."""
    ty = "memref<32x64xf32, strided<[64, 1], offset: ?>>"
    descriptor = (
        "!nvgpu.tensormap.descriptor<tensor = memref<8x16xf32, 3>, swizzle = none, l2promo = none, "
        "oob = zero, interleave = none>"
    )
    body = f"""%rows = arith.constant 8 : index
      %cols = arith.constant 16 : index
      %s = memref.subview %a[%i, 0][32, 64][1, 1] : memref<128x64xf32> to {ty}
      %u = memref.cast %s : {ty} to memref<*xf32>
      %t = nvgpu.tma.create.descriptor %u box[%rows, %cols] : memref<*xf32> -> {descriptor}
      return"""
    cuda, devices = fake()
    executable = build(function("%a: memref<128x64xf32>, %i: index", body), devices=devices)
    executable.call(tensor(torch), 2)
    ((tensor_map, address),) = cuda.maps
    assert (tensor_map.shape, tensor_map.strides, tensor_map.box) == ((32, 64), (64, 1), (8, 16))
    assert address == BASE + 2 * 64 * 4


@pytest.mark.parametrize(
    ("arguments", "body", "text"),
    [
        ("%a: memref<?x64xf32>", "return", "func.func with an argument of type memref"),
        ("%a: tensor<4xf32>", "return", "func.func with an argument of type tensor"),
        ("%a: memref<4xf32>", "%v = memref.load %a[%i] : memref<4xf32>\nreturn", "memref.load"),
    ],
)
def test_what_the_host_cannot_do(arguments, body, text):
    if "%i" in body and "%i" not in arguments:
        body = "%i = arith.constant 0 : index\n" + body
    with pytest.raises(LowerError, match=text):
        build(function(arguments, body))


def test_sizes_computed_from_constants_are_known(torch):
    ty = "memref<?x64xf32, strided<[64, 1]>>"
    body = f"""%two = arith.constant 2 : index
      %rows = arith.muli %two, %two : index
      %v = memref.subview %a[0, 0][%rows, 64][1, 1] : memref<128x64xf32> to {ty}
      %zero = arith.constant 0 : index
      %d = memref.dim %v, %zero : {ty}
      return %d : index"""
    executable = build(function("%a: memref<128x64xf32>", body, "-> index"), devices=fake()[1])
    assert executable.call(tensor(torch)) == 4
