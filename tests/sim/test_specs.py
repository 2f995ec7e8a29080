"""Specifications give what NumPy gives, whichever instruction carries them out."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.testing import random
from tests.sim import spec_kernels as kernels
from tests.sim.simulate import run, traced, verdict, zeros


def members(name):
    """[group, member] -> the thread, by the layouts."""
    from nvdsl.lang.threads import Threads
    from nvdsl.layout import Layout

    threads = kernels.TILINGS[name](Threads(Layout(128)))
    member, group = np.arange(threads.size), np.arange(threads.count)[:, None]
    return threads.members(member) + threads.groups(group) + 0 * group


@pytest.mark.parametrize("name", kernels.TILINGS)
def test_threads_know_their_place(name):
    out, table = zeros(128, 3, dtype=np.int32), members(name)
    run(kernels.numbered, out, tiling=name)
    assert sorted(table.flat) == list(range(128))
    np.testing.assert_array_equal(table[out[:, 1], out[:, 0]], np.arange(128))
    np.testing.assert_array_equal(out[:, 2], out[:, 0])


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((32, 64), {}),
        ((32, 64), {"swizzle": 128}),
        ((64, 32), {"swizzle": 64, "turned": True}),
        ((8, 24), {}),
        ((16, 40), {}),
        ((8, 16), {"using": "scalar"}),
        ((32, 64), {"swizzle": 64, "dtype": nv.f32}),
        ((32, 64), {"swizzle": 128, "groups": (8, 32)}),
    ],
)
@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_moves(shape, how, level):
    x, out = random(shape, nv.f16, seed=1), np.zeros(shape, np.float16)
    run(kernels.moved, x, out, **how, options=sim.Options(level=level))
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("how", [{}, {"swizzle": 0}, {"parts": (8, 32)}])
def test_cp_async(how, level):
    x, out = random((32, 64), nv.f16, seed=1), zeros(32, 64, dtype=np.float16)
    run(kernels.by_cp_async, x, out, **how, options=sim.Options(level=level))
    np.testing.assert_array_equal(out, x)


def test_cp_async_that_nobody_waits_for():
    error = verdict(kernels.by_cp_async, zeros(32, 64, dtype=np.float16), zeros(32, 64, dtype=np.float16), wait=False)
    assert error is not None and "cp.async" in str(error), error


def test_tma():
    x, out = random((64, 64), nv.f16, seed=1), zeros(32, 128, dtype=np.float16)
    run(kernels.by_tma, x, out)
    np.testing.assert_array_equal(out[:, 64:], x[32:])
    assert not out[:, :64].any()


@pytest.mark.parametrize("dtype", [nv.f32, nv.f16])
def test_registers(dtype):
    x, y = (random((32, 16), dtype, seed=i, integers=True) for i in range(2))
    out, sums, greatest = np.zeros_like(x), np.zeros(32, dtype.numpy), np.zeros(16, dtype.numpy)
    run(kernels.of_registers, x, y, out, sums, greatest)
    np.testing.assert_array_equal(out, 2 * x + y)
    np.testing.assert_array_equal(sums, out.sum(1))
    np.testing.assert_array_equal(greatest, out.max(0))


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("tiling", ["a block", "warps", "quads of warps", "lanes of both halves"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_reductions(op, tiling, dtype):
    x = np.random.default_rng(0).integers(-99, 99, 128).astype(dtype)
    out, table = np.zeros(128, dtype), members(tiling)
    run(kernels.reduced, x, out, op=op, tiling=tiling)
    for group in table:
        assert (out[group] == getattr(x[group], op)()).all()


def test_pointwise_of_memory():
    x, y = random((16, 32), nv.f32, seed=1), random((16, 32), nv.f16, seed=2)
    for tile in (None, (8, 8)):
        out = zeros(16, 32)
        run(kernels.scaled, x, y, out, factor=3.0, tile=tile)
        np.testing.assert_allclose(out, 3 * x + y, rtol=1e-6)


def test_fma():
    a, b, d = random((16, 24), nv.f32, seed=1), random((24, 16), nv.f16, seed=2), random((16, 16), nv.f32, seed=3)
    before = d.copy()
    run(kernels.by_fma, a, b, d)
    np.testing.assert_allclose(d, a @ b.astype(np.float32) + before, rtol=1e-4, atol=1e-5)


def test_wgmma():
    a, b, d = random((64, 64), nv.f16, seed=1), random((64, 64), nv.f16, seed=2), zeros(64, 64)
    run(kernels.by_wgmma, a, b, d)
    np.testing.assert_allclose(d, a.astype(np.float32) @ b.astype(np.float32), atol=1e-4)
    run(kernels.by_wgmma, a, b, d, held=True)
    np.testing.assert_allclose(d, a[:, :16].astype(np.float32) @ b[:16].astype(np.float32), atol=1e-4)


@nv.jit
def without_a_barrier(x, out):
    @nv.kernel(grid=1, block=64)
    def kernel():
        block = nv.spec.threads()
        tile = nv.smem(x.shape, x.dtype, swizzle=128)
        nv.spec.move(x, tile, block)()
        registers = nv.spec.move(tile, nv.layout.mma_a(2, 64, 16), block.tile(32))()
        out[nv.thread_id.x] = registers.words[0]

    kernel()


def test_races_are_reported():
    error = verdict(without_a_barrier, zeros(16, 64, dtype=np.float16), zeros(64, dtype=np.int32))
    assert error is not None and error.kind == "raw" and "ldmatrix" in str(error), error
    assert traced(without_a_barrier, zeros(16, 64, dtype=np.float16), zeros(64, dtype=np.int32))
