"""nv.copy: every element arrives, whatever the layouts, the types and the edges; cp.async: what is not waited for."""

import math

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import SimError
from tests.exhaustive import sample
from tests.sim.simulate import SCHEDULES, run, verdict, zeros


@nv.jit
def through(x, y, *, rows, cols, swizzle=0, asynchronous=False, group="block", threads=128):
    """Through a tile, block by block: the last blocks reach past the arrays."""

    @nv.kernel(grid=(nv.cdiv(x.shape[0], rows), nv.cdiv(x.shape[1], cols)), block=threads)
    def body():
        tile = nv.smem((rows, cols), x.dtype, swizzle=swizzle)
        r, c = nv.block_id.x * rows, nv.block_id.y * cols
        if group == "block" or nv.warp_id() == 0:
            nv.copy(x[r : r + rows, c : c + cols], tile, asynchronous=asynchronous, group=group)
            if asynchronous:
                nv.cp_async_commit()
                nv.cp_async_wait(0)
        nv.sync_threads()
        nv.copy(tile, y[r : r + rows, c : c + cols])

    body()


# shape, rows, columns, swizzle, element, threads
SHAPES = [
    ((128, 128), 64, 64, 128, nv.f16, 128),
    ((100, 100), 64, 64, 128, nv.f16, 128),
    ((96, 48), 32, 16, 0, nv.f32, 96),
    ((37, 24), 16, 24, 0, nv.f16, 128),
    ((40, 104), 8, 128, 64, nv.i8, 64),
    ((33, 31), 16, 32, 32, nv.f32, 32),
    ((8, 6), 8, 4, 0, nv.f64, 128),
    ((256, 64), 256, 64, 0, nv.bf16, 32),
    ((24, 40), 8, 24, 0, nv.u8, 224),
    ((16, 16), 16, 16, 0, nv.e4m3, 64),
    ((130, 48), 130, 48, 0, nv.f32, 40),
    ((8, 1), 8, 1, 0, nv.f32, 32),
]


def numbers(shape, t):
    return np.random.default_rng(5).integers(0, 100, shape).astype(t.numpy)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("shape", "rows", "cols", "swizzle", "t", "threads"), SHAPES)
def test_every_element_arrives(shape, rows, cols, swizzle, t, threads, asynchronous):
    x, y = numbers(shape, t), zeros(*shape, dtype=t.numpy)
    level = "nvvm" if asynchronous else "traced"
    given = {"rows": rows, "cols": cols, "swizzle": swizzle, "asynchronous": asynchronous, "threads": threads}
    run(through, x, y, options=sim.Options(level=level), **given)
    np.testing.assert_array_equal(x.astype(np.float64), y.astype(np.float64))


def test_a_warp_and_a_warpgroup_copy_alone():
    for group, threads in (("warp", 128), ("warpgroup", 256)):
        x, y = numbers((64, 64), nv.f16), zeros(64, 64, dtype=np.float16)
        if group == "warpgroup":
            run(by_warpgroups, x, y)
        else:
            run(through, x, y, rows=32, cols=64, swizzle=128, group=group, threads=threads)
        np.testing.assert_array_equal(x, y)


@nv.jit
def by_warpgroups(x, y):
    @nv.kernel(grid=1, block=256)
    def body():
        row = nv.warpgroup_id() * 32
        nv.copy(x[row : row + 32, :], y[row : row + 32, :], group="warpgroup")

    body()


@nv.jit
def parts(x, y, z, w):
    @nv.kernel(grid=4, block=64)
    def body():
        i = nv.block_id.x * 10
        nv.copy(x[i : i + 10, 1, ::2], y[i : i + 10, 4:12:2])  # strided on both sides, converted
        tile = nv.smem((16, 16), nv.f32)
        nv.copy(z[:, nv.block_id.x * 16 : nv.block_id.x * 16 + 16], tile.T)
        nv.sync_threads()
        nv.copy(tile[2:10, 4:12], w[nv.block_id.x * 8 : nv.block_id.x * 8 + 8, :])

    body()


def test_parts_of_all_kinds():
    rng = np.random.default_rng(2)
    x, y = rng.random((35, 3, 8), np.float32), zeros(35, 16, dtype=np.float16)
    z, w = rng.random((16, 64), np.float32), zeros(32, 8)
    run(parts, x, y, z, w)
    np.testing.assert_array_equal(y[:, 4:12:2], x[:, 1, ::2].astype(np.float16))
    assert not y[:, 5::2].any() and not y[:, 12:].any()
    for block in range(4):
        expected = z[:, 16 * block : 16 * block + 16].T[2:10, 4:12]
        np.testing.assert_array_equal(w[8 * block : 8 * block + 8], expected)


