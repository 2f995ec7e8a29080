"""Specifications on the device: each instruction that they choose."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import assert_close, in_child, matmul, random
from tests.sim import spec_kernels as kernels
from tests.sim.programs import load
from tests.sim.test_specs import members


@in_child(timeout=60)
def test_threads_know_their_place():
    for name in kernels.TILINGS:
        out, table = np.full((128, 3), -1, np.int32), members(name)
        kernels.numbered(out, tiling=name)
        np.testing.assert_array_equal(table[out[:, 1], out[:, 0]], np.arange(128), err_msg=name)
        np.testing.assert_array_equal(out[:, 2], out[:, 0], err_msg=name)


@pytest.mark.parametrize("using", [None, "vector", "scalar"])
@in_child(timeout=60)
def test_moves(using):
    for how in ({}, {"swizzle": 128}, {"swizzle": 64, "dtype": nv.f32}, {"swizzle": 128, "groups": (8, 32)}):
        x, out = random((32, 64), nv.f16, seed=1), np.zeros((32, 64), np.float16)
        kernels.moved(x, out, using=using, **how)
        np.testing.assert_array_equal(out, x)


@in_child(timeout=60)
def test_cp_async():
    for how in ({}, {"swizzle": 0}, {"parts": (8, 32)}):
        x, out = random((32, 64), nv.f16, seed=1), np.zeros((32, 64), np.float16)
        kernels.by_cp_async(x, out, **how)
        np.testing.assert_array_equal(out, x)


@in_child(timeout=60)
def test_tma():
    x, out = random((64, 64), nv.f16, seed=1), np.zeros((32, 128), np.float16)
    kernels.by_tma(x, out)
    np.testing.assert_array_equal(out[:, 64:], x[32:])


@in_child(timeout=60)
def test_registers():
    for dtype in (nv.f32, nv.f16):
        x, y = (random((32, 16), dtype, seed=i, integers=True) for i in range(2))
        out, sums, greatest = np.zeros_like(x), np.zeros(32, dtype.numpy), np.zeros(16, dtype.numpy)
        kernels.of_registers(x, y, out, sums, greatest)
        np.testing.assert_array_equal(out, 2 * x + y)
        np.testing.assert_array_equal(sums, out.sum(1))
        np.testing.assert_array_equal(greatest, out.max(0))


@in_child(timeout=120)
def test_reductions():
    for op in ("sum", "max", "min"):
        for tiling in ("a block", "warps", "quads of warps", "lanes of both halves"):
            for dtype in (np.int32, np.float32, np.float64):
                x = np.random.default_rng(0).integers(-99, 99, 128).astype(dtype)
                out = np.zeros(128, dtype)
                kernels.reduced(x, out, op=op, tiling=tiling)
                for group in members(tiling):
                    assert (out[group] == getattr(x[group], op)()).all(), (op, tiling, dtype)


@in_child(timeout=60)
def test_products():
    a, b, d = random((16, 24), nv.f32, seed=1), random((24, 16), nv.f16, seed=2), random((16, 16), nv.f32, seed=3)
    expected = a @ b.astype(np.float32) + d
    kernels.by_fma(a, b, d)
    np.testing.assert_allclose(d, expected, rtol=1e-4, atol=1e-5)
    a, b, d = (random((64, 64), t, seed=i) for i, t in enumerate((nv.f16, nv.f16, nv.f32)))
    kernels.by_wgmma(a, b, d)
    np.testing.assert_allclose(d, a.astype(np.float32) @ b.astype(np.float32), atol=1e-4)


@in_child(timeout=120)
def test_a_gemm_of_all_of_them():
    gemm = load("tests/programs/graphene_gemm.py").gemm
    for m, n, k, options in (
        (256, 256, 512, {"tile": (128, 128, 32), "stages": 3}),
        (128, 192, 96, {"stages": 4}),
        (64, 64, 2048, {"tile": (64, 64, 64), "warps": (4, 1)}),
    ):
        for out in (nv.f32, nv.f16):
            a, b = random((m, k), nv.f16, seed=1), random((k, n), nv.f16, seed=2)
            d = np.full((m, n), np.nan, out.numpy)
            gemm(a, b, d, **options)
            assert_close(d, matmul(a, b), nv.f16, k)
