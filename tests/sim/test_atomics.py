"""Atomics of arrays and tiles in the simulator: numbers, order, scopes, races, indices, at both levels."""

from __future__ import annotations

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.sim import atomic_kernels as kernels
from tests.sim.simulate import run as simulate
from tests.sim.simulate import verdict

LEVELS = ("traced", "nvvm")
rng = np.random.default_rng(7)


def run(host, *arrays, **options):
    simulate(host, *arrays, options=sim.Options(**options))


def reported(host, *arrays, **options):
    found = verdict(host, *arrays, options=sim.Options(**options))
    assert found is not None
    return found


@pytest.mark.parametrize("name", kernels.DTYPES)
def test_each_operation_of_each_type(name):
    """Of a warp's lanes, eight on each element, in shared memory and in global memory."""
    x, start, y, expected = kernels.numbers(name)
    simulate(kernels.combined, x, start, y, kinds=kernels.kinds_of(name))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("level", LEVELS)
def test_the_old_value_comes_back(level):
    counter, y = np.zeros(1, np.int32), np.full(128, -1, np.int32)
    run(kernels.tickets, counter, y, level=level)
    assert counter[0] == 128 and sorted(y.tolist()) == sorted([*range(64)] * 2)


@nv.jit
def drawn(number, winner, pair, y):
    @nv.kernel(grid=1, block=32)
    def kernel():
        t = nv.thread_id.x
        y[0, t] = nv.f32(number.atomic_add(0, 1))
        winner.atomic_cas(0, -1, t)
        old = pair.atomic_add(0, nv.vector([1.0, 2.0]))
        y[1, t], y[2, t] = old[0], old[1]

    kernel()


@pytest.mark.parametrize("level", LEVELS)
def test_lanes_draw_in_the_order_of_the_schedule(level):
    drawn_by = {}
    for order in ("forward", "reverse", "random"):
        number, winner, pair = np.zeros(1, np.int32), np.full(1, -1, np.int32), np.zeros(2, np.float32)
        run(drawn, number, winner, pair, y := np.zeros((3, 32), np.float32), level=level, order=order, seed=3)
        drawn_by[order] = y[0]
        assert sorted(y[0]) == [*range(32)] and (order == "random" or y[0, winner[0]] == 0)
        assert sorted(y[1]) == [*range(32)] and (y[2] == 2 * y[1]).all() and (pair == [32, 64]).all()
    assert (drawn_by["forward"] == np.arange(32)).all() and (drawn_by["reverse"] == np.arange(32)[::-1]).all()
    assert (np.diff(drawn_by["random"]) != 1).any()


@pytest.mark.parametrize("name", ["u16", "i64", "bf16", "f32"])
def test_exchange_and_compare(name):
    x, y = np.arange(4).astype(kernels.DTYPES[name]), np.zeros((4, 4), kernels.DTYPES[name])
    run(kernels.exchanged, x, y)
    np.testing.assert_array_equal(y.astype(float), [[0, 1, 2, 3], [9] * 4, [4] * 4, [4] * 4])


def test_compare_and_swap_compares_bits():
    @nv.jit
    def host(x: nv.Array):
        @nv.kernel(grid=1, block=2)
        def kernel():
            x.atomic_cas(nv.thread_id.x, 0.0, 1.0)

        kernel()

    x = np.array([0.0, -0.0], np.float32)
    run(host, x)
    assert x.tolist() == [1.0, 0.0] and np.signbit(x[1])


def test_only_those_of_the_predicate():
    @nv.jit
    def host(y: nv.Array):
        @nv.kernel(grid=1, block=64)
        def kernel():
            t = nv.thread_id.x
            assert y.atomic_add(nv.select(t % 2 == 1, 0, t), t, predicate=t % 2 == 1) is None

        kernel()

    y = np.zeros(1, np.int32)
    run(host, y)
    assert y[0] == sum(range(1, 64, 2))


