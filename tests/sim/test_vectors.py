"""Vectors of registers: loaded, computed with, carried by loops, reduced in the thread, stored."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import SimError
from tests.sim.simulate import run, zeros

TYPES = [nv.f16, nv.bf16, nv.f32, nv.f64, nv.i8, nv.u16, nv.i64]


@nv.jit
def reductions(x, sums, wide, most, least, *, count):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((32, 64), x.dtype, swizzle=64)
        for i in range(0, 16, count):
            tile.store_vector(x.vector((t, i), count), (t, i))
        nv.sync_warp()
        v = nv.vector(x.dtype, [e for i in range(0, 16, count) for e in tile.vector((t, i), count)])[:15]
        sums[t], wide[t], most[t], least[t] = v.sum(), v.to(nv.f32).sum(), v.max(), v[2:].min()

    body()


@pytest.mark.parametrize("t", TYPES, ids=lambda t: t.name)
def test_reductions_in_a_thread(t):
    x = np.random.default_rng(3).integers(0, 9, (32, 16)).astype(t.numpy)
    sums, wide, most, least = (zeros(32, dtype=t.numpy), zeros(32), zeros(32, dtype=t.numpy), zeros(32, dtype=t.numpy))
    run(reductions, x, sums, wide, most, least, count=min(8, 16 // t.bytes))
    part = x[:, :15].astype(np.float64)
    for found, expected in ((sums, part.sum(1)), (wide, part.sum(1)), (most, part.max(1)), (least, part[:, 2:].min(1))):
        np.testing.assert_array_equal(found.astype(np.float64), expected)


@nv.jit
def carried(x, y, *, rounds):
    @nv.kernel(grid=1, block=16)
    def body():
        t = nv.thread_id.x * 4
        total, most = nv.vector([0.0] * 4), x.vector((0, t), 4)
        for row in nv.range(rounds):
            v = x.vector((row, t), 4)
            total += v * 0.5
            if row > 1:
                most = nv.maximum(most, v)
        y.store_vector(nv.where(total > most, total, -most), t)

    body()


def test_vectors_are_carried_by_loops_and_branches():
    x, y = np.random.default_rng(4).integers(-9, 9, (8, 64)).astype(np.float32), zeros(64)
    run(carried, x, y, rounds=8)
    total, most = x.sum(0) * 0.5, x[[0, *range(2, 8)]].max(0)
    np.testing.assert_array_equal(y, np.where(total > most, total, -most))


@nv.jit
def beside_nan(y, z):
    @nv.kernel(grid=1, block=1)
    def body():
        v = nv.vector([1.0, nv.f32(float("nan")), -3.0])
        y[0], y[1] = v.max(), v.min()
        flags = nv.vector([True, False, True])
        z[0], z[1], z[2] = flags.sum(), nv.i32(flags.max()), nv.i32(flags.min())

    body()


def test_reductions_beside_a_nan_and_of_bools():
    y, z = zeros(2), zeros(3, dtype=np.int32)
    run(beside_nan, y, z)
    assert y.tolist() == [1.0, -3.0] and z.tolist() == [2, 1, 0]


@nv.jit
def unaligned(x, y, *, step):
    @nv.kernel(grid=1, block=16)
    def body():
        tile = nv.smem((16, 16), x.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[t, i] = x[t, i]
        nv.sync_warp()
        y[t] = tile.vector((t, (t & 1) * step), 4).sum()  # here

    body()


def test_an_address_that_is_no_multiple_of_the_access_is_reported():
    x, y = zeros(16, 32), zeros(16)
    with pytest.raises(SimError, match=r"no multiple of 16") as caught:
        run(unaligned, x, y, step=1)
    assert "by warp 0 lane 1" in caught.value.message


@nv.jit
def constants(y, *, values):
    @nv.kernel(grid=1, block=1)
    def body():
        for i, pair in enumerate([values[:2], values[2:], values[:1] * 2]):
            y.store_vector(nv.vector(pair, y.dtype), 2 * i)

    body()


@pytest.mark.parametrize("t", TYPES, ids=lambda t: t.name)
def test_vectors_of_constants(t):
    values = (1.5, -0.0, float("inf"), float("nan")) if t.is_float else (1, 2, 0, 127)
    y = zeros(6, dtype=t.numpy)
    run(constants, y, values=values)
    expected = np.array([*values, *values[:1] * 2]).astype(t.numpy)
    np.testing.assert_array_equal(y.view(np.uint8), expected.view(np.uint8))
