"""Registers of a wgmma: A's fragment and its accumulator, while it is in flight, and before anything was written."""

import inspect

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.mlir.dialects import llvm
from tests.sim.simulate import traced, verdict_of, zeros

LEVELS = sim.options.LEVELS


def verdict(kernel, *arguments, level="traced", **how):
    error = verdict_of(traced(kernel, *arguments, **how), sim.Options(level=level))
    if error is not None:
        lines, first = inspect.getsourcelines(kernel._function)
        assert error.where.line in [first + i for i, one in enumerate(lines) if "# here" in one], error
    return error and error.kind


def halves(seed=0):
    return np.random.default_rng(seed).integers(-2, 3, (64, 64)).astype(np.float16)


def loaded(a_tma, b_tma, A, B):
    full = nv.Mbarriers(1, arrivals=1)[0]
    if nv.thread_id.x == 0:
        full.arrive_expect_tx(A.bytes + B.bytes)
        a_tma.load(A, full, (0, 0))
        b_tma.load(B, full, (0, 0))
    full.wait(0)


@nv.jit
def product_of_a_product(a, b, d, spy, *, use="none", wait=False):
    a_tma, b_tma = nv.TMA(a, (64, 64), swizzle=128), nv.TMA(b, (64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        loaded(a_tma, b_tma, A, B)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        fragment = acc.fragment(nv.f16)
        (register, *_), *_ = fragment.registers[0]
        acc = nv.accumulator(64, 64, nv.f32)
        acc += fragment @ B
        if use == "again":
            acc += fragment @ B  # another wgmma may read them, too
        if wait:
            nv.wgmma_wait(0)
        if use == "store":
            spy[nv.thread_id.x] = register  # here
        if use == "arithmetic":
            for _ in nv.range(2):
                spy[nv.thread_id.x] = (register + 1) * 2  # here
        nv.wgmma_wait(0)
        spy[nv.thread_id.x] = register
        acc.store(d, (0, 0))

    body()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("use", ["none", "again", "store", "arithmetic"])
def test_a_fragment_that_is_read_in_flight(use, level):
    arguments = halves(), halves(1), zeros(64, 64), zeros(128, dtype=np.int32)
    assert verdict(product_of_a_product, *arguments, use=use, wait=True, level=level) is None
    found = verdict(product_of_a_product, *arguments, use=use, level=level)
    assert found == (None if use in ("none", "again") else "fragment-in-flight")


@nv.jit
def carried(a, b, d, *, rounds, remake):
    """A fragment that a loop carries, as an object."""
    a_tma, b_tma = nv.TMA(a, (64, 64), swizzle=128), nv.TMA(b, (64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        loaded(a_tma, b_tma, A, B)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        fragment = acc.fragment(nv.f16)
        acc = nv.accumulator(64, 64, nv.f32)
        for _ in nv.range(rounds):
            acc += fragment @ B
            nv.wgmma_wait(0)
            if remake:
                fragment = acc.fragment(nv.f16)
        acc.store(d, (0, 0))

    body()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("remake", [False, True])
def test_a_fragment_that_a_loop_carries(remake, level):
    a, b, d = halves() / 2, halves(1) / 2, zeros(64, 64)
    traced(carried, a, b, d, rounds=2, remake=remake).run(sim.Options(level=level))
    b = b.astype(np.float32)
    fragment, expected = np.float16(a.astype(np.float32) @ b), zeros(64, 64)
    for _ in range(2):
        expected = expected + fragment.astype(np.float32) @ b
        fragment = np.float16(expected) if remake else fragment
    np.testing.assert_array_equal(d, expected)


@nv.jit
def first_of_a_sum(a, b, d, *, scale_d, start="undefined"):
    a_tma, b_tma = nv.TMA(a, (64, 64), swizzle=128), nv.TMA(b, (64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        loaded(a_tma, b_tma, A, B)
        make = llvm.mlir_zero if start == "made of zeros" else llvm.mlir_undef
        struct = make(nv.ops.wgmma.accumulator_type(64, nv.f32))
        zero = nv.f32(0.0)
        for i in range({"undefined": 0, "partly": 31, "zero": 32, "made of zeros": 0}[start]):
            struct = llvm.insertvalue(struct, zero, [i])
        acc = nv.Accumulator(64, 64, nv.f32, [struct])
        acc = acc.mma(A, B, scale_d=nv.thread_id.x < 0 if scale_d == "traced" else scale_d)  # here
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("scale_d", "start", "kind"),
    [
        (False, "undefined", None),
        ("traced", "undefined", None),
        (True, "zero", None),
        (True, "made of zeros", None),
        (True, "undefined", "undefined-accumulator"),
        (True, "partly", "undefined-accumulator"),
    ],
)
def test_a_sum_that_starts_with_nothing(scale_d, start, kind, level):
    arguments = halves(), halves(1), zeros(64, 64)
    assert verdict(first_of_a_sum, *arguments, scale_d=scale_d, start=start, level=level) == kind


@nv.jit
def two_types(a, b, d, *, fence):
    """A wgmma of k16 and one of k32 add to one accumulator."""

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
        t = nv.thread_id.x
        for i in nv.range(32):
            A[2 * i + t // 64, t % 64] = a[2 * i + t // 64, t % 64]
            B[2 * i + t // 64, t % 64] = b[2 * i + t // 64, t % 64]
        nv.fence_proxy_async()
        nv.sync_threads()
        a_desc = nv.ops.wgmma.descriptor(A.address, A.operand(0))
        b_desc = nv.ops.wgmma.descriptor(B.address, B.T.operand(1))
        (acc,) = nv.accumulator(64, 64, nv.f32).blocks
        nv.wgmma_fence()
        half = {"n": 64, "a_dtype": nv.f16, "b_dtype": nv.f16, "d_dtype": nv.f32}
        for k in range(2):
            acc = nv.ops.wgmma.mma_async(acc, a_desc + 2 * k, b_desc + 2 * k, **half)
        if fence:
            nv.wgmma_fence()
        byte = {"n": 64, "a_dtype": nv.e4m3, "b_dtype": nv.e4m3, "d_dtype": nv.f32}
        acc = nv.ops.wgmma.mma_async(acc, a_desc, b_desc, **byte)  # here
        acc = nv.ops.wgmma.mma_async(acc, a_desc + 2, b_desc + 2, **byte)
        nv.wgmma_commit()
        nv.wgmma_wait(0)
        nv.Accumulator(64, 64, nv.f32, [acc]).store(d, (0, 0))

    body()


@pytest.mark.parametrize("level", LEVELS)
def test_two_shapes_on_one_accumulator(level):
    assert verdict(two_types, halves(), halves(1), zeros(64, 64), fence=True, level=level) is None
    assert verdict(two_types, halves(), halves(1), zeros(64, 64), fence=False, level=level) == "wgmma-shape"


@nv.jit
def reduced(out, *, who, kind="add"):
    """``who`` adds a tile to the array."""
    out_tma = nv.TMA(out, tile=(8, 32))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((8, 32), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(8):
            if t < 32:
                tile[i, t] = 1
        nv.fence_proxy_async()
        nv.sync_threads()
        if who(t):
            out_tma._map.reduce(tile.panel(0), (0, 0), kind)  # here
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()


def test_a_reduction_by_all_lanes():
    for who in (lambda t: t == 0, lambda t: nv.warp_id() == 0 and nv.elect()):
        out = zeros(8, 32, dtype=np.int32)
        assert verdict(reduced, out, who=who) is None
        assert (out == 1).all()
    for who in (lambda t: nv.warp_id() == 1, lambda t: t < 2):
        assert verdict(reduced, zeros(8, 32, dtype=np.int32), who=who) == "repeated-copy"
    out = zeros(8, 32, dtype=np.int32)
    assert verdict(reduced, out, who=lambda t: t < 32, kind="max") is None  # the maximum is the same


@nv.jit
def scattered(out, *, place, value):
    """Each lane stores ``value(t)`` at ``place(t)``."""

    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        s = nv.smem((64,), nv.i32)
        s[t] = 0
        s[t + 32] = 0
        nv.sync_warp()
        s[place(t)] = value(t)  # here
        nv.sync_warp()
        out[t] = s[t]

    body()


def test_lanes_that_store_to_one_place():
    """f29's like: the same value by all is in order."""
    places = [lambda t: t, lambda t: 63 - t, lambda t: t // 4, lambda t: 0, lambda t: (t * 7) % 32]
    for place in places:
        assert verdict(scattered, zeros(32, dtype=np.int32), place=place, value=lambda t: 5) is None
    for place, kind in zip(places, [None, None, "lanes-store", "lanes-store", None], strict=True):
        assert verdict(scattered, zeros(32, dtype=np.int32), place=place, value=lambda t: t) == kind
    assert verdict(scattered, zeros(32, dtype=np.int32), place=lambda t: t // 4, value=lambda t: t // 4) is None