@pytest.mark.parametrize("swizzle", [0, 128])
def test_an_element_of_a_tile(swizzle):
    @nv.jit
    def host(y: nv.Array):
        @nv.kernel(grid=1, block=64)
        def kernel():
            t = nv.thread_id.x
            tile = nv.smem((16, 32), nv.f32, swizzle=swizzle)
            for row in range(16):
                if t < 32:
                    tile[row, t] = 0.0
            nv.sync_threads()
            tile.atomic_add((t % 16, t // 16 * 9), 1.0)
            nv.sync_threads()
            for row in range(16):
                if t < 32:
                    y[row, t] = tile[row, t]

        kernel()

    y = np.zeros((16, 32), np.float32)
    run(host, y)
    expected = np.zeros((16, 32), np.float32)
    expected[:, [0, 9, 18, 27]] = 1
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_plain_load_beside_an_atomic_is_a_race(shared, order, level):
    @nv.jit
    def host(x: nv.Array, y: nv.Array):
        @nv.kernel(grid=1, block=64)
        def kernel():
            t = nv.thread_id.x
            s = nv.smem((1,), nv.i32)
            if t == 0:
                s[0] = 0
            nv.sync_threads()
            counter = s if shared else x
            counter.atomic_add(0, 1)
            y[t] = counter[0]

        kernel()

    found = reported(host, np.zeros(1, np.int32), np.zeros(64, np.int32), order=order, level=level)
    assert found.kind in ("raw", "war") and "atomic" in str(found)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_an_atomic_of_ones_own_does_not_order_those_of_others(shared, order):
    """Warp 1 adds, and reads what warp 0 may still add to."""

    @nv.jit
    def host(x: nv.Array, y: nv.Array):
        @nv.kernel(grid=1, block=64)
        def kernel():
            t = nv.thread_id.x
            s = nv.smem((1,), nv.i32)
            if t == 0:
                s[0] = 0
            nv.sync_threads()
            counter = s if shared else x
            counter.atomic_add(0, 1)
            if t >= 32:
                y[t] = counter[0]

        kernel()

    assert reported(host, np.zeros(1, np.int32), np.zeros(64, np.int32), order=order).kind in ("raw", "war")


@nv.jit
def zeroed_and_counted(y: nv.Array, *, meet):
    @nv.kernel(grid=1, block=64)
    def kernel():
        counter = nv.smem(1, nv.i32)
        if nv.thread_id.x == 0:
            counter[0] = 0
        if meet:
            nv.sync_threads()
        y[nv.thread_id.x] = counter.atomic_add(0, 1)

    kernel()


@pytest.mark.parametrize("order", sim.options.ORDERS)
def test_an_atomic_of_the_warp_that_stored_does_not_order_those_of_others(order):
    y = np.zeros(64, np.int32)
    simulate(zeroed_and_counted, y, meet=True, options=sim.Options(order=order))
    assert sorted(y.tolist()) == list(range(64))
    error = verdict(zeroed_and_counted, y, meet=False, options=sim.Options(order=order))
    assert error is not None and error.kind in ("waw", "raw"), error


@pytest.mark.parametrize("shared", [True, False])
def test_a_scope_too_narrow(shared):
    """Blocks that share memory, by atomics of which each is one step in its own block alone."""

    @nv.jit
    def host(x: nv.Array):
        @nv.kernel(grid=2, block=32, cluster=2)
        def kernel():
            s = nv.smem((1,), nv.i32)
            if nv.thread_id.x == 0:
                s[0] = 0
            nv.cluster_sync()
            if shared:
                here = nv.ops.pointer.address_of(s)
                nv.ops.atomics.atomic("add", nv.mapa(here, 0), 1, nv.i32, scope="cta")
            else:
                x.atomic_add(0, 1, scope="cta")
            nv.cluster_sync()

        kernel()

    assert reported(host, np.zeros(1, np.int32)).kind == "scope"


@pytest.mark.parametrize("shared", [True, False])
def test_two_scopes_on_one_line(shared):
    """Block 0 adds to two elements at one line, to the second, which block 1 adds to as well, in a scope too narrow."""

    @nv.jit
    def host(x):
        def add(counts, i, scope):
            counts.atomic_add(i, 1, scope=scope)

        @nv.kernel(grid=2, block=32, cluster=2)
        def kernel():
            s = nv.smem((2,), nv.i32)
            if nv.thread_id.x < 2:
                s[nv.thread_id.x] = 0
            nv.cluster_sync()
            counts = s.at(0) if shared else x
            if nv.thread_id.x == 0:
                if nv.cluster_rank() == 0:
                    add(counts, 0, "cluster")
                    add(counts, 1, "cta")
                else:
                    add(counts, 1, "cluster")
            nv.cluster_sync()

        kernel()

    assert reported(host, np.zeros(2, np.int32)).kind == "scope"


def test_the_default_scope_holds_a_cluster():
    x = np.zeros(32, np.int32)
    run(kernels.counted_in_a_cluster, x)
    assert (x == 96).all()


@pytest.mark.parametrize("exchanged", [False, True])
def test_shared_memory_that_nobody_wrote(exchanged):
    """An exchange whose result nobody uses is a store."""

    @nv.jit
    def host(y: nv.Array):
        @nv.kernel(grid=1, block=32)
        def kernel():
            s = nv.smem((32,), nv.i32)
            if exchanged:
                s.atomic_exch(nv.thread_id.x, 1)
            else:
                s.atomic_add(nv.thread_id.x, 1)
            y[nv.thread_id.x] = s[nv.thread_id.x]

        kernel()

    y = np.zeros(32, np.int32)
    if exchanged:
        run(host, y)
        assert (y == 1).all()
    else:
        assert reported(host, y).kind == "uninitialized"


@pytest.mark.parametrize("relaxed", [False, True])
def test_release_and_acquire_hand_over_what_was_written(relaxed):
    """Relaxed, a lock orders nothing."""
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    if relaxed:
        found = verdict(kernels.locked, lock, total, orders=("relaxed", "relaxed"))
        assert found is not None and found.kind in ("raw", "waw", "war")
    else:
        run(kernels.locked, lock, total, order="random")
        assert total[0] == 3 and lock[0] == 0


def test_an_index_outside():
    @nv.jit
    def host(x: nv.Array, y: nv.Array):
        @nv.kernel(grid=1, block=32)
        def kernel():
            y.atomic_add((0, x[nv.thread_id.x]), 1)

        kernel()

    found = reported(host, np.full(32, 4, np.int32), np.zeros((2, 4), np.int32))
    assert found.kind == "out-of-bounds" and "index (0, 4) of an array of 2x4 i32: the last one on axis 1" in str(found)


@pytest.mark.parametrize("name, count, shared", kernels.VECTORS)
def test_vectors(name, count, shared):
    dtype = kernels.DTYPES[name]
    x, y = rng.integers(-3, 4, 32 * count).astype(dtype), np.zeros(4 * count, dtype)
    simulate(kernels.summed, x, y, count=count, shared=shared)
    np.testing.assert_array_equal(y.astype(float), 2 * x.astype(float).reshape(8, -1).sum(0))


def test_the_old_vector():
    @nv.jit
    def host(y: nv.Array):
        @nv.kernel(grid=1, block=1)
        def kernel():
            old = y.atomic_add((1, 0), nv.vector([1.0, 2.0], nv.f32))
            y.store_vector(old, (0, 0))

        kernel()

    y = np.arange(4, dtype=np.float32).reshape(2, 2)
    run(host, y)
    assert y.tolist() == [[2, 3], [3, 5]]


@pytest.mark.parametrize("count", [1, 2])
def test_subnormals_are_kept_in_shared_memory_alone(count):
    """PTX ISA, atom: in global memory an f32 that is added loses them."""

    @nv.jit
    def host(x: nv.Array, y: nv.Array):
        @nv.kernel(grid=1, block=1)
        def kernel():
            s = nv.smem((2,), nv.f32)
            s[0] = y[0]
            s.atomic_add(0, x[0])
            y.atomic_add(0, x[0] if count == 1 else x.vector(0, 2))
            x[1] = s[0]

        kernel()

    tiny = np.float32(1e-40)
    x, y = np.array([tiny, 0], np.float32), np.array([-tiny, 1.5], np.float32)
    run(host, x, y)
    assert x[1] == 0 and y.tolist() == [0.0, 1.5]
    x, y = np.array([tiny, 0], np.float32), np.array([0, 1.5], np.float32)
    run(host, x, y)
    assert x[1] == tiny and y.tolist() == [0.0, 1.5]


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("read", [128, 64])
def test_what_was_written_through_a_tile_lies_as_in_the_tile(read, atomic):
    """By an atomic, and by a store under a predicate; wgmma then reads it with another swizzle."""

    @nv.jit
    def host(d: nv.Array):
        @nv.kernel(grid=1, block=128)
        def kernel():
            a, b = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
            t = nv.thread_id.x
            for i in nv.range(t // 64, 64, 2):
                b[i, t % 64] = 1.0
                if atomic:
                    a.atomic_exch((i, t % 64), 1.0)
                else:
                    a.store((i, t % 64), 1.0, predicate=t < 128)
            nv.fence_proxy_async()
            nv.sync_threads()
            seen = nv.Tile(nv.layout.TileLayout.of(64, 64, 2, read), nv.f16, a.offset)
            acc = nv.accumulator(64, 64, nv.f32)
            acc += seen @ b
            nv.wgmma_wait(0)
            acc.store(d, (0, 0))

        kernel()

    found = verdict(host, np.zeros((64, 64), np.float32))
    assert found is None if read == 128 else found is not None and found.kind == "layout", found
