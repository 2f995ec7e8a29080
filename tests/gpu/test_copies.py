"""Vectors, nv.copy, cp.async and distributed shared memory on the device: the simulator's kernels."""

import ml_dtypes
import numpy as np

from nvdsl.testing import in_child
from tests.sim import test_copies as copies
from tests.sim import test_remote as remote
from tests.sim import test_vectors as vectors
from tests.sim.programs import load
from tests.sim.test_copies import numbers


@in_child(timeout=120)
def test_vectors():
    for t in vectors.TYPES:
        x = np.random.default_rng(3).integers(0, 9, (32, 16)).astype(t.numpy)
        sums, most, least = (np.zeros(32, t.numpy) for _ in range(3))
        wide = np.zeros(32, np.float32)
        vectors.reductions(x, sums, wide, most, least, count=min(8, 16 // t.bytes))
        part = x[:, :15].astype(np.float64)
        expected = part.sum(1), part.sum(1), part.max(1), part[:, 2:].min(1)
        for found, one in zip((sums, wide, most, least), expected, strict=True):
            np.testing.assert_array_equal(found.astype(np.float64), one)
    x, y = np.random.default_rng(4).integers(-9, 9, (8, 64)).astype(np.float32), np.zeros(64, np.float32)
    vectors.carried(x, y, rounds=8)
    total, most = x.sum(0) * 0.5, x[[0, *range(2, 8)]].max(0)
    np.testing.assert_array_equal(y, np.where(total > most, total, -most))


@in_child(timeout=280)
def test_every_element_is_copied():
    for asynchronous in (False, True):
        for shape, rows, cols, swizzle, t, threads in copies.SHAPES:
            x, y = numbers(shape, t), np.zeros(shape, t.numpy)
            copies.through(x, y, rows=rows, cols=cols, swizzle=swizzle, asynchronous=asynchronous, threads=threads)
            np.testing.assert_array_equal(x.astype(np.float64), y.astype(np.float64))
        x, y = np.random.default_rng(1).random((12, 12), np.float32), np.zeros((16, 16), np.float32)
        x[0, 0] = 0
        copies.zero_filled(x, y, asynchronous=asynchronous)
        expected = np.zeros((16, 16), np.float32)
        expected[:8, :8] = x[4:, 4:]
        np.testing.assert_array_equal(y, expected)


@in_child(timeout=120)
def test_copies_are_waited_for():
    """50 times: a wait that does not wait shows on some of them."""
    x = numbers((96, 64), copies.nv.f32)
    z = numbers((32, 64), copies.nv.f32)
    for _ in range(50):
        y, w = np.zeros(64, np.float32), np.zeros(64, np.float32)
        copies.pipeline(x, y)
        np.testing.assert_array_equal(y, x.sum(0))
        copies.by_mbarrier(z, w)
        np.testing.assert_array_equal(w, z[np.arange(64) % 32, np.arange(64)])


@in_child(timeout=120)
def test_operands_of_wgmma():
    a, b = (np.random.default_rng(i).integers(-3, 4, (64, 64)).astype(np.float16) for i in range(2))
    for barrier in (False, True):
        d = np.zeros((64, 64), np.float32)
        copies.product(a, b, d, barrier=barrier)
        np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32))


@in_child(timeout=120)
def test_other_blocks_of_the_cluster():
    for t in remote.TYPES:
        x, y = numbers((32, 16), t), np.zeros((32, 16), t.numpy)
        remote.rotated(x, y, swizzle=32 if t.bytes == 2 else 0)
        np.testing.assert_array_equal(y.astype(np.float64), remote.rolled(x, 1))
    x, y = np.random.default_rng(1).integers(0, 64, (2, 64)).astype(np.int32), np.zeros((2, 64), np.int32)
    remote.elements(x, y)
    large = (x > 31).astype(np.int32)
    np.testing.assert_array_equal(y, np.bincount(x.ravel(), minlength=64) + 1000 * large[::-1] + 10000 * large)
    x, y = numbers((64, 64), copies.nv.f16), np.zeros((64, 64), np.float16)
    remote.copied(x, y)
    np.testing.assert_array_equal(y[1:32], x[33:])


@in_child(timeout=120)
def test_stores_that_an_mbarrier_is_told_of():
    for t, count in remote.SENT:
        x = numbers((2, 32 * count), t)
        for _ in range(20):
            y = np.zeros_like(x)
            remote.sent(x, y, count=count)
            np.testing.assert_array_equal(y.astype(np.float64), x[::-1].astype(np.float64))


@in_child(timeout=120)
def test_programs_of_copies():
    transpose = load("chapters/ch12_transpose.py").transpose
    for shape, dtype in (((4096, 1024), np.float32), ((999, 501), ml_dtypes.bfloat16), ((65, 200), np.uint8)):
        x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
        for swizzle in (0, 32, 128):
            y = np.zeros(shape[::-1], dtype)
            transpose(x, y, swizzle=swizzle)
            np.testing.assert_array_equal(y, x.T)
    rng = np.random.default_rng(0)
    a, weights = (rng.integers(-4, 5, s).astype(np.float32) for s in ((4, 512, 256), (512, 256)))
    y = np.full((512, 256), np.nan, np.float32)
    load("tests/programs/cluster_sum.py").cluster_sum(a, weights, y)
    np.testing.assert_array_equal(y, (a * weights).sum(0))
    x = rng.integers(-9, 9, (3001, 1000)).astype(np.float16)
    sums = np.full(1000, np.nan, np.float32)
    load("tests/programs/cp_async_rows.py").column_sums(x, sums, stages=4, threads=128)
    np.testing.assert_array_equal(sums, x.sum(0, dtype=np.float32))
