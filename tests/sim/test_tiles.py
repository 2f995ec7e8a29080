"""Accesses that stay within the block's shared memory and leave the tile that they are meant for."""

import inspect

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.layout import TileLayout
from nvdsl.ops import tma
from tests.exhaustive import sample
from tests.sim.simulate import SCHEDULES, traced, verdict_of, zeros
from tests.unit.kernels import array

LEVELS = sim.options.LEVELS


def reported(kernel, *arguments, options=None, **how):
    error = verdict_of(traced(kernel, *arguments, **how), options)
    if error is None:
        return None
    lines, first = inspect.getsourcelines(kernel._function)
    mark = "# made" if error.kind == "layout" else "# here"
    assert error.where.line in [first + i for i, one in enumerate(lines) if mark in one], error
    assert error.rule and error.fix
    return error.kind


def halves(rows=64, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, (rows, 64)).astype(np.float16)


@nv.jit
def product(a, b, d, *, by, major="k", steps=4, stride=0, stages=1, swizzle=128, looped=False):
    """Descriptors by hand. ``by``: who writes the operands, "tma" or "stores". ``looped``: a traced loop carries the
    descriptors."""
    a_tma, b_tma = (nv.TMA(x, (64, 64), swizzle=swizzle) for x in (a, b))

    @nv.kernel(grid=1, block=128)
    def body():
        As = nv.smem((stages, 64, 64), nv.f16, swizzle=swizzle)
        A, B = As[0], nv.smem((64, 64), nv.f16, swizzle=swizzle)
        behind = nv.smem((64, 64), nv.f16, swizzle=swizzle)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if by == "tma":
            if t == 0:
                full.arrive_expect_tx(A.bytes + B.bytes)
                a_tma.load(A, full, (0, 0))
                b_tma.load(B, full, (0, 0))
            full.wait(0)
        else:
            for i in nv.range(32):
                for stage in range(stages):
                    As[stage][2 * i + t // 64, t % 64] = a[2 * i + t // 64, t % 64]
                B[2 * i + t // 64, t % 64] = b[2 * i + t // 64, t % 64]
                behind[2 * i + t // 64, t % 64] = 0.0
            nv.fence_proxy_async()
            nv.sync_threads()
        right = B if major == "mn" else B.T
        a_start = nv.ops.wgmma.descriptor(A.address, A.operand(0))
        a_start = a_start + (nv.i64(stride) << 32)  # made
        b_start = nv.ops.wgmma.descriptor(B.address, right.operand(1))
        (acc,) = nv.accumulator(64, 64, nv.f32).blocks
        types = {"n": 64, "a_dtype": nv.f16, "b_dtype": nv.f16, "d_dtype": nv.f32, "b_major": major}
        nv.wgmma_fence()
        if looped:
            by_a, by_b = (x.k_offset(1) - x.k_offset(0) >> 4 for x in (A.operand(0), right.operand(1)))
            for _ in nv.range(steps):
                acc = nv.ops.wgmma.mma_async(acc, a_start, b_start, **types)
                a_start += by_a
                b_start += by_b
        else:
            for k in range(steps):
                a_at = a_start + (A.operand(0).k_offset(k) >> 4)
                b_at = b_start + (right.operand(1).k_offset(k) >> 4)
                acc = nv.ops.wgmma.mma_async(acc, a_at, b_at, **types)  # here
        nv.wgmma_commit()
        nv.wgmma_wait(0)
        nv.Accumulator(64, 64, nv.f32, [acc]).store(d, (0, 0))  # here

    body()


@pytest.mark.parametrize(("swizzle", "looped"), sample([(128, False), (32, False), (128, True), (64, False)], 2))
@pytest.mark.parametrize("major", ["k", "mn"])
@pytest.mark.parametrize("by", ["tma", "stores"])
def test_operands_within_their_tiles(by, major, swizzle, looped):
    a, b, d = halves(), halves(seed=1), zeros(64, 64)
    assert reported(product, a, b, d, by=by, major=major, swizzle=swizzle, looped=looped) is None
    b = b.astype(np.float32)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ (b if major == "mn" else b.T))


@pytest.mark.parametrize("by", ["tma", "stores"])
@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"steps": 5}, "operand-beyond"),
        ({"steps": 5, "stages": 2}, "operand-beyond"),
        ({"steps": 5, "major": "mn"}, "operand-beyond"),
        ({"stride": 16}, "operand-beyond"),
        ({"stride": -16}, "layout"),
        ({"stride": -64}, "layout"),
        ({"stride": -16, "looped": True}, "layout"),
    ],
    ids=str,
)
def test_operands_that_leave_their_tiles(how, kind, by):
    for level in LEVELS:
        options = sim.Options(level=level)
        assert reported(product, halves(), halves(seed=1), zeros(64, 64), options=options, by=by, **how) == kind


