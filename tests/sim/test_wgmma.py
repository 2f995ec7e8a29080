"""wgmma of every pair of types and every layout: exact products of small integers, with operands that TMA brought."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.ops import wgmma
from nvdsl.values import dtypes
from tests.sim.simulate import run, verdict, zeros

LEVELS = [sim.Options(level=level) for level in sim.options.LEVELS]
COLUMNS = {"f16": 64, "bf16": 64, "f32": 32, "e4m3": 128, "e5m2": 128, "i8": 128, "u8": 128}
"""Elements of K in a row of 128 bytes."""


@nv.jit
def product(a, b, d, *, a_major, b_major, dtype, swizzle=128, twice=False):
    """64 x N: A is stored [M, K] or (major "mn") [K, M], B [K, N] or (major "k") [N, K]."""
    n = b.shape[1] if b_major == "mn" else b.shape[0]
    sum_type = dtypes.by_name(dtype)
    a_tma = nv.TMA(a, tile=a.shape, swizzle=swizzle)
    b_tma = nv.TMA(b, tile=b.shape, swizzle=swizzle)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A, B = nv.smem(a.shape, a.dtype, swizzle=swizzle), nv.smem(b.shape, b.dtype, swizzle=swizzle)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, n, sum_type)
        for _ in range(2 if twice else 1):
            acc += (A.T if a_major == "mn" else A) @ (B if b_major == "mn" else B.T)
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


def whole(dtype, *shape, seed=0):
    """Small integers of a type."""
    numbers = np.random.default_rng(seed).integers(0 if dtype.is_unsigned else -3, 4, shape)
    return numbers.astype(np.float32).astype(dtype.numpy)


def check(a_type, b_type, d_type, a_major="k", b_major="k", n=64, swizzle=128, twice=False):
    a_type, b_type = (dtypes.by_name({"tf32": "f32"}.get(t, t)) for t in (a_type, b_type))
    k = COLUMNS[a_type.name] * swizzle // 128
    k = max(k, 64) if "mn" in (a_major, b_major) else k
    a, b = whole(a_type, 64, k), whole(b_type, n, k, seed=1)
    expected = a.astype(np.float32) @ b.astype(np.float32).T * (2 if twice else 1)
    stored_a = np.ascontiguousarray(a.T) if a_major == "mn" else a
    stored_b = np.ascontiguousarray(b.T) if b_major == "mn" else b
    for options in LEVELS:
        d = zeros(64, n, dtype=np.int32 if d_type == "i32" else np.float32)
        run(product, stored_a, stored_b, d, a_major=a_major, b_major=b_major, dtype=d_type, swizzle=swizzle,
            twice=twice, options=options)  # fmt: skip
        np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize(
    ("a_type", "b_type", "d_type"), [(a, b, d) for (a, b), ds in wgmma.TYPES.items() for d in ds]
)
def test_types(a_type, b_type, d_type):
    check(a_type, b_type, d_type, twice=True)


@pytest.mark.parametrize("b_major", ["k", "mn"])
@pytest.mark.parametrize("a_major", ["k", "mn"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_transposed(dtype, a_major, b_major):
    check(dtype, dtype, "f32", a_major, b_major)


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["f16", "e4m3", "tf32"])
def test_swizzles(dtype, swizzle):
    if swizzle == 16:
        check_without_swizzle(dtype)
    else:
        check(dtype, dtype, "f32", swizzle=swizzle)


def check_without_swizzle(dtype):
    """Panels of 16 bytes: one wgmma takes two."""
    element = dtypes.by_name({"tf32": "f32"}.get(dtype, dtype))
    k = 32 // element.bytes
    a, b = whole(element, 64, k), whole(element, 64, k, seed=1)
    d = zeros(64, 64)
    for options in LEVELS:
        run(product, a, b, d, a_major="k", b_major="k", dtype="f32", swizzle=16, options=options)
        np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_widths(n):
    check("f16", "f16", "f32", n=n)
    check("i8", "u8", "i32", n=n)


def test_int8_sums_wrap_nowhere_near():
    """The largest products of one wgmma are exact."""
    a, b = np.full((64, 128), -128, np.int8), np.full((64, 128), 255, np.uint8)
    d = zeros(64, 64, dtype=np.int32)
    run(product, a, b, d, a_major="k", b_major="k", dtype="i32")
    np.testing.assert_array_equal(d, np.full((64, 64), -128 * 255 * 128))


@nv.jit
def chained(a, b, c, d, *, dtype):
    """d = (a @ b) @ c, with the first product handed on in registers."""
    maps = [nv.TMA(x, tile=(64, 64), swizzle=128) for x in (a, b, c)]

    @nv.kernel(grid=1, block=128)
    def kernel():
        tiles = [nv.smem((64, 64), a.dtype, swizzle=128) for _ in range(3)]
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(3 * tiles[0].bytes)
            for tma, tile in zip(maps, tiles, strict=True):
                tma.load(tile, full, (0, 0))
        full.wait(0)
        first = nv.accumulator(64, 64, nv.f32)
        first += tiles[0] @ tiles[1]
        nv.wgmma_wait(0)
        second = nv.accumulator(64, 64, dtypes.by_name(dtype))
        second += first.fragment(a.dtype) @ tiles[2]
        nv.wgmma_wait(0)
        second.store(d, (0, 0))

    kernel()


@pytest.mark.parametrize(("dtype", "sums"), [("f16", "f32"), ("f16", "f16"), ("bf16", "f32")])
def test_a_in_registers(dtype, sums):
    element = dtypes.by_name(dtype)
    a, b, c = (np.random.default_rng(i).integers(-1, 2, (64, 64)).astype(element.numpy) for i in range(3))
    d = zeros(64, 64)
    for options in LEVELS:
        run(chained, a, b, c, d, dtype=sums, options=options)
        wide = [x.astype(np.float32) for x in (a, b, c)]
        np.testing.assert_array_equal(d, wide[0] @ wide[1] @ wide[2])


@nv.jit
def unchecked(b, d):
    """A's registers as tf32 numbers with low bits set, which a tensor core ignores."""
    b_tma = nv.TMA(b, tile=(64, 8), swizzle=32)

    @nv.kernel(grid=1, block=128)
    def kernel():
        B = nv.smem((64, 8), b.dtype, swizzle=32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(B.bytes)
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        word = nv.bitcast(nv.f32(nv.thread_id.x * 0 + 1), nv.i32) | 0x1FFF
        fragment = nv.Fragment(64, 8, nv.f32, [[[word] * 4]])
        acc = nv.accumulator(64, 64, nv.f32)
        acc += fragment @ B.T
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


def test_tf32_registers_are_cut_not_rounded():
    b, d = np.ones((64, 8), np.float32), zeros(64, 64)
    assert verdict(unchecked, b, d) is None
    np.testing.assert_array_equal(d, np.full((64, 64), 8.0))
