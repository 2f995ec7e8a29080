"""Instructions with operands that no hardware takes: an error at the user's line, with the rule and what to do."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.mlir.dialects import nvvm
from nvdsl.ops import tma
from tests.unit.kernels import array, refused, trace

DECREASE = nvvm.SetMaxRegisterAction.decrease


def barrier():
    return nv.Mbarriers(1, arrivals=1)[0]


def words():
    return nv.smem((64,), nv.f32)


REFUSED = {
    # warp
    "setmaxnreg of 20": (lambda x: nv.setmaxnreg_dec(20), "24 to 256"),
    "setmaxnreg of 264": (lambda x: nv.setmaxnreg_inc(264), "24 to 256"),
    "setmaxnreg of 100": (lambda x: nv.setmaxnreg_inc(100), "multiple of 8"),
    "the op itself with 20": (lambda x: nvvm.setmaxregister(20, DECREASE), "MLIR's verifier"),
    "the op itself with 264": (lambda x: nvvm.setmaxregister(264, DECREASE), "MLIR's verifier"),
    "setmaxnreg of a traced count": (lambda x: nv.setmaxnreg_inc(nv.thread_id.x), "constant"),
    "named barrier 16": (lambda x: nv.named_barrier_sync(16, 64), "0 to 15"),
    "named barrier -1": (lambda x: nv.named_barrier_arrive(-1, 64), "0 to 15"),
    "a barrier of 48 threads": (lambda x: nv.named_barrier_sync(1, 48), "multiple of the warp size"),
    "a barrier of no thread": (lambda x: nv.named_barrier_sync(1, 0), "positive multiple"),
    "a barrier of more threads than there are": (lambda x: nv.named_barrier_arrive(1, 160), "threads of the block"),
    "shuffle of 16 bits": (lambda x: nv.shuffle(nv.f16(1.0), 0), "32 bits"),
    "shuffle of 64 bits": (lambda x: nv.shuffle_xor(nv.i64(1), 1), "32 bits"),
    "a vote on a number": (lambda x: nv.vote_any(nv.thread_id.x), "bool"),
    "a mask of no lane": (lambda x: nv.sync_warp(0), "lane i"),
    "a mask of 33 lanes": (lambda x: nv.ballot(True, mask=1 << 32), "lane i"),
    # mbarrier
    "no barriers": (lambda x: nv.Mbarriers(0), "at least 1"),
    "a traced number of barriers": (lambda x: nv.Mbarriers(nv.thread_id.x), "Python int"),
    "barrier 4 of 4": (lambda x: nv.Mbarriers(4)[4], "0 to 3"),
    "barrier -1": (lambda x: nv.Mbarriers(4)[-1], "0 to 3"),
    "no arrivals": (lambda x: nv.Mbarriers(1)[0].init(0), "1 to 1048575"),
    "2^20 arrivals": (lambda x: nv.Mbarriers(1)[0].init(1 << 20), "1 to 1048575"),
    "2^20 bytes": (lambda x: barrier().arrive_expect_tx(1 << 20), "0 to 1048575"),
    "2^20 bytes without an arrival": (lambda x: barrier().expect_tx(1 << 20), "0 to 1048575"),
    "a negative number of bytes": (lambda x: barrier().arrive(-16), "0 to 1048575"),
    "phase 2": (lambda x: barrier().wait(2), "0 or 1"),
    "phase -1": (lambda x: barrier().try_wait(-1), "0 or 1"),
    "an arrival at a block that is not there": (lambda x: barrier().arrive_cluster(1), "ranks 0 to 0"),
    "a predicate that is a number": (lambda x: barrier().arrive(predicate=nv.thread_id.x), "bool"),
    # cluster, fences
    "mapa beyond the cluster": (lambda x: nv.mapa(words_pointer(), 8), "ranks 0 to 0"),
    "a fence of no space": (lambda x: nv.fence_proxy_async("shared"), "shared::cta"),
    "a fence of no scope": (lambda x: nv.threadfence("grid"), "cta"),
    # bulk copies
    "24 bytes": (lambda x: nv.bulk_load(words(), x, 24, barrier()), "multiple of 16"),
    "no bytes": (lambda x: nv.bulk_store(x, words(), 0), "positive multiple"),
    "both ends global": (lambda x: nv.bulk_store(x, x, 64), "one array in shared"),
    "the ends exchanged": (lambda x: nv.bulk_load(x, words(), 64, barrier()), "one array in shared"),
    "a group in the place of a barrier": (lambda x: nv.bulk_load(words(), x, 64, nv.Mbarriers(1)), "one mbarrier"),
    "a wait for -1 groups": (lambda x: nv.bulk_wait_group(-1), "constant"),
    "a wait for a traced number of groups": (lambda x: nv.bulk_wait_group(nv.thread_id.x), "constant"),
    # matrices
    "stmatrix of 3": (lambda x: nv.stmatrix(words_pointer(), [nv.i32(0)] * 3), "1, 2 or 4"),
    "stmatrix of floats": (lambda x: nv.stmatrix(words_pointer(), [nv.f32(0.0)]), "i32"),
    "ldmatrix of 8": (lambda x: nv.ldmatrix(words_pointer(), 8), "1, 2 or 4"),
    "cp.async into a tile": (lambda x: nv.cp_async(nv.smem((8, 64), nv.f32), (0, 0), x, 0, 4), "a tile is none"),
    "a view of elements of no type": (lambda x: nv.get_dynamic_shared_memory((4,), "f32"), "an nvdsl type"),
    "ldmatrix at an array": (lambda x: nv.ldmatrix(x, 4), "shared memory"),
    "stmatrix at a number": (lambda x: nv.stmatrix(3, [nv.i32(0)]), "shared memory"),
    "a shuffle from lane 40": (lambda x: nv.shuffle(x[0], 40), "lanes 0 to 31"),
    "a shuffle over -1 lanes": (lambda x: nv.shuffle_xor(x[0], -1), "lanes 0 to 31"),
    "an id by number": (lambda x: nv.thread_id[0], "axes with names"),
    "a wait at a group of barriers": (lambda x: nv.Mbarriers(2).wait(0), "one of them"),
    "a ring of -4 bytes": (lambda x: nv.Ring(2, bytes=-4), "transaction count"),
    "a ring of too many bytes": (lambda x: nv.Ring(2, bytes=2**30), "transaction count"),
    "a ring of half a byte": (lambda x: nv.Ring(2, bytes=0.5), "integers"),
    "a number as a position in a ring": (lambda x: nv.Ring(2, bytes=64).wait(0), "a position in it"),
    "a position in another ring": (lambda x: nv.Ring(2, bytes=64).acquire(nv.PipelineState(3)), "a ring of 2 slots"),
    "an ellipsis as an index": (lambda x: x[...], "an index is an integer"),
    "a string as an index": (lambda x: x["a"], "an index is an integer"),
    "a list as an index": (lambda x: x[[1, 2]], "an index is an integer"),
    "a vector into an element": (lambda x: put(x, 0, x.vector(0, 4)), "writes one element"),
    "a column of a tile": (lambda x: put(nv.smem((8, 8), nv.f32), (slice(8), 0), x[0]), "writes one element"),
    "an element of a stack": (lambda x: put(nv.smem((2, 8, 8), nv.f32), (0, 0, 0), x[0]), "by its stage"),
    # integers
    "a float of NumPy's as a subscript": (lambda x: x[np.float32(1.5)], "integers"),
    "a float as a coordinate": (lambda x: x[1.5], "integers"),
    "a traced float as a subscript": (lambda x: x[x[0]], "integers"),
}


def put(x, key, value):
    x[key] = value


def words_pointer():
    return nv.smem((8, 8), nv.f16).pointer()


@pytest.mark.parametrize(("use", "rule"), REFUSED.values(), ids=list(REFUSED))
def test_refused(use, rule):
    def body(x):
        use(x)

    with pytest.raises(nv.TraceError) as caught:
        trace(body, array(nv.f32, 64))
    error = caught.value
    assert rule in error.rule
    assert error.where.file == __file__


def through_a_map(use, **launch):
    def host(x):
        box = tma.TMA([8, 64], x.type)
        use_on_host = getattr(use, "on_host", None)
        box.create_descriptor(x)

        @nv.kernel(grid=launch.get("cluster", 1), block=32, **launch)
        def kernel():
            use(box, nv.smem((8, 64), nv.f32).panel(0))

        kernel()
        return use_on_host

    return nv.jit(host).trace(array(nv.f32, 64, 64))


MAPS = {
    "one coordinate of two": (lambda t, box: t.load(box, barrier(), [0]), {}, "one coordinate for each dimension"),
    "three coordinates of two": (lambda t, box: t.store(box, [0, 0, 0]), {}, "one coordinate for each dimension"),
    "a float as a coordinate": (lambda t, box: t.prefetch_box([0.5, 0]), {}, "integers"),
    "an unknown reduction": (lambda t, box: t.reduce(box, [0, 0], "mul"), {}, "TMA can add"),
    "a group for a barrier": (lambda t, box: t.load(box, nv.Mbarriers(2), [0, 0]), {}, "one mbarrier"),
    "multicast to no block": (lambda t, b: t.load(b, barrier(), [0, 0], multicast_mask=0), {"cluster": 4}, "0 to 3"),
    "multicast beyond": (lambda t, b: t.load(b, barrier(), [0, 0], multicast_mask=16), {"cluster": 4}, "0 to 3"),
    "a new map": (lambda t, box: tma.TMA([8, 64], t.memref_ty).create_descriptor(box), {}, "host function"),
    "a map without a descriptor": (lambda t, box: tma.TMA([8, 64], t.memref_ty).prefetch(), {}, "encodes a tensor map"),
}


@pytest.mark.parametrize(("use", "launch", "rule"), MAPS.values(), ids=list(MAPS))
def test_copies_through_a_map_that_are_refused(use, launch, rule):
    assert rule in refused(lambda: through_a_map(use, **launch), use, through_a_map).rule


OUTSIDE = {
    "thread_id": lambda: nv.thread_id.x,
    "sync_threads": nv.sync_threads,
    "smem": lambda: nv.smem((8,), nv.f32),
    "Mbarriers": lambda: nv.Mbarriers(1),
    "get_dynamic_shared_memory": nv.get_dynamic_shared_memory,
    "lane_id": nv.lane_id,
}


@pytest.mark.parametrize("use", OUTSIDE.values(), ids=list(OUTSIDE))
def test_device_operations_outside_of_a_kernel_are_refused(use):
    def host(x):
        use()

    with pytest.raises(nv.TraceError, match="outside of a kernel"):
        nv.jit(host).trace(array(nv.f32, 4))
