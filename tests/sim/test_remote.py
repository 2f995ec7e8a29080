"""Distributed shared memory: loads, stores, vectors, atomics and st.async at another block's tile."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from tests.exhaustive import sample
from tests.sim.simulate import SCHEDULES, run, verdict, zeros
from tests.unit.kernels import array

TYPES = [nv.f16, nv.bf16, nv.f32, nv.f64, nv.i8, nv.u16, nv.i64, nv.e4m3]


@nv.jit
def rotated(x, y, *, swizzle=0, begun=True, done=True, over=0, before=True):
    """Each block reads the next one's tile, and writes into that of the one after."""

    @nv.kernel(grid=4, block=32, cluster=4)
    def body():
        t, rank = nv.thread_id.x, nv.cluster_rank()
        tile, out = nv.smem((8, 16), x.dtype, swizzle=swizzle), nv.smem((8 * 16,), x.dtype)
        per = min(16 // x.dtype.bytes, 4)
        if begun:
            nv.cluster_sync()
        row, col = t // 4, t % 4 * 4
        for i in range(0, 4, per):
            tile.store_vector(x.vector((rank * 8 + row, col + i), per), (row, col + i))
        if before:
            nv.cluster_sync()
        peer = tile.at(rank + over if over else (rank + 1) % 4)
        target = out.at((rank + 2) % 4)
        for i in range(0, 4, per):
            target.store_vector(peer.vector((row, col + i), per), row * 16 + col + i)  # here
        nv.cluster_sync()
        for i in range(4):
            y[rank * 8 + row, col + i] = out[row * 16 + col + i]
        if done:
            nv.cluster_sync()

    body()


def numbers(shape, t):
    return np.random.default_rng(5).integers(0, 100, shape).astype(t.numpy)


def rolled(x, by):
    return np.roll(x.astype(np.float64).reshape(4, 8, -1), by, 0).reshape(32, -1)


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize("t", TYPES, ids=lambda t: t.name)
def test_vectors_of_other_blocks(t, level):
    x, y = numbers((32, 16), t), zeros(32, 16, dtype=t.numpy)
    run(rotated, x, y, options=sim.Options(level=level), swizzle=32 if t.bytes == 2 else 0)
    np.testing.assert_array_equal(y.astype(np.float64), rolled(x, 1))


MISTAKES = [
    ({"begun": False, "before": False}, "unstarted-block"), ({"before": False}, "raw"), ({"over": 1}, "cluster-rank"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "kind"), MISTAKES, ids=str)
def test_mistakes_with_other_blocks(how, kind):
    error = verdict(rotated, numbers((32, 16), nv.f32), zeros(32, 16), **how)
    assert error is not None and error.kind == kind, error


@nv.jit
def elements(x, y, *, barrier=True):
    """Elements, flags and atomics: block 1 counts for both."""

    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        t, rank = nv.thread_id.x, nv.cluster_rank()
        counts, flags = nv.smem((4, 16), nv.i32), nv.smem((64,), nv.bool_)
        if t < 64:
            counts[t // 16, t % 16] = 0
        nv.cluster_sync()
        counts.at(1).atomic_add((x[rank, t] // 16, x[rank, t] % 16), 1)
        flags.at(1 - rank)[t] = x[rank, t] > 31
        if barrier:
            nv.cluster_sync()
        y[rank, t] = counts.at(1)[t // 16, t % 16] + 1000 * nv.i32(flags[t]) + 10000 * nv.i32(flags.at(1 - rank)[t])
        nv.cluster_sync()

    body()


def test_elements_flags_and_atomics():
    x, y = np.random.default_rng(1).integers(0, 64, (2, 64)).astype(np.int32), zeros(2, 64, dtype=np.int32)
    run(elements, x, y)
    large = (x > 31).astype(np.int32)
    np.testing.assert_array_equal(y, np.bincount(x.ravel(), minlength=64) + 1000 * large[::-1] + 10000 * large)
    assert verdict(elements, x, y, barrier=False) is not None


@nv.jit
def lanes_elsewhere(x, y):
    """Each lane names a block of its own, by all atomics there are, and by inline PTX."""

    @nv.kernel(grid=4, block=32, cluster=4)
    def body():
        t, rank = nv.thread_id.x, nv.cluster_rank()
        counts, halves, owners = nv.smem((32,), nv.i32), nv.smem((64,), nv.f16), nv.smem((32,), nv.i32)
        counts[t], halves[t], halves[t + 32], owners[t] = 0, 0, 0, -1
        nv.cluster_sync()
        to = x[rank, t]
        counts.at(to).atomic_add(t, 1)
        halves.at(to).atomic_add(2 * t, nv.vector([nv.f16(1), nv.f16(rank)]))
        first = owners.at(to).atomic_cas(t, -1, rank)
        nv.cluster_sync()
        read = "ld.shared::cluster.b32 $0, [$1];"
        theirs = nv.mapa(nv.ops.smem.smem_pointer(4 * t), to)  # counts begin at byte 0
        found = nv.ptx(read, theirs, result=nv.i32, meaning=lambda p: p.load(nv.i32))
        y[rank, 0, t], y[rank, 1, t] = counts[t], nv.i32(halves[2 * t])
        y[rank, 2, t], y[rank, 3, t] = nv.i32(halves[2 * t + 1]), found
        y[rank, 4, t] = nv.i32(first == -1)
        nv.cluster_sync()

    body()


def test_each_lane_names_a_block_of_its_own():
    x, y = np.random.default_rng(2).integers(0, 4, (4, 32)).astype(np.int32), zeros(4, 5, 32, dtype=np.int32)
    run(lanes_elsewhere, x, y)
    came = x[None] == np.arange(4)[:, None, None]  # to, from, lane
    np.testing.assert_array_equal(y[:, 0], came.sum(1))
    np.testing.assert_array_equal(y[:, 1], came.sum(1))
    np.testing.assert_array_equal(y[:, 2], (came * np.arange(4)[:, None]).sum(1))
    np.testing.assert_array_equal(y[:, 3], came.sum(1)[x, np.arange(32)])
    assert (y[:, 4].sum(0) == came.any(1).sum(0)).all()  # of those who came to one place, one was first


@nv.jit
def sent(x, y, *, count=4, expected=1, wait=True, init=True, end=True):
    """Each thread sends a vector to the next block, which waits for the bytes."""

    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        t, rank = nv.thread_id.x, nv.cluster_rank()
        line = nv.smem((32 * count,), x.dtype)
        came = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        if init:
            nv.cluster_sync()
        came.arrive_expect_tx(32 * count * x.dtype.bytes * expected, t == 0)
        value = x.vector((rank, t * count), count) if count > 1 else x[rank, t]
        line.at(1 - rank).store_async(value, t * count, came)  # here
        if wait:
            came.wait(0)
        for i in range(count):
            y[rank, t * count + i] = line[t * count + i]
        if end:
            nv.cluster_sync()

    body()


SENT = [(nv.f32, 4), (nv.f32, 1), (nv.f16, 8), (nv.bf16, 2), (nv.f64, 2), (nv.i64, 1), (nv.u8, 16), (nv.e5m2, 4)]


@pytest.mark.parametrize("options", sample(SCHEDULES, 2), ids=str)
@pytest.mark.parametrize(("t", "count"), SENT, ids=str)
def test_stores_that_an_mbarrier_is_told_of(t, count, options):
    x, y = numbers((2, 32 * count), t), zeros(2, 32 * count, dtype=t.numpy)
    run(sent, x, y, count=count, options=options)
    np.testing.assert_array_equal(y.astype(np.float64), x[::-1].astype(np.float64))


SENT_WRONG = [
    ({"wait": False}, ("undelivered", "raw")), ({"expected": 2}, ("deadlock",)),
    ({"init": False}, ("init-sync", "unstarted-block")), ({"wait": False, "end": False}, ("undelivered", "raw")),
]  # fmt: skip


@pytest.mark.parametrize("level", sim.options.LEVELS)
@pytest.mark.parametrize(("how", "kinds"), SENT_WRONG, ids=str)
def test_mistakes_with_asynchronous_stores(how, kinds, level):
    for delivery in ("late", "eager"):
        options = sim.Options(level=level, delivery=delivery)
        error = verdict(sent, numbers((2, 128), nv.f32), zeros(2, 128), options=options, **how)
        assert error is not None and error.kind in kinds, error


@nv.jit
def copied(x, y):
    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        rank = nv.cluster_rank()
        tile, line = nv.smem((32, 64), x.dtype, swizzle=128), nv.smem((64,), x.dtype)
        nv.cluster_sync()
        nv.copy(x[rank * 32 : rank * 32 + 32, :], tile.at(1 - rank))
        nv.copy(x[rank, :], line.at(1 - rank))
        nv.cluster_sync()
        nv.copy(tile, y[rank * 32 : rank * 32 + 32, :])
        nv.sync_threads()
        nv.copy(line, y[rank * 32, :])

    body()


def test_copies_into_another_block():
    x, y = numbers((64, 64), nv.f16), zeros(64, 64, dtype=np.float16)
    run(copied, x, y)
    expected = np.concatenate([x[32:], x[:32]])
    expected[[0, 32]] = x[[1, 0]]
    np.testing.assert_array_equal(y, expected)


def test_the_verifier_counts_the_bytes():
    x, y = array(nv.f32, 2, 128), array(nv.f32, 2, 128)
    sent.trace(x, y)
    with pytest.raises(nv.VerifyError, match="the mbarrier expects 1,024 bytes"):
        sent.trace(x, y, expected=2)
