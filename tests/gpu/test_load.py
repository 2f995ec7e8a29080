"""Kernels and host functions that are loaded from MLIR's text."""

import numpy as np
import pytest

from nvdsl import thin
from nvdsl.testing import in_child
from tests.unit.load_modules import COPIED, DOUBLED, REVERSED


@in_child(timeout=60)
def test_a_host_function_launches_an_outlined_kernel_in_clusters():
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    loaded = thin.load(REVERSED)
    loaded["main"](x, y, 2.0)
    np.testing.assert_array_equal(y, 2 * x.reshape(4, 64)[:, ::-1].ravel())
    loaded["reverse"](x, y, 3.0, grid=4, block=64, cluster=4)
    np.testing.assert_array_equal(y, 3 * x.reshape(4, 64)[:, ::-1].ravel())


@pytest.mark.parametrize("count", [1, 70])
@in_child(timeout=60)
def test_pointers_and_dynamic_shapes(count):
    x, y = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
    thin.load(DOUBLED)["double"](x, y, count, grid=-(-count // 32))
    np.testing.assert_array_equal(y, 2 * x)


@in_child(timeout=60)
def test_tma_into_a_shared_global():
    x = np.arange(128 * 64).reshape(128, 64).astype(np.float16)
    y = np.zeros_like(x)
    thin.load(COPIED)["main"](x, y)
    np.testing.assert_array_equal(y, x)


@in_child(timeout=60)
def test_arrays_of_the_device():
    torch = pytest.importorskip("torch")
    x, y = torch.arange(64, dtype=torch.float32, device="cuda"), torch.zeros(64, device="cuda")
    thin.load(DOUBLED)["double"](x, y, 64, grid=2)
    assert torch.equal(y, 2 * x)
