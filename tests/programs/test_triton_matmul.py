"""The product of Triton's tutorial: extents, types, transposed operands."""

import numpy as np
import pytest

import nvdsl as nv
from tests.programs.triton_matmul import matmul

SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "warps": (1, 2), "GROUP_M": 2}


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


@pytest.mark.parametrize("size", [(64, 96, 64), (70, 40, 100), (33, 35, 37), (1, 1, 1)])
@pytest.mark.parametrize("flags", [{}, {"TRANS_A": True, "TRANS_B": True}])
def test_products(size, flags):
    m, n, k = size
    a, b = numbers((k, m) if flags else (m, k), np.float16, 0), numbers((n, k) if flags else (k, n), np.float16, 1)
    c = np.full((m, n), np.nan, np.float32)
    matmul(a, b, c, **SMALL, **flags)
    np.testing.assert_array_equal(c, np.float32(a.T if flags else a) @ np.float32(b.T if flags else b))


def test_bf16_and_more_stages_than_steps():
    a, b = numbers((40, 24), nv.bf16.numpy, 0), numbers((24, 48), nv.bf16.numpy, 1)
    c = np.zeros((40, 48), nv.bf16.numpy)
    matmul(a, b, c, **SMALL, num_stages=4)
    np.testing.assert_array_equal(np.float32(c), np.float32(a) @ np.float32(b))


@pytest.mark.parametrize("flags", [{}, {"TRANS_A": True}, {"TRANS_B": True}])
def test_compiles_without_spills(flags):
    shapes = [nv.ShapeDtype((1024, 1024), nv.f16)] * 3
    (kernel,) = matmul.compile(*shapes, BLOCK_N=256, warps=(2, 4), num_stages=4, **flags).kernels.values()
    assert kernel.resources.spill_stores == 0 and "ldmatrix" in kernel.ptx and "cp.async.cg" in kernel.ptx
