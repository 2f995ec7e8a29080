"""Results that TMA can't store: any strides, any alignment, and nothing beyond the edge is touched."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config
from nvdsl.kernels.tensor import product
from tests.unit.gemm.strided import strided


@nv.jit
def into(a, b, flat, *, shape, strides, start, **options):
    product(a, b, strided(flat, shape, strides, start), a_major="k", b_major="mn", sms=2, direct=True, **options)


CONFIGS = [
    Config(64, 64, stages=2, consumers=1, store_buffers=1),
    Config(64, 48, stages=2, schedule="pingpong"),
    Config(64, 64, stages=2, schedule="streamk"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.schedule}-{c.tile_n}")
@pytest.mark.parametrize(
    ("strides", "start"), [((73, 1), 1), ((160, 2), 0), ((1, 71), 0)], ids=["odd rows", "gaps", "columns"]
)
@pytest.mark.parametrize("dtype", [nv.f16, nv.f32], ids=lambda t: t.name)
def test_any_strides(config, strides, start, dtype):
    rng = np.random.default_rng(0)
    m, n, k = 70, 65, 136
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n + 7)))
    memory = np.full(start + 1 + (m - 1) * strides[0] + (n - 1) * strides[1] + 5, -2000, dtype.numpy)
    out = np.lib.stride_tricks.as_strided(memory[start:], (m, n), [s * memory.itemsize for s in strides])
    into(a, b, memory, shape=(m, n), strides=strides, start=start, config=config, target="sim")
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b[:, :n].astype(np.float32))
    assert (memory == -2000).sum() == memory.size - m * n, "an element outside of the result was written"
