"""Ids of blocks with several axes, and what shuffles and votes carry."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, find
from nvdsl.mlir import ir
from nvdsl.values.traced import Unsigned
from tests.unit.kernels import host, trace
from tests.unit.trace.evaluate import Evaluator


class Thread(Evaluator):
    """One thread of a block, for ids only."""

    def __init__(self, **ids):
        super().__init__()
        self.ids = ids

    def op(self, op, operands):
        if op.name == "gpu.thread_id":
            return [self.ids[str(op.attributes["dimension"]).split()[-1].rstrip(">")]]
        if op.name == "arith.index_cast":
            return operands
        return super().op(op, operands)


@pytest.mark.parametrize("block", [(256, 1, 1), (16, 8, 1), (8, 4, 4), (32, 1, 3), (5, 7, 2)])
def test_threads_are_counted_x_first(block):
    found = []

    def body():
        found.append(nv.linear_thread_id())

    module = trace(body, block=block)
    (launch,) = find(module, "gpu.launch")
    ops = list(launch.regions[0].blocks[0].operations)[:-1]
    count = 0
    for z in range(block[2]):
        for y in range(block[1]):
            for x in range(block[0]):
                thread = Thread(x=x, y=y, z=z)
                for op in (o.operation for o in ops):
                    for result, value in zip(op.results, thread.op(op, [thread[v] for v in op.operands]), strict=True):
                        thread.values[hash(result)] = value
                assert thread[found[0]] == count
                count += 1


def test_ids_are_signed_32_bit_numbers():
    def body():
        for ids in (nv.thread_id, nv.block_id, nv.block_dim, nv.grid_dim, nv.cluster_id, nv.cluster_block_id):
            for value in (ids.x, ids.y, ids.z):
                assert value.dtype is nv.i32
        assert {x.dtype for x in (nv.lane_id(), nv.warp_id(), nv.warpgroup_id(), nv.cluster_rank())} == {nv.i32}
        assert nv.elect().dtype is nv.bool_

    trace(body, grid=2, cluster=2)


@pytest.mark.parametrize("dtype", [nv.i32, nv.u32, nv.f32], ids=str)
def test_shuffles_keep_the_type(dtype):
    def body():
        for shuffle in (nv.shuffle, nv.shuffle_xor, nv.shuffle_up, nv.shuffle_down):
            value = shuffle(dtype(1), 3)
            assert value.dtype is dtype
            assert isinstance(value, Unsigned) == dtype.is_unsigned

    trace(body)


def test_masks_are_all_32_bits():
    def body():
        nv.shuffle(1, 0)
        nv.sync_warp(0x8000_0001)

    module = trace(body)
    (shuffle,), (sync,) = find(module, "nvvm.shfl.sync"), find(module, "nvvm.bar.warp.sync")
    assert constant(shuffle.operands[0]) == -1
    assert constant(sync.operands[0]) & 0xFFFF_FFFF == 0x8000_0001


def test_the_clamp_says_where_a_shuffle_ends():
    """PTX ISA, shfl.sync: 0 for .up, which ends at lane 0, and 31 for the others."""

    def body():
        nv.shuffle_up(1, 2)
        nv.shuffle_down(1, 2)
        nv.shuffle_xor(1, 2)
        nv.shuffle(1, 2)

    assert [constant(op.operands[3]) for op in find(trace(body), "nvvm.shfl.sync")] == [0, 31, 31, 31]


def test_a_uniform_id_is_the_first_lanes():
    def body():
        nv.warp_id()
        nv.warpgroup_id()

    for op in find(trace(body), "nvvm.shfl.sync"):
        assert constant(op.operands[2]) == 0
        assert "idx" in str(op.attributes["kind"])


def test_named_barriers_may_be_chosen_by_the_device():
    def body():
        nv.named_barrier_sync(1 + nv.warpgroup_id(), 128)

    assert "bar" in host(body, block=256).compile().ptx
    (op,) = find(trace(body, block=256), "nvvm.barrier")
    assert constant(op.operands[0]) is None
    assert ir.IntegerType(op.operands[0].type).width == 32
