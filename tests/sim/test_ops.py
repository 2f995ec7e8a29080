"""Every instruction that `nvdsl.ops` can emit has a semantics; clusters, multicast, matrices, reductions."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.ops import cluster, fence, smem, tma, warp
from tests.sim.simulate import run, traced, verdict, zeros


@nv.jit
def everything(a, d):
    a_tma = nv.TMA(a, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=2, block=128, cluster=2)
    def kernel():
        tile = nv.smem((64, 64), a.dtype, swizzle=128)
        line = nv.smem((64,), a.dtype)
        bars = nv.Mbarriers(2)
        bars[0].init(1)
        bars[0].expect_tx(16)
        bars[0].arrive_cluster(1)
        bars[0].arrive_cluster(1, txcount=16)
        bars[0].test_wait(0)
        bars[1].invalidate()
        warp.sync_warp()
        warp.named_barrier_sync(1, 128)
        warp.named_barrier_arrive(2, 128)
        warp.named_barrier_any(3, 128, nv.thread_id.x > 5)
        x = warp.shuffle_xor(nv.thread_id.x, 1)
        x = warp.shuffle_up(x, 1)
        x = warp.shuffle_down(x, 1)
        x = x + warp.lane_id() + warp.warp_id()
        warp.vote_any(x > 0)
        warp.vote_all(x > 0)
        warp.ballot(x > 0)
        warp.nanosleep(5)
        warp.elect()
        cluster.cluster_sync()
        cluster.cluster_arrive(relaxed=True)
        cluster.griddep_wait()
        cluster.griddep_launch_dependents()
        cluster.cluster_rank()
        fence.fence_proxy_async("shared::cta")
        fence.fence_proxy_async("shared::cluster")
        fence.fence_proxy_async("global")
        fence.fence_proxy_async(None)
        fence.fence_proxy_alias()
        fence.threadfence()
        fence.fence_sc_cluster()
        at = smem.smem_pointer(0)
        registers = smem.ldmatrix(at, 4)
        smem.stmatrix(at, registers, transpose=True)
        smem.ldmatrix(at, 1)
        a_tma.load(tile, bars[0], (0, 0), multicast_mask=3)
        a_tma.load(tile, bars[0], (0, 0), l2_hint=tma.L2_EVICT_FIRST)
        a_tma.store(tile, (0, 0))
        a_tma.store(tile, (0, 0), l2_hint=tma.L2_EVICT_FIRST)
        a_tma.reduce_add(tile, (0, 0))
        a_tma.prefetch_tile((0, 0))
        a_tma.prefetch()
        tma.bulk_load(line, a, 128, bars[0])
        tma.bulk_store(a, line, 128)
        tma.bulk_commit_group()
        tma.bulk_wait_group(1, read=True)
        tma.bulk_wait_group(0)
        nv.setmaxnreg_dec(40)
        nv.setmaxnreg_inc(232)
        y = nv.f32(x)
        y = nv.f32(nv.e4m3(y)) + nv.f32(nv.e5m2(y)) + nv.f32(nv.bf16(y)) + nv.f32(nv.f16(y)) + nv.tf32(y)
        y = nv.math.tanh(y) + nv.math.exp(y) + nv.math.sin(y) + nv.math.rsqrt(y) + nv.math.log2(y) + nv.math.erf(y)
        d[0, 0] = y

    kernel()


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_every_instruction_is_decoded(level):
    program = traced(everything, zeros(128, 128, dtype=np.float16), zeros(128, 128))
    sim.executable(program.module, program.name, options=sim.Options(level=level))  # no SimError


@nv.jit
def multicast(x, out, *, sync=True):
    """Block 0 loads a tile for both blocks of the cluster; each doubles it."""
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=2, block=64, cluster=2)
    def kernel():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        t, rank = nv.thread_id.x, cluster.cluster_rank()
        if sync:
            cluster.cluster_sync()
        else:
            nv.sync_threads()
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            if rank == 0:
                x_tma.load(tile, full, (0, 0), multicast_mask=3)
        full.wait(0)
        for i in nv.range(16):
            out[rank * 16 + i, t] = 2.0 * tile[i, t]
        cluster.cluster_sync()

    kernel()


@pytest.mark.parametrize("options", [sim.Options(), sim.Options(delivery="eager"), sim.Options(level="nvvm")])
def test_multicast_reaches_every_block(options):
    x, out = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32), zeros(32, 64)
    run(multicast, x, out, options=options)
    np.testing.assert_array_equal(out, np.concatenate([2 * x, 2 * x]))


def test_a_multicast_into_a_block_that_has_not_initialized_its_barrier():
    error = verdict(multicast, zeros(16, 64), zeros(32, 64), sync=False)
    assert error is not None and error.kind == "init-sync", str(error)


@nv.jit
def transposed(x, out):
    """Each warp turns 8 x 8 matrices of 16-bit elements around by stmatrix."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        line = nv.smem((256,), nv.f16)
        t = nv.thread_id.x
        for i in nv.range(8):
            line[i * 32 + t] = x[i * 32 + t]
        nv.sync_threads()
        at = smem.smem_pointer(0)
        registers = smem.ldmatrix(smem.smem_pointer(t * 16), 4)
        nv.sync_threads()
        smem.stmatrix(smem.smem_pointer(t * 16), registers, transpose=True)
        nv.sync_threads()
        for i in nv.range(8):
            out[i * 32 + t] = line[i * 32 + t]
        _ = at

    kernel()


