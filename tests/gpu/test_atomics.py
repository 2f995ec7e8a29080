"""Atomics, stores under a predicate, a queue of tiles, turns, bits of integers and inline PTX on the device."""

import numpy as np

import nvdsl as nv
from nvdsl.testing import in_child
from tests.sim import atomic_kernels as kernels
from tests.sim import test_bits
from tests.sim.programs import load
from tests.unit.lang.test_predicated import stored
from tests.unit.ops.test_grid import arrays, passed_around


@in_child(timeout=120)
def test_each_operation_of_each_type():
    for name in kernels.DTYPES:
        x, start, y, expected = kernels.numbers(name)
        kernels.combined(x, start, y, kinds=tuple(kernels.kinds_of(name)))
        np.testing.assert_array_equal(y, expected, err_msg=name)


@in_child(timeout=60)
def test_exchange_and_compare():
    for dtype in kernels.DTYPES.values():
        x, y = np.arange(4).astype(dtype), np.zeros((4, 4), dtype)
        kernels.exchanged(x, y)
        np.testing.assert_array_equal(y.astype(float), [[0, 1, 2, 3], [9] * 4, [4] * 4, [4] * 4])


@in_child(timeout=60)
def test_vectors():
    for name, count, shared in kernels.VECTORS:
        dtype = kernels.DTYPES[name]
        x, y = np.random.default_rng(0).integers(-3, 4, 32 * count).astype(dtype), np.zeros(4 * count, dtype)
        kernels.summed(x, y, count=count, shared=shared)
        np.testing.assert_array_equal(y.astype(float), 2 * x.astype(float).reshape(8, -1).sum(0))


@in_child(timeout=60)
def test_every_thread_draws_its_own_place():
    counter, y = np.zeros(1, np.int32), np.full(64 * 1000, -1, np.int32)
    kernels.tickets(counter, y, blocks=1000)
    assert counter[0] == len(y) and (np.bincount(y, minlength=64) == 1000).all()


@in_child(timeout=60)
def test_a_lock():
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels.locked(lock, total, blocks=500)
    assert total[0] == 500 and lock[0] == 0


@in_child(timeout=60)
def test_in_the_shared_memory_of_a_cluster():
    for cluster in (1, 2, 4, 8):
        x = np.zeros(32, np.int32)
        kernels.counted_in_a_cluster(x, cluster=cluster)
        assert (x == 32 * (cluster + 1)).all()


@in_child(timeout=60)
def test_where_nobody_uses_the_old_value_it_is_a_reduction():
    @nv.jit
    def host(x: nv.Array, f: nv.Array):
        @nv.kernel(grid=1, block=32)
        def kernel():
            t = nv.thread_id.x
            x.atomic_max(t, t)
            f.atomic_add(4 * t, f.vector(4 * t, 4))
            x.atomic_or(t, 1, predicate=t == 3)

        kernel()

    (kernel,) = host.compile(nv.ShapeDtype((32,), nv.i32), nv.ShapeDtype((128,), nv.f32)).kernels.values()
    sass = kernel.sass()
    assert sass.count("RED") == 3 and "ATOM" not in sass


@in_child(timeout=120)
def test_each_tile_is_drawn_once():
    for tiles, blocks, stages in ((1, 1, 1), (9, 2, 1), (5000, 132, 2), (5000, 264, 4), (3, 132, 2)):
        for whole_warps in (True, False):
            counter, times, total = np.zeros(1, np.int32), np.zeros(tiles, np.int32), np.zeros(1, np.int32)
            for _ in range(5):
                constants = {"tiles": tiles, "blocks": blocks, "stages": stages, "whole_warps": whole_warps}
                kernels.drawn(counter, times, total, **constants)
            assert (times == 5).all() and counter[0] == 0 and total[0] == 5 * blocks


