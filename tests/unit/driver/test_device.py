"""Devices: which one, whether it can be used, and what is loaded into it."""

from __future__ import annotations

import pytest

from nvdsl.driver import cuda as driver
from nvdsl.driver.cuda import CudaError
from nvdsl.driver.device import Devices, probe
from nvdsl.errors import DeviceError
from tests.unit.driver.fake_cuda import FakeCuda, Kernel, fake


def test_probe_says_nothing_where_a_hopper_gpu_is():
    assert probe(fake()[1]) is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"count": 0}, "sees no GPU"),
        ({"capability": (8, 0)}, r"device 0 \(Fake 0\) has compute capability 8.0, not 9.0"),
        ({"capability": (10, 0)}, "compute capability 10.0"),
        ({"version": 11080}, r"driver is for CUDA 11.8; 13.0 or newer"),
    ],
)
def test_probe_gives_the_reason(options, text):
    _, devices = fake(**options)
    with pytest.raises(DeviceError, match=text) as caught:
        devices.default()
    assert caught.value.fix
    assert probe(devices) == caught.value.message


def test_the_reason_names_each_device_once():
    assert probe(fake(count=2, version=11080)[1]).count("11.8") == 1
    assert probe(fake(count=2, capability=(8, 9))[1]).count("8.9") == 2


def broken(error):
    def make():
        raise error

    return make


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ImportError("no module cuda"), "bindings can't be imported"),
        (RuntimeError("libcuda.so.1 not found"), r"no NVIDIA driver: libcuda can't be loaded \(RuntimeError\)"),
        (CudaError("cuInit", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device"), "CUDA_ERROR_NO_DEVICE"),
    ],
)
def test_without_a_driver(monkeypatch, error, text):
    monkeypatch.setattr(driver, "_the_cuda", None)
    with pytest.raises(DeviceError, match=text) as caught:
        driver.cuda(broken(error))
    assert caught.value.fix


def test_the_driver_is_made_once(monkeypatch):
    monkeypatch.setattr(driver, "_the_cuda", None)
    first = driver.cuda(FakeCuda)
    assert driver.cuda(FakeCuda) is first


def test_the_threads_current_device_is_the_default():
    cuda, devices = fake(count=2)
    assert devices.default().ordinal == 0
    cuda.current = 0x101
    assert devices.default().ordinal == 1


def test_kernels_are_loaded_once_a_device():
    cuda, devices = fake(count=2)
    kernel = Kernel("k")
    assert devices.get(0).function(kernel) == devices.get(0).function(kernel) == "k"
    assert cuda.names() == ["load", "function"]
    devices.get(1).function(kernel)
    assert cuda.names().count("load") == 2


def test_two_kernels_of_one_cubin_share_the_module():
    cuda, devices = fake()
    devices.get(0).function(Kernel("a"))
    devices.get(0).function(Kernel("b"))
    assert cuda.names() == ["load", "function", "function"]


@pytest.mark.parametrize(("size", "asked"), [(48 << 10, False), ((48 << 10) + 1, True), (232448, True)])
def test_shared_memory_beyond_48_kib_is_asked_for(size, asked):
    cuda, devices = fake()
    devices.get(0).function(Kernel("k", smem_bytes=size))
    assert (("allow_shared_memory", "k", size) in cuda.calls) is asked


def test_large_clusters_are_asked_for():
    cuda, devices = fake()
    devices.get(0).function(Kernel("k"), large_cluster=True)
    assert ("allow_large_clusters", "k") in cuda.calls


def test_a_kernel_that_cant_be_loaded():
    _, devices = fake(fail={"load": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"})
    with pytest.raises(DeviceError, match=r"kernel k .*device 0 \(Fake 0, driver for CUDA 13.0\)") as caught:
        devices.get(0).function(Kernel("k"))
    assert "ptxas" in caught.value.fix


def test_devices_do_not_touch_the_driver_until_used(monkeypatch):
    monkeypatch.setattr(driver, "cuda", broken(AssertionError("touched")))
    Devices()