def test_matrices_through_registers():
    x = np.arange(256, dtype=np.float16)
    out = zeros(256, dtype=np.float16)
    run(transposed, x, out)
    np.testing.assert_array_equal(out.reshape(4, 8, 8), x.reshape(4, 8, 8).transpose(0, 2, 1))


@nv.jit
def summed(out):
    """Four blocks add their tile to the same elements by a TMA reduction."""
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=4, block=64)
    def kernel():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = nv.f32(i + nv.block_id.x)
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            out_tma.reduce_add(tile, (0, 0))
            tma.bulk_commit_group()
            tma.bulk_wait_group(0)

    kernel()


def test_reductions_add_up():
    out = zeros(16, 64)
    run(summed, out)
    np.testing.assert_array_equal(out, np.repeat(4.0 * np.arange(16)[:, None] + 6, 64, axis=1))


@nv.jit
def votes(out):
    @nv.kernel(grid=1, block=64)
    def kernel():
        t = nv.thread_id.x
        n = warp.ballot(t % 3 == 0)
        x = warp.shuffle_xor(t, 5) + warp.shuffle_down(t, 1)
        if warp.vote_all(t < 32):
            x = x + 1000
        out[t] = x + (n & 0xFF)

    kernel()


def test_shuffles_and_votes():
    out = zeros(64, dtype=np.int32)
    run(votes, out)
    for w in range(2):
        lanes = np.arange(32)
        t = 32 * w + lanes
        ballot = sum(1 << i for i in range(8) if t[i] % 3 == 0)
        expected = 32 * w + (lanes ^ 5) + t[np.minimum(lanes + 1, 31)] + (1000 if w == 0 else 0) + ballot
        np.testing.assert_array_equal(out[32 * w : 32 * w + 32], expected)


@nv.jit
def collatz(x, out):
    """A while loop whose lanes leave at different times, and nested branches."""

    @nv.kernel(grid=1, block=32)
    def kernel():
        n = x[nv.thread_id.x]
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        out[nv.thread_id.x] = steps

    kernel()


def test_lanes_diverge_and_meet_again():
    def steps(n):
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    x, out = np.arange(1, 33, dtype=np.int32), zeros(32, dtype=np.int32)
    run(collatz, x, out)
    assert out.tolist() == [steps(int(n)) for n in x]


@nv.jit
def impatient(out):
    """Waits, by both clocks, and counts how often it looked."""

    @nv.kernel(grid=2, block=64)
    def kernel():
        t = nv.block_id.x * 64 + nv.thread_id.x
        start, nanoseconds = nv.clock(), nv.globaltimer()
        looks = 0
        while nv.clock() - start < 100:
            looks += 1
        out[t, 0] = nv.globaltimer() - nanoseconds
        out[t, 1] = looks

    kernel()


def test_time_passes():
    out = zeros(128, 2, dtype=np.int64)
    run(impatient, out)
    assert (out > 0).all()
    assert (out[:, 0] > out[:, 1]).all()
    for warp_lanes in out.reshape(4, 32, 2):
        assert (warp_lanes == warp_lanes[0]).all(), "a warp reads the clock once"


@nv.jit
def votes_of_warpgroups(x: nv.Array, out: nv.Array):
    """Each warpgroup votes on its part of each row of x."""

    @nv.kernel(grid=1, block=256)
    def kernel():
        me = nv.warpgroup_id()
        for row in nv.range(x.shape[0]):
            if warp.named_barrier_any(1 + me, 128, x[row, nv.thread_id.x] > 0) & (nv.warpgroup_thread() == 127):
                out[row, me] = 1

    kernel()


@pytest.mark.parametrize("level", sim.options.LEVELS)
def test_a_warpgroup_votes_at_a_named_barrier(level):
    x, out = np.zeros((6, 256), np.int32), np.zeros((6, 2), np.int32)
    for row, place in ((0, 3), (1, 130), (2, 127), (2, 128), (5, 255)):
        x[row, place] = 1
    run(votes_of_warpgroups, x, out, options=sim.Options(level=level, order="random"))
    np.testing.assert_array_equal(out, x.reshape(6, 2, 128).max(2))
