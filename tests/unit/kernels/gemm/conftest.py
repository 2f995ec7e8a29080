"""What tests of several kernels of a GEMM share."""

from types import SimpleNamespace

import pytest

from nvdsl.call.launches import Launches
from nvdsl.hopper import arch
from nvdsl.kernels.gemm import dispatch, matmul, roads, small


@pytest.fixture
def decided_for_a_gpu(monkeypatch):
    """Which kernel computes a product is decided as for an H200, not for the simulator."""
    for module in (dispatch, roads):
        monkeypatch.setattr(module, "sim", SimpleNamespace(wanted=lambda target: False))
    for module in (dispatch, roads, small):
        monkeypatch.setattr(module, "sms", lambda target: arch.SMS)


@pytest.fixture(scope="module")
def every_k_is_short():
    """A product that nobody made before is one of a short K, in the simulator, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "SIMULATED_WORK", -1)
        patch.setattr(dispatch, "SIMULATED_K", 1000)
        patch.setattr(dispatch, "SIMULATED_PRODUCTS", -1)
        patch.setattr(matmul, "_bound", {})
        patch.setattr(matmul, "_launches", Launches())
        yield
