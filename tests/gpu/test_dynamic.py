"""Named extents on the device: many sizes through one compilation, views, scratch memory, large arrays, debug mode."""
# ruff: noqa: F821

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from benchmarks.twins import products, twin
from nvdsl.testing import in_child

CHAPTERS = {
    "ch5_warp_specialized_gemm": ("float32", (128, 256)),
    "ch6_tma_store_gemm": ("float16", (128, 256)),
    "ch7_persistent_gemm": ("float16", (128, 256)),
    "ch8_cluster_gemm": ("float16", (256, 256)),
    "ch9_pingpong_gemm": ("float16", (128, 64)),
}


def chapter(name):
    sys.path.insert(0, str(Path(__file__).parents[2] / "chapters"))
    return importlib.import_module(name).gemm


def check(gemm, m, n, k, dtype="float16", **constants):
    rng = np.random.default_rng((m, n, k))
    a, b = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(-3, 4, (k, n)).astype(np.float16)
    d = np.full((m, n), np.nan, dtype)
    gemm(a, b, d, **constants)
    np.testing.assert_array_equal(d, (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype))


@in_child(timeout=120)
def test_random_sizes_of_a_gemm():
    gemm, rng = chapter("ch15_dynamic_shapes"), np.random.default_rng(0)
    for _ in range(60):
        m, n, k = rng.integers(1, 700), 8 * rng.integers(1, 90), 8 * rng.integers(1, 40)
        check(gemm, int(m), int(n), int(k))
    assert len(gemm._compiled) == 1


@pytest.mark.parametrize("name", CHAPTERS)
@in_child(timeout=120)
def test_a_chapter_with_named_extents(name):
    dtype, (rows, cols) = CHAPTERS[name]
    gemm = twin(chapter(name), **products())
    for m, n, k in ((1, 1, 64), (2, 3, 1024), (5, 2, 200), (1, 4, 8)):
        check(gemm, m * rows, n * cols, k, dtype)
    assert len(gemm._compiled) == 1


@nv.jit
def copied(x: nv.Array["m", "k"], y: nv.Array["m", "k"]):
    """y = x, through scratch memory and views."""
    m, k = x.shape
    scratch = nv.empty((k, m), nv.f32)
    left, right = y[:, : k // 2], y[:, k // 2 :]

    @nv.kernel(grid=m, block=64)
    def turn():
        row = nv.block_id.x
        for i in nv.range(nv.thread_id.x, k, 64):
            scratch[i, row] = x[row, i]

    @nv.kernel(grid=m, block=64)
    def back():
        row = nv.block_id.x
        for i in nv.range(nv.thread_id.x, left.shape[1], 64):
            left[row, i] = scratch[i, row]
        for i in nv.range(nv.thread_id.x, right.shape[1], 64):
            right[row, i] = scratch[left.shape[1] + i, row]

    turn()
    back()


@in_child(timeout=60)
def test_views_and_scratch_memory():
    for shape in ((1, 2), (3, 100), (1000, 33), (0, 5), (7, 4097)):
        x = np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
        y = np.full_like(x, np.nan)
        copied(x, y)
        np.testing.assert_array_equal(y, x)
    assert len(copied._compiled) == 1


@nv.jit
def corner(x: nv.Array["m", "n"]):
    m, n = x.shape

    @nv.kernel(grid=1, block=1)
    def kernel():
        x[m - 1, n - 1] = 7.0

    kernel()


@in_child(timeout=120)
def test_more_than_2_to_the_31_elements():
    torch = pytest.importorskip("torch")
    x = torch.zeros((1 << 16) + 3, (1 << 15) + 8, dtype=torch.float16, device="cuda")
    assert x.numel() > 1 << 31
    corner(x)
    assert x[-1, -1].item() == 7 and int(x.count_nonzero(dim=1).sum()) == 1


@in_child(timeout=120)
def test_the_same_kernel_for_rows_of_a_wider_array_and_another_for_columns():
    torch = pytest.importorskip("torch")
    gemm = chapter("ch15_dynamic_shapes")
    wide = torch.randn(300, 512, device="cuda").half()
    b, d = torch.randn(256, 128, device="cuda").half(), torch.empty(300, 128, device="cuda").half()
    for a in (wide[:, :256], wide[:, 128:384], wide[:200, 256:]):
        out = d[: len(a)]
        gemm(a, b, out)
        assert ((out.float() - a.float() @ b.float()).norm() / out.float().norm()).item() < 1e-3
    assert len(gemm._compiled) == 1
    with pytest.raises(nv.ArgumentError, match="contiguous"):
        gemm(torch.randn(256, 300, device="cuda").half().T[:, :256], b, d)


@nv.jit
def beyond(x: nv.Array["m", "n"]):
    @nv.kernel(grid=2, block=1)
    def kernel():
        x[nv.block_id.x + x.shape[0] - 1, 0] = 1.0

    kernel()


@pytest.mark.alone
@in_child(timeout=60)
def test_debug_mode_knows_the_true_extents():
    with pytest.raises(nv.errors.WatchdogError) as caught:
        nv.debug.run(beyond, np.zeros((5, 3), np.float32), env={"NVDSL_VERIFY": "off"}, timeout=30)
    assert caught.value.kind == "out-of-bounds"
    assert "(5, 0)" in str(caught.value) and "the largest legal index is 4" in str(caught.value)
