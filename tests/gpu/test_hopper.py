"""Hopper's own instructions on the device: TMA stores and reductions, multicast, clusters, wgmma forms, registers."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.testing import assert_close, in_child, matmul, random
from tests.sim.programs import load


@nv.jit
def copy_through_tma(x, y, *, tile, swizzle, kind="store"):
    M, N = x.shape
    BM, BN = tile
    x_tma = nv.TMA(x, tile=tile, swizzle=swizzle)
    y_tma = nv.TMA(y, tile=tile, swizzle=swizzle)

    @nv.kernel(grid=(nv.cdiv(M, BM), nv.cdiv(N, BN)), block=32)
    def kernel():
        T = nv.smem(tile, x.dtype, swizzle=swizzle)
        full = nv.Mbarriers(1, arrivals=1)[0]
        at = (nv.block_id.x * BM, nv.block_id.y * BN)
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(T.bytes)
            x_tma.load(T, full, at)
            full.wait(0)
            if kind == "store":
                y_tma.store(T, at)
            else:
                y_tma.reduce_add(T, at)
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


@in_child(timeout=120)
def test_tma_load_and_store_over_swizzles_and_types():
    for dtype in (nv.f32, nv.f16, nv.bf16, nv.i32, nv.u8, nv.e4m3):
        for swizzle in (0, 16, 32, 64, 128):
            cols = 2 * max(swizzle, 16) // dtype.bytes
            x = random((100, 3 * cols), dtype, 1)  # 100 rows: the last tile hangs over, stores are clipped
            y = np.zeros_like(x)
            copy_through_tma(x, y, tile=(32, cols), swizzle=swizzle)
            np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8), f"{dtype} swizzle {swizzle}")


@in_child(timeout=60)
def test_tma_reduce_add():
    x, y = random((64, 64), nv.f32, 1), random((64, 64), nv.f32, 2)
    expected = x + y
    copy_through_tma(x, y, tile=(32, 32), swizzle=128, kind="reduce")
    np.testing.assert_array_equal(y, expected)


@in_child(timeout=60)
def test_tma_ranks():
    @nv.jit
    def copy(x, y, *, tile):
        x_tma, y_tma = nv.TMA(x, tile=tile), nv.TMA(y, tile=tile)
        rows = int(np.prod(tile[:-1])) if len(tile) > 1 else 1

        @nv.kernel(grid=x.shape[0] // tile[0], block=32)
        def kernel():
            T = nv.smem((rows, tile[-1]), x.dtype)
            full = nv.Mbarriers(1, arrivals=1)[0]
            at = (nv.block_id.x * tile[0], *[0] * (len(tile) - 1))
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(T.bytes)
                x_tma.load(T, full, at)
                full.wait(0)
                y_tma.store(T, at)
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

        kernel()

    for shape in ((64,), (4, 32), (3, 5, 16), (2, 3, 4, 8), (2, 2, 3, 2, 8)):
        x = random(shape, nv.f32, 1)
        y = np.zeros_like(x)
        copy(x, y, tile=(1, *shape[1:]) if len(shape) > 1 else (16,))
        np.testing.assert_array_equal(y, x)


@in_child(timeout=60)
def test_swizzled_tile_elements():
    """What TMA wrote with a swizzle, threads read by index, and the other way round."""

    @nv.jit
    def transpose(x, y, *, swizzle):
        x_tma, y_tma = nv.TMA(x, tile=(64, 64), swizzle=swizzle), nv.TMA(y, tile=(64, 64), swizzle=swizzle)

        @nv.kernel(grid=1, block=64)
        def kernel():
            X, Y = (nv.smem((64, 64), x.dtype, swizzle=swizzle) for _ in range(2))
            full = nv.Mbarriers(1, arrivals=1)[0]
            t = nv.thread_id.x
            if t == 0:
                full.arrive_expect_tx(X.bytes)
                x_tma.load(X, full, (0, 0))
            full.wait(0)
            for i in nv.range(64):
                Y[t, i] = X[i, t]
            nv.fence_proxy_async()
            nv.sync_threads()
            if t == 0:
                y_tma.store(Y, (0, 0))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

        kernel()

    for swizzle in (0, 32, 64, 128):
        x = random((64, 64), nv.f16, swizzle)
        y = np.zeros_like(x)
        transpose(x, y, swizzle=swizzle)
        np.testing.assert_array_equal(y, x.T)


@in_child(timeout=60)
def test_a_fifth_warp_loads():
    a, b = random((256, 640), nv.f16, 1, integers=True), random((128, 640), nv.f16, 2, integers=True)
    d = np.full((256, 128), np.nan, np.float32)
    load("tests/programs/loading_warp.py").loading_warp(a, b, d)
    assert_close(d, matmul(a, b.T), nv.f16, 640, exact=True)


@in_child(timeout=60)
def test_multicast_in_a_cluster():
    """Block 0 of each cluster loads one tile into both blocks; each stores its copy."""

    @nv.jit
    def spread(x, y):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=(4, 1), block=64, cluster=2)
        def kernel():
            T = nv.smem((16, 64), x.dtype)
            full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
            nv.cluster_sync()
            rank, t = nv.cluster_rank(), nv.thread_id.x
            if t == 0:
                full.arrive_expect_tx(T.bytes)
                if rank == 0:
                    x_tma.load(T, full, ((nv.block_id.x // 2) * 16, 0), multicast_mask=3)
            full.wait(0)
            for i in nv.range(16):
                y[nv.block_id.x * 16 + i, t] = T[i, t]
            nv.cluster_sync()

        kernel()

    x = random((32, 64), nv.f32, 1)
    y = np.full((64, 64), np.nan, np.float32)
    spread(x, y)
    np.testing.assert_array_equal(y, x.reshape(2, 1, 16, 64).repeat(2, 1).reshape(64, 64))


@in_child(timeout=60)
def test_remote_arrive_and_cluster_ids():
    @nv.jit
    def ring(out):
        @nv.kernel(grid=8, block=32, cluster=4)
        def kernel():
            done = nv.Mbarriers(1, arrivals=4, sync=False)[0]
            nv.cluster_sync()
            t = nv.thread_id.x
            if t < 4:
                done.arrive_cluster(t)  # every block arrives once at each block's barrier
            done.wait(0)
            if t == 0:
                b = nv.block_id.x
                out[b, 0] = nv.cluster_rank()
                out[b, 1] = nv.cluster_id.x
                out[b, 2] = nv.cluster_block_id.x
                out[b, 3] = nv.cluster_dim.x
            nv.cluster_sync()

        kernel()

    out = np.zeros((8, 4), np.int32)
    ring(out)
    np.testing.assert_array_equal(out, [[i % 4, i // 4, i % 4, 4] for i in range(8)])


@nv.jit
def wgmma_tile(a, b, d, *, m, n, k, swizzle, a_dtype, b_dtype, acc, transpose_a, transpose_b):
    """d = a @ b with one warpgroup, a stored as (m, k) or (k, m), b as (k, n) or (n, k)."""
    a_shape = (k, m) if transpose_a else (m, k)
    b_shape = (n, k) if transpose_b else (k, n)
    a_tma, b_tma = nv.TMA(a, tile=a_shape, swizzle=swizzle), nv.TMA(b, tile=b_shape, swizzle=swizzle)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A, B = nv.smem(a_shape, a_dtype, swizzle=swizzle), nv.smem(b_shape, b_dtype, swizzle=swizzle)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        sums = nv.accumulator(m, n, acc)
        sums += (A.T if transpose_a else A) @ (B.T if transpose_b else B)
        nv.wgmma_wait(0)
        sums.store(d, (0, 0))

    kernel()


def check_wgmma(a_dtype, b_dtype, acc, *, m=64, n=64, k=None, swizzle=128, ta=False, tb=True):
    k = k or 128 // a_dtype.bytes
    a = random((k, m) if ta else (m, k), a_dtype, 1, integers=True)
    b = random((n, k) if tb else (k, n), b_dtype, 2, integers=True)
    d = np.zeros((m, n), acc.numpy)
    wgmma_tile(
        a, b, d, m=m, n=n, k=k, swizzle=swizzle, a_dtype=a_dtype, b_dtype=b_dtype, acc=acc,
        transpose_a=ta, transpose_b=tb,
    )  # fmt: skip
    expected = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
    label = f"{a_dtype} {b_dtype} {acc} {m}x{n}x{k} swizzle {swizzle} ta={ta} tb={tb}"
    np.testing.assert_array_equal(d.astype(np.float64), expected, label)


@in_child(timeout=240)
def test_wgmma_types():
    f8 = (nv.e4m3, nv.e5m2)
    cases = [(nv.f16, nv.f16, nv.f32), (nv.f16, nv.f16, nv.f16), (nv.bf16, nv.bf16, nv.f32), (nv.f32, nv.f32, nv.f32)]
    cases += [(x, y, acc) for x in f8 for y in f8 for acc in (nv.f32, nv.f16)]
    cases += [(x, y, nv.i32) for x in (nv.i8, nv.u8) for y in (nv.i8, nv.u8)]
    for case in cases:
        check_wgmma(*case)
        check_wgmma(*case, m=128, n=96, k=2 * 128 // case[0].bytes)


@in_child(timeout=240)
def test_wgmma_layouts():
    for swizzle in (16, 32, 64, 128):
        for ta in (False, True):
            for tb in (False, True):
                check_wgmma(nv.f16, nv.f16, nv.f32, m=128, n=128, k=128, swizzle=swizzle, ta=ta, tb=tb)
        check_wgmma(nv.e4m3, nv.e4m3, nv.f32, n=128, k=128, swizzle=swizzle)
        check_wgmma(nv.f32, nv.f32, nv.f32, n=128, k=64, swizzle=swizzle)


@in_child(timeout=300)
def test_wgmma_widths():
    for n in range(8, 257, 8):
        check_wgmma(nv.f16, nv.f16, nv.f32, n=n)
    for n in (8, 16, 24, 32, 48, 224, 256):
        check_wgmma(nv.i8, nv.i8, nv.i32, n=n)


@in_child(timeout=90)
def test_wgmma_from_registers_and_runtime_scale():
    """(A @ B) as f16 fragments times C, and a sum that starts anew when the condition is false."""

    @nv.jit
    def chain(a, b, c, d, keep):
        a_tma, b_tma, c_tma = (nv.TMA(x, tile=(64, 64), swizzle=128) for x in (a, b, c))

        @nv.kernel(grid=1, block=128)
        def kernel():
            A, B, C = (nv.smem((64, 64), a.dtype, swizzle=128) for _ in range(3))
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(3 * A.bytes)
                a_tma.load(A, full, (0, 0))
                b_tma.load(B, full, (0, 0))
                c_tma.load(C, full, (0, 0))
            full.wait(0)
            s = nv.accumulator(64, 64, nv.f32)
            s += A @ B
            nv.wgmma_wait(0)
            p = s.fragment(nv.f16)
            o = s.map(lambda x: x * 2.0)
            o = o.mma(p, C, scale_d=keep != 0)
            nv.wgmma_wait(0)
            o.store(d, (0, 0))

        kernel()

    a, b, c = (random((64, 64), nv.f16, s, integers=True) for s in (1, 2, 3))
    s = a.astype(np.float64) @ b.astype(np.float64)
    for keep in (0, 1):
        d = np.zeros((64, 64), np.float32)
        chain(a, b, c, d, keep)
        np.testing.assert_array_equal(d, s @ c.astype(np.float64) + (2 * s if keep else 0))


@in_child(timeout=60)
def test_stmatrix_ldmatrix_round_trip():
    @nv.jit
    def through(x, y):
        @nv.kernel(grid=1, block=32)
        def kernel():
            T = nv.smem((16, 16), nv.f16)
            t = nv.thread_id.x
            for i in nv.range(8):
                T[(t * 8 + i) // 16, (t * 8 + i) % 16] = x[(t * 8 + i) // 16, (t * 8 + i) % 16]
            nv.sync_warp()
            row = t % 16 * 32 + t // 16 * 16  # bytes: lanes 0-15 the left half's rows, 16-31 the right half's
            registers = nv.ldmatrix(T.pointer(row), 4)
            transposed = nv.smem((16, 16), nv.f16)
            swapped = [registers[0], registers[2], registers[1], registers[3]]
            nv.stmatrix(transposed.pointer(row), swapped, transpose=True)
            nv.sync_warp()
            for i in nv.range(8):
                y[(t * 8 + i) // 16, (t * 8 + i) % 16] = transposed[(t * 8 + i) // 16, (t * 8 + i) % 16]

        kernel()

    x = random((16, 16), nv.f16, 1)
    y = np.zeros_like(x)
    through(x, y)
    np.testing.assert_array_equal(y, x.T)


@in_child(timeout=60)
def test_shuffles_votes_and_named_barriers():
    @nv.jit
    def collect(out):
        @nv.kernel(grid=1, block=64)
        def kernel():
            t = nv.thread_id.x
            lane = nv.lane_id()
            out[0, t] = nv.shuffle(t, 5)
            out[1, t] = nv.shuffle_xor(t, 1)
            out[2, t] = nv.shuffle_up(t, 2)
            out[3, t] = nv.shuffle_down(t, 2)
            out[4, t] = nv.ballot(lane < 4)
            out[5, t] = nv.i32(nv.vote_any(lane == 3)) + 2 * nv.i32(nv.vote_all(lane == 3))
            S = nv.smem(64, nv.i32)
            S[t] = t * t
            nv.named_barrier_sync(3, 64)
            out[6, t] = S[63 - t]
            out[7, t] = nv.warp_id()

        kernel()

    out = np.zeros((8, 64), np.int32)
    collect(out)
    t = np.arange(64)
    lane, base = t % 32, t // 32 * 32
    expected = [
        base + 5, t ^ 1, np.where(lane >= 2, t - 2, t), np.where(lane < 30, t + 2, t), 0 * t + 15, 0 * t + 1,
        (63 - t) ** 2, t // 32,
    ]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


@in_child(timeout=60)
def test_elect_picks_one_lane_of_each_warp():
    @nv.jit
    def count(out):
        @nv.kernel(grid=1, block=128)
        def kernel():
            out[nv.thread_id.x] = nv.i32(nv.elect())

        kernel()

    out = np.zeros(128, np.int32)
    count(out)
    assert out.reshape(4, 32).sum(axis=1).tolist() == [1, 1, 1, 1]


@in_child(timeout=90)
def test_l2_hints_and_bulk_copies():
    @nv.jit
    def copy(x, y, z):
        x_tma, y_tma = nv.TMA(x, tile=(16, 32)), nv.TMA(y, tile=(16, 32))

        @nv.kernel(grid=1, block=32)
        def kernel():
            T, U = nv.smem((16, 32), nv.f32), nv.smem(512, nv.f32)
            bars = nv.Mbarriers(2, arrivals=1)
            if nv.thread_id.x == 0:
                x_tma.prefetch_tile((0, 0))
                bars[0].arrive_expect_tx(T.bytes)
                x_tma.load(T, bars[0], (0, 0), l2_hint=nv.L2_EVICT_FIRST)
                bars[1].arrive_expect_tx(2048)
                nv.bulk_load(U, x, 2048, bars[1])
                bars[0].wait(0)
                bars[1].wait(0)
                y_tma.store(T, (0, 0), l2_hint=nv.L2_EVICT_LAST)
                nv.bulk_store(z, U, 2048)
                nv.bulk_commit_group()
                nv.bulk_wait_group(0)

        kernel()

    x = random((16, 32), nv.f32, 1)
    y, z = np.zeros_like(x), np.zeros_like(x)
    copy(x, y, z)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, x)


@in_child(timeout=60)
def test_math_is_close_to_numpy():
    functions = {
        "exp": np.exp, "exp2": np.exp2, "log": lambda x: np.log(np.abs(x) + 1), "sin": np.sin, "cos": np.cos,
        "tanh": np.tanh, "sqrt": lambda x: np.sqrt(np.abs(x)),
    }  # fmt: skip

    @nv.jit
    def apply(x, y, *, name):
        f = getattr(nv.math, name)

        @nv.kernel(grid=1, block=256)
        def kernel():
            v = x[nv.thread_id.x]
            if name == "log":
                v = nv.abs(v) + 1.0
            if name == "sqrt":
                v = nv.abs(v)
            y[nv.thread_id.x] = f(v)

        kernel()

    x = random((256,), nv.f32, 1)
    for name, reference in functions.items():
        y = np.zeros_like(x)
        apply(x, y, name=name)
        np.testing.assert_allclose(y, reference(x.astype(np.float64)), rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("dtype", ["i32", "u32"])
@in_child(timeout=60)
def test_integer_division_like_python(dtype):
    kind = getattr(nv, dtype)

    @nv.jit
    def divide(x, q, r, e):
        @nv.kernel(grid=1, block=64)
        def kernel():
            i = nv.thread_id.x
            for j, d in enumerate((1, 2, 3, 7, 8)):
                q[j, i] = x[i] // d
                r[j, i] = x[i] % d
            e[i] = nv.i32(x[i] < 5)

        kernel()

    x = (np.arange(64) - (32 if dtype == "i32" else 0)).astype(kind.numpy)
    q, r, e = np.zeros((5, 64), kind.numpy), np.zeros((5, 64), kind.numpy), np.zeros(64, np.int32)
    divide(x, q, r, e)
    for j, d in enumerate((1, 2, 3, 7, 8)):
        np.testing.assert_array_equal(q[j], x // d)
        np.testing.assert_array_equal(r[j], x % d)
    np.testing.assert_array_equal(e, x < 5)


@in_child(timeout=60)
def test_traced_control_flow():
    """Collatz steps: a while loop, an if and carried variables, against plain Python."""

    @nv.jit
    def collatz(n, steps):
        @nv.kernel(grid=1, block=64)
        def kernel():
            x = n[nv.thread_id.x]
            count = 0
            while x > 1 and count < 200:
                if x % 2 == 0:
                    x = x // 2
                else:
                    x = 3 * x + 1
                count += 1
            steps[nv.thread_id.x] = count

        kernel()

    n = np.arange(1, 65, dtype=np.int32)
    steps = np.zeros(64, np.int32)
    collatz(n, steps)

    def reference(x):
        count = 0
        while x > 1:
            x, count = (x // 2 if x % 2 == 0 else 3 * x + 1), count + 1
        return count

    assert steps.tolist() == [reference(int(x)) for x in n]


@in_child(timeout=60)
def test_matmul_reference_agrees_with_itself():
    """The yardstick of the other tests, on a product that NumPy computes exactly."""
    a, b = random((64, 64), nv.f16, 1, integers=True), random((64, 64), nv.f16, 2, integers=True)
    assert_close(matmul(a, b), a.astype(np.float64) @ b.astype(np.float64), nv.f16, 64, exact=True)
