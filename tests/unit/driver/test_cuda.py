"""Cuda: what it hands to the driver API, with the bindings' own structures, and how it reports errors."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
from cuda.bindings import driver

from nvdsl.driver.cuda import STICKY, Cuda, CudaError, EncodedMap
from nvdsl.hopper.tensor_maps import TensorMap

OK = driver.CUresult.CUDA_SUCCESS


class Api:
    """cuda.bindings.driver with its functions replaced: they record, and return ``answers[name]``."""

    def __init__(self, **answers):
        self.answers, self.calls = answers, []

    def __getattr__(self, name):
        if not name.startswith("cu") or name[2].islower():
            return getattr(driver, name)  # enums and structures

        def call(*arguments):
            self.calls.append((name, *arguments))
            return self.answers.get(name, (OK,))

        return call


def make(**answers):
    cuda = Cuda.__new__(Cuda)
    cuda._api = Api(**answers)
    return cuda, cuda._api.calls


def test_a_tensor_map_is_encoded_in_the_drivers_order():
    encoded = (ctypes.c_char * 128)(*range(128))
    cuda, calls = make(cuTensorMapEncodeTiled=(OK, SimpleNamespace(getPtr=lambda: ctypes.addressof(encoded))))
    tensor_map = TensorMap(
        "bf16", (7, 512, 256), (512 * 256, 256, 1), (1, 128, 64), "swizzle_128b", "l2promo_256b", "nan"
    )
    result = cuda.encode(tensor_map, 0x7F00)
    ((_, data_type, rank, address, dims, strides, box, steps, *modes),) = calls
    assert data_type is driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    assert (rank, address) == (3, 0x7F00)
    assert [int(n) for n in dims] == [256, 512, 7]
    assert [int(n) for n in strides] == [512, 512 * 512]
    assert [int(n) for n in box] == [64, 128, 1]
    assert [int(n) for n in steps] == [1, 1, 1]
    assert modes == [
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    ]
    assert ctypes.string_at(result.address, 128) == bytes(range(128))


@pytest.mark.parametrize("shift", range(0, 64, 16))
def test_encoded_maps_are_64_byte_aligned_copies(shift):
    source = (ctypes.c_char * 256)(*range(256))
    result = EncodedMap(ctypes.addressof(source) + shift)
    assert result.address % 64 == 0
    assert ctypes.string_at(result.address, 128) == bytes(range(shift, shift + 128))


def test_a_tensor_map_is_moved_by_the_driver():
    cuda, calls = make()
    source = (ctypes.c_char * 128)(*range(128))
    first = EncodedMap(ctypes.addressof(source))
    moved = cuda.moved(first, TensorMap("f16", (64,), (1,), (64,)), 0x7F00)
    ((name, tensor_map, address),) = calls
    assert (name, int(tensor_map.getPtr()), address) == ("cuTensorMapReplaceAddress", moved.address, 0x7F00)
    assert moved.address != first.address
    assert ctypes.string_at(moved.address, 128) == bytes(range(128))


@pytest.mark.parametrize("current", [0, 7, 8])
def test_whether_a_context_is_current(current):
    cuda, _ = make(cuCtxGetCurrent=(OK, driver.CUcontext(current)))
    assert cuda.is_current(driver.CUcontext(7)) == (current == 7)
    assert cuda.current_context() == current


def test_launch_configuration():
    cuda, calls = make()
    config = cuda.launch_config((3, 2, 1), (384, 1, 1), (2, 1, 1), 232448, True)
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (3, 2, 1)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (384, 1, 1)
    assert (config.sharedMemBytes, config.numAttrs) == (232448, 2)
    cluster, serialization = config.attrs
    assert cluster.id is driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert (cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z) == (2, 1, 1)
    name = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert serialization.id is getattr(driver.CUlaunchAttributeID, name)
    assert serialization.value.programmaticStreamSerializationAllowed == 1
    cuda.set_stream(config, 0x1234)
    assert int(config.hStream) == 0x1234
    cuda.launch(config, "function", 0x99)
    assert calls == [("cuLaunchKernelEx", config, "function", 0x99, 0)]


def test_a_plain_launch_has_no_attributes():
    config = make()[0].launch_config((1, 1, 1), (1, 1, 1), None, 0, False)
    assert (config.numAttrs, config.attrs, int(config.hStream)) == (0, [], 0)


def test_memory_calls():
    cuda, calls = make(cuMemAllocAsync=(OK, 0x7000))
    assert cuda.alloc(0, 5) == 0x7000
    cuda.copy(1, 2, 0, 5)
    cuda.copy(1, 2, 8, 5)
    cuda.fill(1, 7, 2, 0, 5)
    cuda.fill(1, 7, 2, 3, 5)
    cuda.free(0x7000, 5)
    assert calls == [
        ("cuMemAllocAsync", 1, 5),  # the driver refuses 0 bytes
        ("cuMemcpyAsync", 1, 2, 8, 5),
        ("cuMemsetD16Async", 1, 7, 3, 5),
        ("cuMemFreeAsync", 0x7000, 5),
    ]


@pytest.mark.parametrize(("kept", "set_to"), [(0, [100]), (100, []), (1 << 40, [])])
def test_the_pool_keeps_more_but_never_less_than_before(kept, set_to):
    cuda, calls = make(cuDeviceGetDefaultMemPool=(OK, "pool"), cuMemPoolGetAttribute=(OK, kept))
    cuda.keep_memory(2, 100)
    assert calls[0] == ("cuDeviceGetDefaultMemPool", 2)
    assert [int(call[3]) for call in calls if call[0] == "cuMemPoolSetAttribute"] == set_to


def test_every_driver_function_exists():
    """The names in cuda.py, and those that it builds, are functions of the bindings."""
    import inspect
    import re

    from nvdsl.driver import cuda, cuda_error

    names = set(re.findall(r"\bcu[A-Z]\w+\b", inspect.getsource(cuda))) - {"cuMemsetD"}
    names |= {f"cuMemsetD{bits}Async" for bits in (8, 16, 32)}
    assert [name for name in sorted(names) if not hasattr(driver, name)] == []
    known = {code.name for code in driver.CUresult}
    assert (STICKY | set(cuda_error._FIXES)) <= known


def test_errors_carry_the_drivers_words():
    bad = driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    cuda, _ = make(
        cuModuleLoadData=(bad, None),
        cuGetErrorName=(OK, b"CUDA_ERROR_NO_BINARY_FOR_GPU"),
        cuGetErrorString=(OK, b"no kernel image"),
    )
    with pytest.raises(
        CudaError, match=r"^cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU \(no kernel image\)"
    ) as caught:
        cuda.load_module(b"x")
    assert caught.value.code == "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert "sm_90a" in caught.value.fix


def test_a_failed_launch_is_an_error():
    bad = driver.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE
    cuda, _ = make(cuLaunchKernelEx=(bad,), cuGetErrorName=(OK, b"NAME"), cuGetErrorString=(OK, b"text"))
    with pytest.raises(CudaError, match="cuLaunchKernelEx: NAME"):
        cuda.launch(None, None, 0)


def test_contexts():
    cuda, _ = make(cuCtxGetCurrent=(OK, driver.CUcontext(0x55)), cuCtxGetDevice=(OK, 3))
    assert (cuda.current_context(), cuda.current_device()) == (0x55, 3)
    cuda, calls = make(cuCtxGetCurrent=(OK, driver.CUcontext(0)))
    assert cuda.current_device() is None
    assert [name for name, *_ in calls] == ["cuCtxGetCurrent"]