@nv.jit
def zero_filled(x, y, *, asynchronous):
    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((16, 16), nv.f32)
        for i in nv.range(8):
            tile[i * 2 + nv.thread_id.x // 16, nv.thread_id.x % 16] = -1.0
        nv.sync_warp()
        row = nv.i32(x[0, 0]) + 4
        nv.copy(x[row : row + 16, row : row + 16], tile, asynchronous=asynchronous)
        if asynchronous:
            nv.cp_async_commit()
            nv.cp_async_wait()
        nv.sync_warp()
        nv.copy(tile, y)

    body()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_lies_past_the_array_is_zeros(asynchronous):
    x, y = np.random.default_rng(1).random((12, 12), np.float32), zeros(16, 16)
    x[0, 0] = 0
    run(zero_filled, x, y, asynchronous=asynchronous)
    expected = zeros(16, 16)
    expected[:8, :8] = x[4:, 4:]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("m", "n"), [(64, 64), (100, 72), (5, 8), (33, 136)])
def test_copies_of_dynamic_arrays(m, n):
    made = []

    @nv.jit
    def host(x: nv.Array["m", "n % 8"], y: nv.Array["m", "n % 8"]):
        @nv.kernel(grid=(nv.cdiv(x.shape[0], 32), nv.cdiv(x.shape[1], 64)), block=64)
        def body():
            tile = nv.smem((32, 64), x.dtype, swizzle=128)
            r, c = nv.block_id.x * 32, nv.block_id.y * 64
            made.append(nv.copy(x[r : r + 32, c : c + 64], tile, asynchronous=True))
            nv.cp_async_commit()
            nv.cp_async_wait(0)
            nv.sync_threads()
            made.append(nv.copy(tile, y[r : r + 32, c : c + 64]))

        body()

    x, y = numbers((m, n), nv.f16), zeros(m, n, dtype=np.float16)
    host(x, y)
    np.testing.assert_array_equal(x, y)
    assert [plan.vector for plan in made] == [8, 8]


# --- a pipeline of cp.async, and what can be wrong with it


@nv.jit
def pipeline(x, y, *, stages=3, pending=1, sync=True, commit=True, wait=True, reuse=True):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        count = x.shape[0] // 16
        stack = nv.smem((stages, 16, 64), x.dtype)
        total = nv.f32(0.0)
        for k in range(stages - 1):
            nv.copy(x[16 * k : 16 * k + 16, :], stack[k], asynchronous=True)
            nv.cp_async_commit()
        for k in range(count):
            if wait:
                nv.cp_async_wait(pending)
            if sync:
                nv.sync_threads()
            after = k + stages - 1
            if after < count:
                nv.copy(x[16 * after : 16 * after + 16, :], stack[after % stages], asynchronous=True)
            if commit:
                nv.cp_async_commit()
            for i in range(16):
                total += stack[k % stages][i, t]  # here
            if not reuse:
                nv.sync_threads()
        y[t] = total
        nv.cp_async_wait(0)

    body()


@pytest.mark.parametrize("options", sample(SCHEDULES, 4), ids=str)
def test_a_pipeline_of_copies_is_right(options):
    x, y = numbers((96, 64), nv.f32), zeros(64)
    run(pipeline, x, y, options=options)
    np.testing.assert_array_equal(y, x.sum(0))


