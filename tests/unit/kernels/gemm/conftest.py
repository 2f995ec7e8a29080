"""What tests of several kernels of a GEMM share."""

import pytest

from nvdsl.call.launches import Launches
from nvdsl.kernels.gemm import dispatch, matmul


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
