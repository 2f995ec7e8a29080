"""The GEMM in specifications, in shapes, types, stages and divisions of the block."""

import ml_dtypes
import numpy as np
import pytest

from nvdsl import sim
from nvdsl.ir.walk import walk
from tests.exhaustive import sample
from tests.sim.programs import load
from tests.sim.simulate import traced

gemm = load("tests/programs/graphene_gemm.py").gemm


def _case(m, n, k, dtype, out, **options):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    d = np.full((m, n), np.nan, out)
    return traced(gemm, a, b, d, **options), d, a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize(("shape", "dtype", "out", "options"), sample([
    ((128, 64, 96), np.float16, np.float32, {}),
    ((64, 64, 32), np.float16, np.float16, {"stages": 3}),
    ((64, 128, 128), ml_dtypes.bfloat16, np.float32, {"stages": 4, "tile": (64, 64, 32)}),
    ((32, 32, 64), np.float16, np.float16, {"tile": (32, 32, 64), "warps": (2, 1)}),
    ((64, 32, 64), ml_dtypes.bfloat16, ml_dtypes.bfloat16, {"tile": (64, 32, 16), "warps": (4, 1), "stages": 3}),
], 3))  # fmt: skip
def test_product(shape, dtype, out, options):
    program, d, expected = _case(*shape, dtype, out, **options)
    program.run(sim.Options(order="random", seed=3))
    np.testing.assert_array_equal(d, expected.astype(out))


def test_instructions():
    program, _, _ = _case(64, 64, 64, np.float16, np.float16)
    names = [op.name for op in walk(program.module.operation)]
    assert names.count("nvvm.mma.sync") == 2 * 4 * 2  # 32 x 32 of a warp, K of 32
    assert names.count("nvvm.ldmatrix") == 4 + 4
    assert names.count("nvvm.stmatrix") == 4
    assert names.count("nvgpu.device_async_copy") == 2 * (2 + 2)
    assert names.count("vector.load") == names.count("vector.store") == 4


def test_after_lowering():
    program, d, expected = _case(64, 64, 96, np.float16, np.float32, stages=3)
    program.run(sim.Options(level="nvvm", delivery="eager"))
    np.testing.assert_array_equal(d, expected)