WRONG = {
    "waits for too few groups": ({"pending": 2}, "undelivered"),
    "does not wait": ({"wait": False}, "undelivered"),
    "no barrier after the wait": ({"sync": False}, "raw"),
    "copies are in no group": ({"commit": False}, "undelivered"),
    "too few stages": ({"stages": 1, "pending": 0}, "undelivered"),
}


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize(("how", "kind"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_reported(how, kind, level):
    for delivery in ("late", "eager"):
        options = sim.Options(delivery=delivery, level=level)
        error = verdict(pipeline, numbers((96, 64), nv.f32), zeros(64), options=options, **how)
        assert isinstance(error, SimError) and error.kind in (kind, "undelivered"), error
        assert error.where is not None and error.fix


@nv.jit
def mistakes(x, y, *, what):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        line = nv.smem((256,), nv.f32)
        if what == "store":
            nv.cp_async(line, t * 4, x, t * 4, 4)
            line[t * 4] = 1.0  # here
            nv.cp_async_commit()
            nv.cp_async_wait()
        if what == "neighbour":
            nv.cp_async(line, t * 4, x, t * 4, 4)
            nv.cp_async_commit()
            nv.cp_async_wait()
            y[t] = line[127 - t * 4]  # here
        if what == "exit":
            nv.cp_async(line, t * 4, x, t * 4, 4)  # here
            nv.cp_async_commit()
            nv.cp_async_wait(1)
        if what == "misaligned":
            nv.cp_async(line, t * 4 + 1, x, t * 4, 4)  # here
        if what == "bounds":
            nv.cp_async(line, t * 4, x, t * 4 + 4, 4)  # here
        if what == "too much":
            nv.cp_async(line, t * 4, x, t * 4, 4, valid=t)  # here

    body()


MISTAKES = {
    "store": "undelivered", "neighbour": "warp-sync", "exit": "exit-in-flight", "misaligned": "misaligned",
    "bounds": "out-of-bounds", "too much": "illegal-copy",
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_of_one_warp(what):
    error = verdict(mistakes, numbers((128,), nv.f32), zeros(32), what=what)
    assert error is not None and error.kind == MISTAKES[what], error


@nv.jit
def ring_of_copies(x, y, *, stages=2):
    """Two warps fill a ring's slots by cp.async, and arrive when their copies are done; two others read them. That a
    warp has waited for a slot is known by the arrival that comes after it."""

    @nv.kernel(grid=1, block=128)
    def body():
        t, rounds = nv.thread_id.x, x.shape[0]
        slots = nv.smem((stages, 64), x.dtype)
        ring = nv.Ring(stages, bytes=0, consumers=64, producers=64)
        if t < 64:
            state = ring.producer_state()
            for i in nv.range(rounds):
                full = ring.acquire(state, expect=False)
                nv.cp_async(slots.elements((state.stage, t), 1), 0, x, (i, t), 1)
                nv.cp_async_arrive(full)
                state = state.next()
        else:
            state, total = ring.consumer_state(), nv.f32(0)
            for _ in nv.range(rounds):
                ring.wait(state)
                total += slots[state.stage, t % 64] + slots[state.stage, (t + 1) % 64]
                ring.release(state, t < 128)
                state = state.next()
            y[t - 64] = total

    body()


@pytest.mark.parametrize("options", sample(SCHEDULES, 1), ids=str)
@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_copies_fill_a_ring(options, level):
    x, y = numbers((7, 64), nv.f32), zeros(64)
    run(ring_of_copies, x, y, options=sim.Options(order=options.order, delivery=options.delivery, level=level))
    np.testing.assert_array_equal(y, x.sum(0) + np.roll(x.sum(0), -1))


@nv.jit
def by_mbarrier(x, y, *, arrivals=64, wait=True, fence=True):
    """Threads 0 to 63 copy, and arrive when their copies are done; the others read."""

    @nv.kernel(grid=1, block=128)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((32, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=arrivals)[0]
        if t < 64:
            for i in range(8):
                at = i * 64 + t
                nv.cp_async(tile.elements((at // 16, at % 16 * 4), 4), 0, x, (at // 16, at % 16 * 4), 4)
            nv.cp_async_arrive(full)
        else:
            if wait:
                full.wait(0)
            y[t - 64] = tile[t % 32, t - 64]

    body()


@pytest.mark.parametrize("options", sample(SCHEDULES, 3), ids=str)
@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_copies_arrive_at_an_mbarrier(options, level):
    x, y = numbers((32, 64), nv.f32), zeros(64)
    run(by_mbarrier, x, y, options=sim.Options(order=options.order, delivery=options.delivery, level=level))
    np.testing.assert_array_equal(y, x[np.arange(64) % 32, np.arange(64)])


def test_an_mbarrier_of_copies_that_is_wrong():
    x, y = numbers((32, 64), nv.f32), zeros(64)
    assert verdict(by_mbarrier, x, y, wait=False).kind in ("raw", "undelivered")
    assert verdict(by_mbarrier, x, y, arrivals=16).kind == "over-arrival"
    assert verdict(by_mbarrier, x, y, arrivals=65).kind == "deadlock"


def test_the_verifier_knows_copies_that_nobody_waits_for():
    x, y = (nv.ShapeDtype(s, nv.f32) for s in ((96, 64), (64,)))
    pipeline.trace(x, y)
    with pytest.raises(nv.VerifyError, match="nothing waits for this cp.async"):
        mistakes.trace(nv.ShapeDtype((128,), nv.f32), y, what="too much")


@nv.jit
def turned(x, y):
    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem(x.shape[::-1], x.dtype)
        nv.copy(x, tile.T)
        nv.sync_threads()
        nv.copy(tile.T, y)

    body()


@pytest.mark.parametrize("shape", [(8, 1), (1, 8), (4, 8)])
def test_elements_in_a_row_that_no_access_takes_at_once_go_one_by_one(shape):
    """An array's accesses lie along its last axis, and a tile's along its rows."""
    x, y = numbers(shape, nv.f32), zeros(*shape)
    turned(x, y, target="sim")
    np.testing.assert_array_equal(x, y)
    turned.trace(nv.ShapeDtype(shape, nv.f32, (1, shape[0])), nv.ShapeDtype(shape, nv.f32))


def test_the_plan_says_what_was_chosen():
    made = []

    @nv.jit
    def host(x, y):
        @nv.kernel(grid=1, block=128)
        def body():
            tile = nv.smem((64, 64), nv.f16, swizzle=128)
            made.append(nv.copy(x[:, 0:64], tile))
            nv.sync_threads()
            made.append(nv.copy(tile, y))

        body()

    host.trace(nv.ShapeDtype((64, 100), nv.f16), nv.ShapeDtype((64, 64), nv.f16, (1, 64)))
    first, second = made
    assert (first.vector, first.axis, first.rounds, first.instruction) == (4, 1, 8, "ld.global, st.shared")
    assert "the alignment of the source" in str(first)
    assert (second.vector, second.axis) == (1, 0)
    assert {tuple(first.place(t, r)) for t in range(128) for r in range(8)} == {
        (i, j) for i in range(64) for j in range(0, 64, 4)
    }
    assert math.prod(first.shape) == first.count * first.vector




@nv.jit
def product(a, b, d, *, fence=True, barrier=False):
    """Operands of a wgmma that cp.async brings: the async proxy reads what the generic one wrote."""

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=256)[0]
        for source, tile in ((a, A), (b, B)):
            nv.copy(source, tile, asynchronous=True, barrier=full if barrier else None)
        if barrier:
            full.wait(0)
        else:
            nv.cp_async_commit()
            nv.cp_async_wait(0)
        if fence:
            nv.fence_proxy_async()
        nv.sync_threads()
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B  # here
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()


@pytest.mark.parametrize("barrier", [False, True])
def test_operands_of_wgmma_need_a_proxy_fence(barrier):
    a, b, d = (np.random.default_rng(i).integers(-3, 4, (64, 64)).astype(np.float16) for i in range(3))
    d = d.astype(np.float32)
    run(product, a, b, d, barrier=barrier)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32))
    error = verdict(product, a, b, d, barrier=barrier, fence=False)
    assert error is not None and error.kind == "proxy-fence", error
    shapes = [nv.ShapeDtype((64, 64), t) for t in (nv.f16, nv.f16, nv.f32)]
    with pytest.raises(nv.VerifyError, match="no proxy fence"):
        product.trace(*shapes, fence=False)


@nv.jit
def load_windows(x, out, *, row: int, count: int):
    """Rows ``row`` to ``row + count - 1`` of x, behind zeros."""
    part = nv.TMA(x.windows(16), tile=(1, 16, 8))

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((16, 8), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(part.bytes)
            part.load(tile, full, (row, count - 16, 0))
        full.wait(0)
        for i in nv.range(nv.thread_id.x, 128, 32):
            out[i // 8, i % 8] = tile[i // 8, i % 8]

    kernel()


@pytest.mark.parametrize(("row", "count"), [(3, 16), (38, 2), (40, 0)])
def test_a_window_has_as_many_rows_as_are_asked_for(row, count):
    x, out = np.arange(320, dtype=np.float32).reshape(40, 8), np.full((16, 8), np.nan, np.float32)
    run(load_windows, x, out, row=row, count=count)
    np.testing.assert_array_equal(out[: 16 - count], 0)
    np.testing.assert_array_equal(out[16 - count :], x[row : row + count])


def test_a_window_that_reads_behind_its_array_is_reported():
    with pytest.raises(SimError, match="reads 32 bytes past the end") as found:
        run(load_windows, zeros(40, 8), zeros(16, 8), row=38, count=3)
    assert found.value.kind == "out-of-bounds"
