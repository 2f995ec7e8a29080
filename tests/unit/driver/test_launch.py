"""Launches: the bytes of every parameter, the configuration, the stream, limits and failures."""

from __future__ import annotations

import struct
import threading

import ml_dtypes
import numpy as np
import pytest

from nvdsl.driver import executable
from nvdsl.driver.host import tensor_maps
from nvdsl.driver.launch import Launch, Parameter
from nvdsl.driver.run import Run
from nvdsl.errors import ArgumentError, LowerError
from tests.unit.driver import libraries
from tests.unit.driver.fake_cuda import Kernel, fake, pointer
from tests.unit.driver.host_program import build, function, launch, line_of, outlined, sizes_program

ONE = "%one = arith.constant 1 : index\n"


def use(*values: str) -> str:
    """A kernel body that keeps the values alive: each becomes a parameter, in order of first use."""
    types = ", ".join(ty for _, ty in (v.split(":") for v in values))
    names = ", ".join(name for name, _ in (v.split(":") for v in values))
    segments = f"array<i32: {len(values)}, 0, 0>"
    return f'"nvvm.inline_ptx"({names}) <{{ptxCode = "", operandSegmentSizes = {segments}}}> : ({types}) -> ()'


SCALARS = [
    ("i1", True, b"\x01"),
    ("i8", -2, b"\xfe"),
    ("i16", -2, b"\xfe\xff"),
    ("i32", -5, struct.pack("<i", -5)),
    ("i32", 2**32 - 1, b"\xff\xff\xff\xff"),
    ("i64", -(2**63), struct.pack("<q", -(2**63))),
    ("index", -1, b"\xff" * 8),
    ("f16", 1.5, np.float16(1.5).tobytes()),
    ("bf16", 0.1, ml_dtypes.bfloat16(0.1).tobytes()),
    ("f32", 0.1, struct.pack("<f", 0.1)),
    ("f64", 0.1, struct.pack("<d", 0.1)),
    ("f32", np.float32(0.25), struct.pack("<f", 0.25)),
    ("i32", np.int64(7), struct.pack("<i", 7)),
    ("i1", np.bool_(True), b"\x01"),
]


@pytest.mark.parametrize(("ty", "value", "expected"), SCALARS)
def test_scalar_parameters(ty, value, expected):
    kernel = Kernel("f_kernel", (len(expected),))
    cuda, devices = fake(kernel)
    program = function(f"%x: {ty}", ONE + launch(use(f"%x:{ty}")) + "\nreturn")
    build(program, [kernel], devices=devices).call(value)
    assert cuda.launches[0].parameters == [expected]


DESCRIPTOR = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64x32xf16, 3>, swizzle = swizzle_64b, "
    "l2promo = l2promo_256b, oob = zero, interleave = none>"
)
MIXED_KERNEL = f"""nvgpu.tma.prefetch.descriptor %t : {DESCRIPTOR}
    %zero = arith.constant 0 : index
    memref.store %x, %d[%zero, %n] : memref<16x16xf32>
    {use("%k:i32")}"""
MIXED_ARGUMENTS = "%a: memref<128x64xf16>, %d: memref<16x16xf32>, %x: f32, %n: index, %k: i32"
MIXED = f"""
  %one = arith.constant 1 : index
  %rows = arith.constant 64 : index
  %cols = arith.constant 32 : index
  %u = memref.cast %a : memref<128x64xf16> to memref<*xf16>
  %t = nvgpu.tma.create.descriptor %u box[%rows, %cols] : memref<*xf16> -> {DESCRIPTOR}
  {launch(MIXED_KERNEL)}
  return"""


@pytest.fixture
def mixed(monkeypatch):
    """An executable whose kernel takes a tensor map, a float, a device pointer, an index and an i32."""
    torch = libraries.install_torch(monkeypatch)
    kernel = Kernel("f_kernel", (128, 4, 8, 8, 4))
    cuda, devices = fake(kernel)
    host = build(function(MIXED_ARGUMENTS, MIXED), [kernel], devices=devices)

    def call(a=0x10000, d=0x20000, **options):
        return host.call(
            torch.Tensor("float16", (128, 64), (64, 1), 0, a),
            torch.Tensor("float32", (16, 16), (16, 1), 0, d),
            2.5,
            3,
            -1,
            **options,
        )

    return call, cuda