@in_child(timeout=60)
def test_members_take_turns_in_order():
    for count, total in ((2, 1000), (2, 1001), (3, 1000), (7, 500)):
        out = np.full(total, -1, np.int32)
        kernels.in_turns(out, count=count, total=total)
        assert out.tolist() == [i % count for i in range(total)]


@in_child(timeout=60)
def test_stores_under_a_predicate():
    for dtype, count in ((np.float32, 4), (np.float16, 8), (np.float64, 2), (np.float16, 2)):
        x = np.random.default_rng(0).integers(0, 6, 32).astype(np.float32)
        y, z = np.zeros(32, np.float32), np.arange(32 * count).astype(dtype)
        stored(x, y, z, count=count)
        np.testing.assert_array_equal(y, np.where(x > 2, x, 0))
        np.testing.assert_array_equal(z, np.arange(32 * count) + np.repeat(x > 2, count))


@in_child(timeout=60)
def test_subnormals_are_kept_in_shared_memory_alone():
    """As the simulator does: see tests/sim/test_atomics.py."""

    @nv.jit
    def host(x: nv.Array, y: nv.Array, *, vector):
        @nv.kernel(grid=1, block=1)
        def kernel():
            s = nv.smem((2,), nv.f32)
            s[0] = 0.0
            s.atomic_add(0, x[0])
            y.atomic_add(0, x.vector(0, 2) if vector else x[0])
            x[1] = s[0]

        kernel()

    tiny = np.float32(1e-40)
    for vector in (False, True):
        x, y = np.array([tiny, 0], np.float32), np.array([0, 1.5], np.float32)
        host(x, y, vector=vector)
        assert x[1] == tiny and y.tolist() == [0.0, 1.5]


@in_child(timeout=60)
def test_a_barrier_of_the_grid():
    for blocks in (1, 2, 132, 264):
        x, y, counter = arrays(blocks)
        start = x.copy()
        for _ in range(3):
            x[...] = start
            passed_around(x, y, counter, rounds=20, blocks=blocks)
            np.testing.assert_array_equal(x, np.roll(start, 20, axis=0) + 20)


@in_child(timeout=60)
def test_inline_ptx():
    @nv.jit
    def host(x: nv.Array, y: nv.Array, z: nv.Array):
        @nv.kernel(grid=1, block=64)
        def kernel():
            t = nv.thread_id.x
            y[t] = nv.ptx("lop3.b32 $0, $1, $2, $3, 0x96;", x[t], t, 5, result=nv.u32)
            text = "{ setp.lt.u32 $1, $2, $3; min.u32 $0, $2, $3; }"
            least, less = nv.ptx(text, x[t], nv.u32(1 << 31), result=(nv.u32, nv.bool_))
            z[t] = nv.select(less, least, nv.u32(7))
            pointer = nv.ops.pointer.address_of(z, t * 4, nv.ops.pointer.GLOBAL)
            nv.ptx("{ @$2 red.global.add.u32 [$0], $1; }", pointer, nv.u32(1), t % 2 == 0)

        kernel()

    x = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    y, z, t = np.zeros(64, np.uint32), np.zeros(64, np.uint32), np.arange(64)
    host(x, y, z)
    np.testing.assert_array_equal(y, x ^ t.astype(np.uint32) ^ 5)
    np.testing.assert_array_equal(z, np.where(x < 1 << 31, x, 7) + (t % 2 == 0))


@in_child(timeout=60)
def test_histogram():
    histogram = load("chapters/ch13_histogram.py").histogram
    for n, bins, options in ((10_000_000, 256, {"blocks": 528}), (777, 7, {}), (1, 1, {})):
        x, counts = np.random.default_rng(0).integers(0, bins, n).astype(np.uint8), np.zeros(bins, np.int32)
        histogram(x, counts, **options)
        np.testing.assert_array_equal(counts, np.bincount(x, minlength=bins))


@in_child(timeout=120)
def test_bits_are_counted_as_python_counts_them():
    for dtype in test_bits.TYPES:
        test_bits.check(lambda function, *given: function(*given), dtype)