@nv.jit
def slots(x, out, *, rows, distance=16):
    """Slots by hand, ``distance`` rows apart, and boxes of ``rows`` rows."""
    x_map = tma.TMA([rows, 64], x.type)
    x_map.create_descriptor(x)

    @nv.kernel(grid=1, block=64)
    def body():
        room = nv.smem((128 * 64,), nv.f32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        for k in nv.range(3):
            if t == 0:
                full.arrive_expect_tx(rows * 256)
                slot = nv.get_dynamic_shared_memory((rows, 64), nv.f32.ir, (2 - k) * distance * 256)
                x_map.load(slot, full, [0, k * 16])  # here
            full.wait(k & 1)
            nv.sync_threads()
        for i in nv.range(48):
            out[i, t] = room[((2 - i // 16) * distance + i % 16) * 64 + t]

    body()


def test_boxes_larger_than_their_slots():
    for options in (None, *SCHEDULES[:6]):
        x, out = np.arange(64 * 64, dtype=np.float32).reshape(64, 64), zeros(48, 64)
        assert reported(slots, x, out, options=options, rows=16) is None
        assert reported(slots, x, out, options=options, rows=32, distance=32) is None
        assert reported(slots, x, out, options=options, rows=32) == "overwritten-copy"
        assert reported(slots, x, out, options=options, rows=24) == "overwritten-copy"


@nv.jit
def scratch(x, out, *, start, size=64, traced_start=False):
    """A view laid out by hand beside a tile of 4,096 bytes."""

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), x.dtype)
        nv.smem((4096,), nv.u8)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = x[i, t]
        nv.sync_threads()
        total = tile[0, t] + tile[15, t]
        nv.sync_threads()
        at = start + nv.block_id.x if traced_start else start
        mine = nv.get_dynamic_shared_memory((size,), nv.f32.ir, at)  # here
        mine[t] = total
        out[0, t] = mine[t]

    body()


CUTS = [(3840, 64), (4032, 64), (256, 64), (2048, 1024)]


@pytest.mark.parametrize("traced_start", [False, True])
@pytest.mark.parametrize(("start", "size"), [*CUTS, (4096, 64), (0, 64), (0, 1024), (4608, 512)])
def test_memory_laid_out_by_hand(start, size, traced_start):
    """What starts where the tile does is another view of it."""
    how = {"start": start, "size": size, "traced_start": traced_start}
    wrong = (start, size) in CUTS
    assert reported(scratch, np.ones((16, 64), np.float32), zeros(16, 64), **how) == ("overlap" if wrong else None)
    if wrong and not traced_start:
        with pytest.raises(nv.VerifyError, match="laid out by hand"):
            scratch.trace(array(nv.f32, 16, 64), array(nv.f32, 16, 64), **how)


@nv.jit
def shifted(d, *, at, swizzle=128):
    @nv.kernel(grid=1, block=128)
    def body():
        B = nv.smem((64, 64), nv.f16, swizzle=128)
        nv.smem((16384,), nv.u8)
        A = nv.Tile(TileLayout.of(64, 64, 2, swizzle), nv.f16, B.bytes + at)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()


def test_operands_begin_where_their_swizzle_does():
    for at, swizzle in ((0, 128), (1024, 128), (512, 64), (256, 32), (128, 16)):
        shifted.trace(array(nv.f32, 64, 64), at=at, swizzle=swizzle)
    for at, swizzle in ((512, 128), (128, 128), (256, 64), (128, 32)):
        with pytest.raises(nv.TraceError, match=f"A begins at byte .* {at} bytes past a multiple"):
            shifted.trace(array(nv.f32, 64, 64), at=at, swizzle=swizzle)
