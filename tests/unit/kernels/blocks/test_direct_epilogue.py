"""Results that TMA can't store: any strides, any alignment, and nothing beyond the edge is touched."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config
from nvdsl.kernels.blocks.direct_epilogue import VECTORS
from nvdsl.kernels.blocks.either_epilogue import EITHER
from nvdsl.kernels.gemm import blockscaled
from nvdsl.kernels.gemm.factors import direct_store
from nvdsl.kernels.gemm.problem import Matrix
from nvdsl.kernels.gemm.tensor_core import matmul as product
from nvdsl.lang.extents import shaped
from tests.exhaustive import sample
from tests.unit.kernels.strided import strided


@nv.jit
def into(a, b, flat, *, shape, strides, start, direct_store=False, **options):
    options = {"a_major": "k", "b_major": "mn", "sms": 2, "direct_store": direct_store, **options}
    product(a, b, strided(flat, shape, strides, start), **options)


CONFIGS = [
    Config(64, 64, stages=2, consumers=1, store_buffers=1),
    Config(64, 48, stages=2, schedule="pingpong"),
    Config(64, 64, stages=2, schedule="streamk"),
]


PLACES = {"odd rows": ((73, 1), 1), "gaps": ((160, 2), 0), "columns": ((1, 71), 0)}
"""Strides and where the result starts, in elements."""


@pytest.mark.parametrize(
    ("config", "place", "dtype"),
    sample(itertools.product(CONFIGS, PLACES, (nv.f16, nv.f32)), 5),
    ids=lambda x: x.schedule if isinstance(x, Config) else str(x),
)
def test_any_strides(config, place, dtype):
    strides, start = PLACES[place]
    rng = np.random.default_rng(0)
    m, n, k = 70, 65, 136
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n + 7)))
    memory = np.full(start + 1 + (m - 1) * strides[0] + (n - 1) * strides[1] + 5, -2000, dtype.numpy)
    out = np.lib.stride_tricks.as_strided(memory[start:], (m, n), [s * memory.itemsize for s in strides])
    into(a, b, memory, shape=(m, n), strides=strides, start=start, config=config, direct_store=True, target="sim")
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b[:, :n].astype(np.float32))
    assert (memory == -2000).sum() == memory.size - m * n, "an element outside of the result was written"


@pytest.mark.parametrize(("m", "pitch"), [(3, 104), (1, 100)], ids=["padded rows", "one row"])
def test_what_lies_behind_a_row_is_not_written_over(m, pitch):
    # TMA could store these rows, but it clips them at whole 16 bytes.
    a, b = np.ones((m, 64), np.float16), np.ones((64, 100 + 4), np.float16)
    memory = np.full((m, pitch), -2000, np.float16)
    into(a, b, memory.reshape(-1), shape=(m, 100), strides=(pitch, 1), start=0, config=CONFIGS[0], target="sim")
    assert (memory[:, :100] == 64).all() and (memory[:, 100:] == -2000).all()


def test_one_row_with_block_scales_ends_where_it_ends():
    a, b = np.ones((1, 128), ml_dtypes.float8_e4m3fn), np.ones((128, 100), ml_dtypes.float8_e4m3fn)
    scales = np.full((1, 1), 2, np.float32), np.full((1, 1), 3, np.float32)
    out = np.zeros((1, 100), np.float16)
    blockscaled.gemm(a, b.T.copy(), *scales, out, sms=2, target="sim")
    assert (out == 128 * 6).all()


@pytest.mark.parametrize(("dtype", "pitch"), sample([(nv.f16, 205), (nv.f32, 134), (nv.bf16, 140)], 1), ids=str)
def test_whole_vectors_of_rows_that_start_anywhere(dtype, pitch):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (70, 72)).astype(np.float16), rng.integers(-3, 4, (72, 133)).astype(np.float16)
    if dtype is nv.bf16:
        a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    memory = np.full((70, pitch), -2000, dtype.numpy)
    nv.matmul(a, b, memory[:, :133], config=CONFIGS[0], target="sim")
    np.testing.assert_array_equal(memory[:, :133], a.astype(np.float32) @ b.astype(np.float32))
    assert (memory[:, 133:] == -2000).all()


EITHER_WAY = [
    *CONFIGS,
    Config(64, 64, stages=2, consumers=1, store_buffers=1, swap_ab=True),
    Config(64, 48, stages=2, schedule="pingpong", swap_ab=True),
    Config(64, 32, stages=2, schedule="splitk", consumers=1, split=2, store_buffers=1),
]


@pytest.mark.parametrize(
    ("config", "dtype"),
    sample(itertools.product(EITHER_WAY, (nv.f16, nv.f32)), 2),
    ids=lambda x: f"{x.schedule}{'-swapped' * x.swap_ab}" if isinstance(x, Config) else str(x),
)
def test_one_kernel_stores_by_tma_or_by_threads(config, dtype):
    """As N and where rows start say: TMA stores the second and the fourth of these."""

    @nv.jit
    def into_rows(a: nv.Array["m", "k"], b: nv.Array["n", "k"], rows: nv.Array["m", "pitch"]):  # noqa: F821
        out = shaped(rows, rows.dtype, (a.shape[0], b.shape[0]), (rows.shape[1], 1))
        product(a, b, out, a_major="k", b_major="k", sms=2, direct_store=EITHER, config=config)

    rng = np.random.default_rng(0)
    for m, n, pitch in ((70, 65, 65), (70, 72, 72), (70, 72, 74), (2, 8, 16), (3, 5, 8), (70, 133, 141)):
        a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, 136), (n, 136)))
        memory = np.full((m, pitch), -2000, dtype.numpy)
        into_rows(a, b, memory, target="sim")
        np.testing.assert_array_equal(memory[:, :n], a.astype(np.float32) @ b.T.astype(np.float32))
        assert (memory[:, n:] == -2000).all(), "an element outside of the result was written"
    assert len(into_rows._compiled) == 1


def test_which_results_are_stored_by_vectors():
    def stored(strides, dtype=nv.f16, **more):
        return direct_store(Matrix(dtype, (70, 133), strides, **more), chosen=False)

    assert stored((133, 1)) == stored((205, 1), nv.f32) == VECTORS
    assert {direct_store(Matrix(nv.f16, (70, n), (n, 1))) for n in (64, 133)} == {EITHER}
    assert direct_store(Matrix(nv.f16, (1, 5), (5, 1))) == VECTORS, "less than a vector of memory"
    assert stored((133, 1), aligned=False) is stored((1, 70)) is stored((133, 1), nv.e4m3) is True
