"""Examples of nvdsl/ops: each instruction."""

from __future__ import annotations

import itertools

import nvdsl as nv
from nvdsl.ops import cluster, fence, memory, mma, order, pointer, ptx, smem, timers, tma, warp, wgmma
from nvdsl.values import bounds, dtypes, traced
from tests.sim.examples import EXAMPLES, address, example

# --- ops.warp


@example("ops.warp.Dim3.x", "ops.warp.Dim3.y", "ops.warp.Dim3.z", "ops.warp.thread_id", "ops.warp.block_id",
         "ops.warp.block_dim", "ops.warp.grid_dim")  # fmt: skip
def _ids(k):
    return [getattr(d, axis) for d in (warp.thread_id, warp.block_id, warp.block_dim, warp.grid_dim) for axis in "xyz"]


for _name in ("linear_thread_id", "lane_id", "warp_id", "warpgroup_id", "warpgroup_thread"):
    example(f"ops.warp.{_name}")(lambda k, name=_name: getattr(warp, name)())
example("ops.warp.elect")(lambda k: nv.i32(warp.elect()))
example("ops.warp.setmaxnreg_dec")(lambda k: warp.setmaxnreg_dec(40))
example("ops.warp.setmaxnreg_inc")(
    lambda k: (warp.setmaxnreg_dec(40), warp.sync_threads(), warp.setmaxnreg_inc(232))[:0]
)
example("ops.warp.sync_threads")(lambda k: warp.sync_threads())
example("ops.warp.sync_warp")(lambda k: warp.sync_warp())
example("ops.warp.named_barrier_sync")(lambda k: warp.named_barrier_sync(1, 128))
example("ops.warp.named_barrier_any")(lambda k: nv.i32(warp.named_barrier_any(1, 128, k.i > 3)))
example("ops.warp.named_barrier_arrive", runs=False)(lambda k: warp.named_barrier_arrive(k.t // 128 + 1, 128))
example("ops.warp.shuffle")(lambda k: [warp.shuffle(k.f, 3), warp.shuffle(k.i, k.t % 32)])
for _name in ("shuffle_xor", "shuffle_up", "shuffle_down"):
    example(f"ops.warp.{_name}")(lambda k, name=_name: [getattr(warp, name)(v, 1) for v in (k.f, k.i, nv.u32(k.i))])
example("ops.warp.membermask")(lambda k: [warp.membermask(0xFFFFFFFF), warp.membermask(1)])
for _name in ("vote_any", "vote_all", "ballot"):
    example(f"ops.warp.{_name}")(lambda k, name=_name: nv.i32(getattr(warp, name)(k.i > 3)))
example("ops.warp.nanosleep")(lambda k: warp.nanosleep(20))
example("ops.timers.clock", "ops.timers.globaltimer")(lambda k: [timers.clock(), timers.globaltimer()])


@example("bounds.within")
def _bounds(k):
    bounds.within("a row", (k.t,), (128,))
    bounds.within("a square", (k.t // 16, k.t % 16 * 2), (8, 32), multiple=1)
    bounds.within("parts of 8", (k.t // 8 * 8,), (128,), multiple=8)


# --- ops.cluster, ops.fence


@example("ops.cluster.cluster_id", "ops.cluster.cluster_block_id", "ops.cluster.cluster_dim")
def _cluster_ids(k):
    return [
        getattr(d, axis) for d in (cluster.cluster_id, cluster.cluster_block_id, cluster.cluster_dim) for axis in "xyz"
    ]


example("ops.cluster.cluster_rank")(lambda k: cluster.cluster_rank())
example("ops.cluster.cluster_sync")(lambda k: cluster.cluster_sync())


@example("ops.cluster.cluster_arrive", "ops.cluster.cluster_wait")
def _cluster_barrier(k):
    for relaxed in (False, True):
        cluster.cluster_arrive(relaxed=relaxed)
        cluster.cluster_wait()


@example("ops.cluster.mapa", runs=False)
def _mapa(k):
    return nv.i32(address(cluster.mapa(k.bars[0].pointer, 0)))


example("ops.cluster.griddep_wait")(lambda k: cluster.griddep_wait())
example("ops.cluster.griddep_launch_dependents")(lambda k: cluster.griddep_launch_dependents())
example("ops.fence.fence_mbarrier_init")(lambda k: fence.fence_mbarrier_init())
example("ops.fence.fence_proxy_alias")(lambda k: fence.fence_proxy_alias())
example("ops.fence.fence_sc_cluster")(lambda k: fence.fence_sc_cluster())
example("ops.fence.threadfence")(lambda k: [fence.threadfence(s) for s in ("cta", "gpu", "sys")][:0])


@example("ops.fence.fence_proxy_async")
def _fence_proxy(k):
    for space in ("shared::cta", "shared::cluster", "global", None):
        fence.fence_proxy_async(space)


@example("ops.order.sched_barrier")
def _order(k):
    order.sched_barrier(k.f, k.i, nv.f16(k.f), nv.f64(k.f), k.f > 0.0, nv.vector([k.f, k.f]), nv.row_vector(k.f, 0, 64))


@example("ops.order.recomputed")
def _recomputed(k):
    return [order.recomputed(k.i), order.recomputed(3)]


@example("ops.order.recomputing")
def _recomputing(k):
    with order.recomputing():
        return [nv.thread_id.x + k.i]


# --- ops.mbarrier


@example("ops.mbarrier.Mbarriers.__getitem__", "ops.mbarrier.Mbarrier.mbar_group_op")
def _groups(k):
    k.bars[k.t % 2].arrive(predicate=k.t < 2)
    k.bars[0].wait(0)


example("ops.mbarrier.Mbarrier.pointer")(lambda k: nv.i32(address(k.bars[0].pointer)))
example("ops.mbarrier.Mbarrier.init", runs=False)(lambda k: k.bars[1].init(k.i, predicate=k.first))
example("ops.mbarrier.Mbarrier.arrive")(lambda k: k.bars[0].arrive(predicate=k.first))
example("ops.mbarrier.Mbarrier.arrive_expect_tx")(lambda k: k.bars[0].arrive_expect_tx(0, k.first))
example("ops.mbarrier.Mbarrier.expect_tx", runs=False)(lambda k: k.bars[0].expect_tx(16))
example("ops.mbarrier.Mbarrier.invalidate", runs=False)(lambda k: k.bars[0].invalidate())


@example("ops.mbarrier.Mbarrier.arrive_cluster")
def _arrive_cluster(k):
    k.bars[0].arrive_cluster(0, k.first)
    k.bars[1].arrive_cluster(0, k.first, txcount=0)


@example("ops.mbarrier.Mbarrier.try_wait", "ops.mbarrier.Mbarrier.wait", "ops.mbarrier.parity_i1")
def _waits(k):
    for phase in (1, True, k.i * 0 + 1, k.i == k.i):
        k.bars[0].try_wait(phase)
        k.bars[0].wait(phase)
        k.bars[0].wait(phase, scope="cluster")


@example("ops.mbarrier.Mbarrier.test_wait")
def _test_wait(k):
    return [nv.i32(k.bars[0].test_wait(p)) for p in (0, 1, k.i & 1)]


@example("ops.mbarrier.Mbarrier.arrive_cluster relaxed")
def _arrive_relaxed(k):
    k.bars[0].arrive_cluster(0, k.first, relaxed=True)
    k.bars[1].arrive_cluster(0, k.first, txcount=0, relaxed=True)


# --- ops.memory


@example("ops.memory.load_acquire", "ops.memory.store_release")
def _flags(k):
    found = []
    for scope in ("cta", "cluster", "gpu", "sys"):
        memory.store_release(k.x, k.t, k.f, scope=scope)
        found.append(memory.load_acquire(k.x, k.t, scope=scope))
    return found


example("ops.memory.prefetch")(lambda k: memory.prefetch(k.x, (k.t,)))
example("ops.memory.bulk_prefetch")(lambda k: memory.bulk_prefetch(k.x, (4 * (k.t % 4),), 16))

# --- ops.pointer, ops.ptx

example("ops.pointer.i32", "ops.pointer.index")(lambda k: [pointer.i32(k.i), pointer.index(k.i), pointer.i32(7)])
example("ops.pointer.condition", "ops.pointer.predicate")(lambda k: nv.i32(pointer.predicate(k.first)))


@example("ops.pointer.under")
def _under(k):
    with pointer.under(k.i > 3):
        k.line[k.t] = 1.0


@example("ops.pointer.base_address", "ops.pointer.byte_offset", "ops.pointer.address_of")
def _addresses(k):
    at = pointer.address_of(k.line, 4)
    moved = pointer.byte_offset(pointer.byte_offset(at, k.i * 4), 8)
    part = pointer.base_address(k.line.view((k.i,), (16,)))  # an offset that only the kernel knows
    device = pointer.byte_offset(pointer.base_address(k.x, pointer.GLOBAL), nv.index(k.i))
    return [nv.i32(address(p)) for p in (at, moved, part, device)]


@example("ops.ptx.emit", "ops.ptx.touch", "ops.ptx.unpack", "ops.ptx.pack")
def _touch(k):
    return ptx.unpack(ptx.touch(ptx.pack([k.f, k.f * 2.0, k.f + 1.0])))


# --- ops.smem, ops.tma


@example("ops.smem.get_dynamic_shared_memory", "ops.smem.smem_pointer", "ops.smem.smem_address")
def _shared(k):
    smem.get_dynamic_shared_memory()
    smem.get_dynamic_shared_memory((16,), dtypes.f32.ir, k.t // 128)
    return [smem.smem_address(k.i), nv.i32(address(smem.smem_pointer(k.i)))]


@example("ops.smem.stmatrix", "ops.smem.ldmatrix")
def _matrices(k):
    at = smem.smem_pointer(k.A.offset + k.t * 16)
    for count, transpose in itertools.product((1, 2, 4), (False, True)):
        smem.stmatrix(at, [k.i] * count, transpose=transpose)
        nv.sync_warp()
        found = smem.ldmatrix(at, count, transpose=transpose)
        nv.sync_warp()
    return found


@example("ops.mma.mma_sync")
def _mma_sync(k):
    words, sums, doubles = [k.i] * 4, [k.f] * 4, [nv.f64(k.f)] * 4
    found = mma.mma_sync(words, words[:2], sums, k=16, a_dtype=nv.f16)
    found += mma.mma_sync(words[:2], words[:1], words[:2], k=8, a_dtype=nv.f16, d_dtype=nv.f16)
    found += mma.mma_sync(words, words[:2], sums, k=32, a_dtype=nv.e4m3, b_dtype=nv.e5m2)
    found += mma.mma_sync(words, words[:2], words, k=32, a_dtype=nv.i8, b_dtype=nv.u8, d_dtype=nv.i32)
    return found + mma.mma_sync(doubles, doubles[:2], doubles, k=8, a_dtype=nv.f64, d_dtype=nv.f64)


@example("ops.tma.TMA.load", "ops.tma.TMA.create_descriptor", "ops.tma.TMA.tensormap_descriptor_ty")
def _load(k):
    dense = smem.get_dynamic_shared_memory((64, 64), dtypes.f16.ir, k.A.offset)
    k.bars[0].arrive_expect_tx(k.A.bytes * 4, k.first)
    k.raw.load(dense, k.bars[0], (0, 0), k.first)
    k.bars[0].expect_tx(0)
    if k.first:
        k.raw.load(smem.get_dynamic_shared_memory((64, 64), dtypes.f16.ir, k.B.offset), k.bars[0], (0, k.t))
    k.bars[1].arrive_expect_tx(0, k.first)
    k.bars[1].wait(0)
    if k.first:
        k.raw.load(smem.get_dynamic_shared_memory((64, 64), dtypes.f16.ir, 0), k.bars[1], (0, 0), multicast_mask=1)


EXAMPLES["ops.tma.TMA.load"].runs = EXAMPLES["ops.tma.TMA.create_descriptor"].runs = False
EXAMPLES["ops.tma.TMA.tensormap_descriptor_ty"].runs = False


@example("ops.tma.TMA.store", "ops.tma.TMA.reduce", "ops.tma.TMA.reduce_add", "ops.tma.bulk_commit_group",
         "ops.tma.bulk_wait_group")  # fmt: skip
def _store(k):
    plain = nv.smem((64, 64), nv.f16)  # as the map, which has no swizzle
    for i in nv.range(32):
        plain[2 * i + k.t // 64, k.t % 64] = 0.0
    nv.fence_proxy_async()
    nv.sync_threads()
    dense = smem.get_dynamic_shared_memory((64, 64), dtypes.f16.ir, plain.offset)
    k.raw.store(dense, (0, 64), k.first)
    k.raw.store(dense, (0, 64), k.t < 0, l2_hint=tma.L2_EVICT_FIRST)
    tma.bulk_commit_group()
    tma.bulk_wait_group(0)
    if k.first:
        for kind in ("add", "min", "max"):
            k.raw.reduce(dense, (0, 0), kind)
        k.raw.reduce_add(dense, (0, 0), l2_hint=tma.L2_EVICT_LAST)
        tma.bulk_commit_group()
        tma.bulk_wait_group(1, read=True)
        tma.bulk_wait_group(0, read=True)


@example("ops.tma.TMA.prefetch", "ops.tma.TMA.prefetch_box", "ops.tma.TMA.pointer")
def _prefetch(k):
    k.raw.prefetch(k.first)
    k.raw.prefetch_box((k.t * 0, 0))
    k.raw.prefetch_box((0, 0), l2_hint=tma.L2_EVICT_NORMAL)


@example("ops.tma.bulk_load", "ops.tma.bulk_store")
def _lines(k):
    k.bars[0].arrive_expect_tx(128, k.first)
    if k.first:
        tma.bulk_load(k.line, k.halves, 128, k.bars[0])
    k.bars[0].wait(0)
    if k.first:
        tma.bulk_store(k.halves, k.line, 128)
        tma.bulk_commit_group()
        tma.bulk_wait_group(0)


@example("ops.tma.bulk_load multicast", runs=False)
def _multicast_line(k):
    if k.first:
        tma.bulk_load(k.line, k.halves, 128, k.bars[0], multicast_mask=1)
        k.raw.load(smem.get_dynamic_shared_memory((64, 64), dtypes.f16.ir, 0), k.bars[0], (0, 0), multicast_mask=k.i,
                   l2_hint=tma.L2_EVICT_FIRST)  # fmt: skip


# --- ops.wgmma

MMAS = [(a, b, d) for (a, b), ds in wgmma.TYPES.items() for d in ds]


@example("ops.wgmma.wgmma_fence", "ops.wgmma.wgmma_commit", "ops.wgmma.wgmma_wait")
def _groups_of_wgmmas(k):
    wgmma.wgmma_fence()
    wgmma.wgmma_commit()
    for pending in range(8):
        wgmma.wgmma_wait(pending)


@example("ops.wgmma.mma_async", "ops.wgmma.descriptor")
def _mma_async(k):
    """Every pair of types, and of each every fifth form: the numbers of choices are 2 and 3."""
    _products(k, 5)


@example("ops.wgmma.mma_async every form")
def _every_mma_async(k):
    _products(k, 1)


def _products(k, apart):
    """A in shared memory and in registers, each scale, each layout; of these forms each that is ``apart`` further."""
    k.fill()
    operand = k.A.operand(0)
    b = wgmma.descriptor(k.B.address, k.B.operand(0))
    adds = k.i > 0  # before k.i is A's
    for a_name, b_name, d_name in MMAS:
        a_type, b_type, d_type = map(dtypes.by_name, (a_name, b_name, d_name))
        signs = [1] if a_name in ("i8", "u8") else [1, -1]
        majors = ["k", "mn"] if a_type.bits == 16 else ["k"]
        forms = itertools.product(("shared", "registers"), (True, False, adds), signs, signs, majors, majors)
        for place, scale_d, scale_a, scale_b, a_major, b_major in itertools.islice(forms, 0, None, apart):
            a = wgmma.descriptor(k.A.address, operand) if place == "shared" else [k.i] * 4
            wgmma.wgmma_fence()
            zero = traced.const(0.0 if d_name == "f32" else 0, dtypes.f32 if d_name == "f32" else dtypes.i32)
            struct = ptx.touch(ptx.pack([zero] * (2 if d_name == "f16" else 4)))
            wgmma.wgmma_fence()
            wgmma.mma_async(
                struct, a, b, n=8, a_dtype=a_type, b_dtype=b_type, d_dtype=d_type, a_major=a_major, b_major=b_major,
                scale_d=scale_d, scale_a=scale_a, scale_b=scale_b,
            )  # fmt: skip
    wgmma.wgmma_commit()
    wgmma.wgmma_wait(0)
