"""Tuning on the device: a memory-bound kernel, a GEMM, and candidates that hang, crash or are wrong."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import assert_close, in_child, matmul, random

pytestmark = pytest.mark.alone  # it measures time

GEMM_SPACE = nv.Space(tile=[(64, 128, 64), (128, 128, 64), (128, 256, 64)], stages=[2, 3, 4])


@nv.autotune(nv.Space(block=[64, 128, 256, 512], each=[1, 2, 4, 8]))
@nv.jit
def saxpy(x, y, alpha, *, block=256, each=1):
    (n,) = x.shape
    nv.require_multiples(n=(n, block * each))

    @nv.kernel(grid=n // (block * each), block=block)
    def kernel():
        first = nv.block_id.x * (block * each) + nv.thread_id.x
        for j in range(each):
            y[first + j * block] += alpha * x[first + j * block]

    kernel()


@nv.autotune(GEMM_SPACE.where(lambda tile, stages, a: stages * sum(tile[:2]) * tile[2] * a.dtype.bytes < 200_000,
                              "the ring fits"))  # fmt: skip
@nv.jit
def gemm(a, b, d, *, stages=3, tile=(128, 128, 64)):
    """Chapter 4's."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, BN), K=(K, BK))
    steps = K // BK
    a_tma, b_tma = nv.TMA(a, tile=(BM, BK), swizzle=128), nv.TMA(b, tile=(BK, BN), swizzle=128)

    @nv.kernel(grid=(M // BM, N // BN), block=128)
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        full = nv.Mbarriers(stages, arrivals=1)
        row, col = nv.block_id.x * BM, nv.block_id.y * BN

        def load(k):
            slot = k % stages
            if nv.thread_id.x == 0:
                full[slot].arrive_expect_tx(A.bytes + B.bytes)
                a_tma.load(A[slot], full[slot], (row, k * BK))
                b_tma.load(B[slot], full[slot], (k * BK, col))

        for k in range(min(stages - 1, steps)):
            load(k)
        acc = nv.accumulator(BM, BN, nv.f32)
        for k in nv.range(steps):
            slot = k % stages
            full[slot].wait((k // stages) & 1)
            acc += A[slot] @ B[slot]
            nv.wgmma_wait(1)
            nv.sync_threads()
            if k + stages - 1 < steps:
                load(k + stages - 1)
        nv.wgmma_wait(0)
        acc.store(d, (row, col))

    kernel()


@nv.autotune(nv.Space(how=["right", "wrong", "hangs", "crashes"], block=[64, 128, 256]))
@nv.jit
def trouble(x, y, *, how="right", block=128):
    """y = 2 x, or not."""

    @nv.kernel(grid=x.shape[0] // block, block=block)
    def kernel():
        i = nv.block_id.x * block + nv.thread_id.x
        y[i] = 2.0 * x[i]
        if how == "wrong" and i == 77:
            y[i] = 0.0
        if how == "hangs" and block == 128:
            bars = nv.Mbarriers(1, arrivals=1)
            bars[0].wait(0)
        if how == "crashes" and block == 64:
            y[i + (1 << 30)] = 1.0

    kernel()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NVDSL_CACHE_DIR", str(tmp_path))
    return tmp_path


def states(found):
    return {tuple(c.config.values()): c.state for c in found.candidates}


@in_child(timeout=120)
def test_saxpy_tuned_is_no_slower_than_its_defaults():
    n = nv.ShapeDtype((1 << 24,), nv.f32)
    found = saxpy.tune(n, n, 2.0, budget=40)
    print(found)
    assert found.source == "tuned"
    timed = {tuple(c.config.values()): c.ratio for c in found.candidates if c.ratio}
    assert timed[256, 1] >= 1.0
    assert saxpy.choice(n, n, 2.0) == ("cache", found.config)
    x, y = (np.random.default_rng(s).standard_normal(1 << 24, dtype=np.float32) for s in (0, 1))
    expected = 2 * x + y
    saxpy(x, y, 2.0)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@in_child(timeout=180)
def test_gemm_tuned_and_used():
    shapes = [nv.ShapeDtype((2048, 2048), nv.f16)] * 3
    start = time.monotonic()
    found = gemm.tune(*shapes, budget=60)
    print(found, f"\nwith everything: {time.monotonic() - start:.1f} s")
    assert {"chosen", "slower"} <= set(found.count())
    a, b = random((2048, 2048), nv.f16, 1), random((2048, 2048), nv.f16, 2)
    d = np.full((2048, 2048), np.nan, np.float16)
    gemm(a, b, d)
    assert_close(d, matmul(a, b, precision=np.float32), nv.f16, 2048)
    (file,) = Path(os.environ["NVDSL_CACHE_DIR"], "tune", "gemm").iterdir()
    assert json.loads(file.read_text())["config"] == found.config.plain()


@in_child(timeout=180)
def test_bad_candidates_are_found_and_take_nothing_down():
    from nvdsl.tune import bench

    bench.CHECK_DEADLINE = 8.0
    x = nv.ShapeDtype((1 << 16,), nv.f32)
    trouble.overrides["make_bench"] = lambda setup, packed: bench.ProcessBench(setup, packed, check_deadline=8.0)
    found = trouble.tune(x, x, budget=90)
    print(found)
    kinds = states(found)
    assert all(kinds[block, "wrong"] == "wrong" for block in (64, 128, 256))
    assert kinds[128, "hangs"] == "failed"
    assert kinds[64, "crashes"] == "failed"
    assert found.config["how"] in ("right", "hangs", "crashes") and kinds[tuple(found.config.values())] == "chosen"
    y = np.zeros(1 << 16, np.float32)  # and this process's context is as it was
    x = np.ones(1 << 16, np.float32)
    trouble(x, y)
    assert (y == 2).all()


@in_child(timeout=60)
def test_the_first_call_of_a_kernel_that_is_known_is_a_look_up():
    os.environ["NVDSL_CACHE"] = "on"
    a = nv.ShapeDtype((1024, 1024), nv.f16)
    first = gemm.compile(a, a, a).seconds
    gemm._compiled.clear()
    again = gemm.compile(a, a, a).seconds
    print(first, again)
    assert "ptxas" in first and "look-up" in again and "ptxas" not in again
    x, y = random((1024, 1024), nv.f16, 1), random((1024, 1024), nv.f16, 2)
    d = np.full((1024, 1024), np.nan, np.float16)
    gemm(x, y, d)
    assert_close(d, matmul(x, y, precision=np.float32), nv.f16, 1024)