def test_parameters_of_every_kind(mixed):
    call, cuda = mixed
    call()
    encoded, x, d, n, k = cuda.launches[0].parameters
    assert encoded == b"\x01" * 128  # the first map that was encoded
    assert (x, pointer(d), pointer(n), k) == (struct.pack("<f", 2.5), 0x20000, 3, b"\xff" * 4)
    ((tensor_map, address),) = cuda.maps
    assert address == 0x10000
    assert (tensor_map.dims, tensor_map.stride_bytes, tensor_map.box_dims) == ((64, 128), (128,), (32, 64))
    assert tensor_map.modes == (6, 0, 2, 3, 0)


def moves(cuda):
    """The addresses that a tensor map was moved to."""
    return [call[1] for call in cuda.calls if call[0] == "moved"]


def test_tensor_maps_are_encoded_once_and_moved_once_to_an_address(mixed):
    call, cuda = mixed
    for a in (0x10000, 0x30000, 0x10000, 0x30000, 0x50000):
        call(a=a)
    assert [address for _, address in cuda.maps] == [0x10000]
    assert moves(cuda) == [0x30000, 0x50000]
    first, second, third, fourth, fifth = (launched.parameters[0] for launched in cuda.launches)
    assert first == third == b"\x01" * 128
    assert second == fourth == b"\x01" * 120 + struct.pack("<Q", 0x30000)
    assert fifth == b"\x01" * 120 + struct.pack("<Q", 0x50000)


def test_the_cache_of_tensor_maps_is_bounded(mixed, monkeypatch):
    monkeypatch.setattr(tensor_maps, "_CACHED_MAPS", 8)
    call, cuda = mixed
    for i in range(9):
        call(a=0x10000 + 64 * i)
    call(a=0x10000)
    assert len(moves(cuda)) == 9


def test_an_address_that_no_tensor_map_can_have_is_refused_each_time(mixed):
    call, cuda = mixed
    for a in (0x10000, 0x10008, 0x10008):
        try:
            call(a=a)
        except ArgumentError as error:
            assert a == 0x10008 and "8 bytes past a multiple of 16" in str(error)
    assert len(cuda.launches) == 1


def test_a_misaligned_array_is_refused_by_every_rule(mixed):
    call, cuda = mixed
    with pytest.raises(ArgumentError, match=r"no tensor map of argument 0 \(128x64 f16, box 64x32\)") as caught:
        call(a=0x10008)
    assert "0x10008 is 8 bytes past a multiple of 16" in str(caught.value)
    assert caught.value.where.line == line_of(function(MIXED_ARGUMENTS, MIXED), "nvgpu.tma.create")
    assert cuda.launches == []


def test_the_launch_is_configured_once(mixed):
    call, cuda = mixed
    call()
    call()
    assert cuda.names().count("config") == 1
    assert cuda.names().count("launch") == 2


def test_streams(mixed):
    call, cuda = mixed
    call()  # torch's current stream
    call(stream=7)
    call()
    assert [launched.config.stream for launched in cuda.launches] == [0x51, 7, 0x51]
    assert "synchronize" not in cuda.names()


def test_threads_do_not_share_parameter_memory(mixed):
    call, cuda = mixed
    inside, release = threading.Event(), threading.Event()
    plain_launch = cuda.launch

    def slow_launch(config, function, parameters):
        if threading.current_thread() is other:
            inside.set()
            assert release.wait(10)
        plain_launch(config, function, parameters)

    cuda.launch = slow_launch
    other = threading.Thread(target=call, kwargs={"d": 0x40000})
    other.start()
    assert inside.wait(10)
    call(d=0x50000)
    release.set()
    other.join(10)
    assert [pointer(launched.parameters[2]) for launched in cuda.launches] == [0x50000, 0x40000]


def test_grid_block_cluster_and_shared_memory():
    kernel = Kernel("f_kernel", smem_bytes=100_000)
    cuda, devices = fake(kernel)
    program = sizes_program(grid="%gx, %gy, %gz", block="%n, %two, %one", cluster="%two, %one, %one")
    host = build(program, [kernel], devices=devices)
    host.call(4, 3, 2)
    host.call(6, 3, 2)
    first, second = (launched.config for launched in cuda.launches)
    assert (first.grid, first.block, first.cluster) == ((4, 3, 2), (384, 2, 1), (2, 1, 1))
    assert (first.smem, first.programmatic, second.grid) == (100_000, False, (6, 3, 2))
    assert ("allow_shared_memory", "f_kernel", 100_000) in cuda.calls


