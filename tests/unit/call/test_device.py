import functools

import numpy as np
import pytest
from cuda.bindings import driver as api

import nvdsl as nv
from nvdsl import sim
from nvdsl.driver import cuda, device
from nvdsl.driver.device import devices


def test_no_gpu_is_none_or_one_sentence():
    reason = nv.no_gpu()
    assert reason is None or (isinstance(reason, str) and len(reason) > 10 and "\n" not in reason)


@pytest.mark.skipif(nv.no_gpu() is None, reason="this machine has a Hopper GPU")
def test_without_a_gpu_synchronize_says_so(monkeypatch):
    monkeypatch.setattr(sim, "wanted", lambda target=None: False)  # as NVDSL_TARGET=gpu asks for
    with pytest.raises(nv.DeviceError) as caught:
        nv.synchronize()
    error = caught.value
    assert error.message == nv.no_gpu()
    assert "compil" in error.rule, "what works without one"
    assert error.fix


@pytest.mark.parametrize("code", [api.CUresult.CUDA_ERROR_NO_DEVICE, api.CUresult.CUDA_SUCCESS])
def test_a_driver_that_sees_no_gpu_is_none(code, monkeypatch):
    """As where CUDA_VISIBLE_DEVICES is empty: the driver does not start, or it counts no devices."""
    success = api.CUresult.CUDA_SUCCESS
    monkeypatch.setattr(api, "cuInit", lambda flags: (code,))
    for name in ("cuDeviceGetCount", "cuCtxGetCurrent"):
        monkeypatch.setattr(api, name, lambda: (success, 0))
    for name, text in (("cuGetErrorName", b"CUDA_ERROR_NO_DEVICE"), ("cuGetErrorString", b"no device is detected")):
        monkeypatch.setattr(api, name, lambda code, text=text: (success, text))
    for owner, name, value in ((cuda, "_the_cuda", None), (devices, "_cuda", None), (devices, "_default", None)):
        monkeypatch.setattr(owner, name, value)
    for owner, name in ((sim, "_default"), (device, "simulated")):
        monkeypatch.setattr(owner, name, functools.cache(getattr(owner, name).__wrapped__))
    assert ("NO_DEVICE" in nv.no_gpu()) if code else (nv.no_gpu() == "the NVIDIA driver sees no GPU")
    assert np.array_equal(nv.softmax(np.zeros((1, 8), np.float32)), np.full((1, 8), 0.125)), "it is simulated"
    nv.synchronize()
    with pytest.raises(nv.DeviceError, match="no usable NVIDIA GPU" if code else "sees no GPU"):
        nv.softmax(np.zeros((1, 8), np.float32), target="gpu")