@pytest.mark.parametrize("grid", [(0, 1, 1), (2, 0, 1), (2, 1, 0)])
def test_an_empty_grid_launches_nothing(grid):
    kernel = Kernel("f_kernel")
    cuda, devices = fake(kernel)
    build(sizes_program(grid="%gx, %gy, %gz"), [kernel], devices=devices).call(*grid)
    assert cuda.launches == []


def test_a_grid_that_is_no_multiple_of_the_cluster():
    kernel = Kernel("f_kernel")
    cuda, devices = fake(kernel)
    program = sizes_program(grid="%gx, %gy, %gz", cluster="%two, %one, %one")
    host = build(program, [kernel], devices=devices)
    with pytest.raises(ArgumentError, match="the grid has 3 blocks along x, no multiple of the cluster's 2"):
        host.call(3, 1, 1)
    assert cuda.launches == []


def test_constant_launches_are_checked_when_the_plan_is_built():
    program = sizes_program(block="%n, %two, %one")
    with pytest.raises(ArgumentError, match="768 threads, the kernel was compiled for at most 512") as caught:
        build(program, [Kernel("f_kernel", max_threads=512)])
    assert caught.value.where.line == line_of(program, "gpu.launch")


@pytest.mark.parametrize(("cluster", "large"), [("%two, %two, %two", False), ("%n16, %one, %one", True)])
def test_clusters_beyond_8_blocks_are_asked_for(cluster, large):
    kernel = Kernel("f_kernel")
    cuda, devices = fake(kernel)
    program = function(
        "",
        "%one = arith.constant 1 : index\n%two = arith.constant 2 : index\n%n16 = arith.constant 16 : index\n"
        + launch("", grid="%n16, %n16, %n16", cluster=cluster)
        + "\nreturn",
    )
    build(program, [kernel], devices=devices).call()
    assert (("allow_large_clusters", "f_kernel") in cuda.calls) is large


LAUNCH_FUNC = """
module attributes {{gpu.container_module}} {{
  func.func @f() {{
    %one = arith.constant 1 : index
    gpu.launch_func @{module}::@k blocks in (%one, %one, %one) threads in (%one, %one, %one) {attributes}
    return
  }}
  gpu.module @{module} {{ gpu.func @k() kernel {{ gpu.return }} }}
}}"""


@pytest.mark.parametrize(("attributes", "programmatic"), [("{nvdsl.programmatic_launch}", True), ("", False)])
def test_programmatic_launch(attributes, programmatic):
    cuda, devices = fake(Kernel("k"))
    program = LAUNCH_FUNC.format(module="m", attributes=attributes)
    build(program, [Kernel("k")], devices=devices).call()
    assert cuda.launches[0].config.programmatic is programmatic


def test_kernels_of_one_name_in_two_modules():
    """Outlining two launches of one function gives both kernels the same name in two modules."""
    body = ONE + launch("") + launch(use("%x:i32")) + "\nreturn"
    first, second = Kernel("first"), Kernel("second", (4,))
    cuda, devices = fake(first, second)
    kernels = {"f_kernel::f_kernel": first, "f_kernel_0::f_kernel": second}
    executable.build(outlined(function("%x: i32", body)), "f", kernels, devices=devices).call(5)
    assert [launched.kernel for launched in cuda.launches] == ["first", "second"]


def test_a_missing_kernel_is_named():
    with pytest.raises(LowerError, match="no binary for kernel m::k; there are other"):
        build(LAUNCH_FUNC.format(module="m", attributes=""), [Kernel("other")])


def test_an_async_launch_with_a_token():
    body = """%one = arith.constant 1 : index
      %t = gpu.wait async
      gpu.launch async [%t] blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
        threads(%tx, %ty, %tz) in (%sx = %one, %sy = %one, %sz = %one) { gpu.terminator }
      gpu.wait
      return"""
    cuda, devices = fake(Kernel("f_kernel"))
    program = function("", body.replace("gpu.launch async", "%l = gpu.launch async"))
    build(program, [Kernel("f_kernel")], devices=devices).call()
    assert cuda.names()[-3:] == ["launch", "synchronize", "pop"]


def test_a_record_goes_back_after_the_launch_only():
    """Parameter memory is taken by one launch at a time, and used again by the next."""
    launched = Launch(0, Kernel("k", (8,)), [Parameter(1)], range(2, 8), (1,) * 6)
    cuda, _ = fake(Kernel("k", (8,)))
    frame = [Run(cuda, 0, ["k"], False), 0xABC]
    launched(frame)
    launched(frame)
    assert len(launched._pool) == 1
    assert [pointer(one.parameters[0]) for one in cuda.launches] == [0xABC, 0xABC]
