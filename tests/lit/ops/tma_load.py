# RUN: %python %s | FileCheck %s

"""TMA.load of 1 to 5 dimensions: coordinates innermost first, bytes that complete on an mbarrier, a predicate."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.ops.tma import TMA

SHAPE = (4, 4, 4, 8, 16)


def load(a, with_tma):
    """A host function that makes a tensor map of all of ``a`` for a kernel that calls ``with_tma``."""
    tma = TMA(a.shape, a.type)
    tma.create_descriptor(a)

    @nv.kernel(grid=1, block=128)
    def kernel():
        nv.smem(4 * 4 * 4 * 8 * 16, a.dtype)
        box = nv.get_dynamic_shared_memory(a.shape, a.dtype.ir)
        with_tma(tma, box, nv.Mbarriers(1)[0])

    kernel()


def one_dimension(tma, box, barrier):
    # CHECK-LABEL: gpu.launch
    # CHECK: %[[BOX:\w+]] = memref.view {{.*}} to memref<16xf32
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[ZERO:\w+]] = arith.constant 0 : index
    tma.load(box, barrier, [nv.block_id.x])
    # CHECK: %[[X:\w+]] = arith.index_cast %{{.*}} : i32 to index
    # CHECK: nvgpu.tma.async.load %{{.*}}[%[[X]]], %[[GROUP]][%[[ZERO]]] to %[[BOX]] : {{.*}}(line [[# @LINE - 2]])
    first = nv.thread_id.x == 0
    # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
    tma.load(box, barrier, [4], predicate=first)
    # CHECK: %[[FOUR:\w+]] = arith.constant 4 : index
    # CHECK: nvgpu.tma.async.load %{{.*}}[%[[FOUR]]], {{.*}}, predicate = %[[FIRST]] :


def five_dimensions(tma, box, barrier):
    # CHECK-LABEL: gpu.launch
    tma.load(box, barrier, [8, 4, 3, 2, 1])
    # CHECK: %[[INNERMOST:\w+]] = arith.constant 8 : index
    # CHECK: %[[OUTERMOST:\w+]] = arith.constant 1 : index
    # CHECK: nvgpu.tma.async.load %{{.*}}[%[[INNERMOST]], {{.*}}, %[[OUTERMOST]]],


def at_zero(tma, box, barrier):
    tma.load(box, barrier, [0] * len(tma.tma_box_shape))


show(array(nv.f32, 16))(nv.jit(lambda a: load(a, one_dimension)))
show(array(nv.f32, *SHAPE))(nv.jit(lambda a: load(a, five_dimensions)))
for rank in range(1, 6):
    show(array(nv.f32, *SHAPE[-rank:]), ptx=True)(nv.jit(lambda a: load(a, at_zero)))

# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%rd{{.*}}], [%rd{{.*}}, {%r{{.*}}}], [__dynamic_shmem__0+32768];
# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.2d.shared::cluster.global
# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.3d.shared::cluster.global
# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.4d.shared::cluster.global
# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.5d.shared::cluster.global


def too_few_coordinates(tma, box, barrier):
    tma.load(box, barrier, [0])
    # CHECK: TraceError: tma_load.py:[[# @LINE - 1]]: 1 coordinates for a box of shape [8, 16]
    # CHECK-NEXT: rule: a TMA copy takes one coordinate for each dimension, innermost first
    # CHECK-NEXT: fix: pass 2 coordinates


def coordinate_is_no_integer(tma, box, barrier):
    tma.load(box, barrier, [0, 1 / 2])
    # CHECK: TraceError: tma_load.py:[[# @LINE - 1]]: 0.5 where an integer belongs


def group_for_an_mbarrier(tma, box, barrier):
    tma.load(box, barrier.group, [0, 0])
    # CHECK: TraceError: tma_load.py:[[# @LINE - 1]]: a Mbarriers in the place of an mbarrier
    # CHECK-NEXT: rule: the bytes of a copy complete on one mbarrier
    # CHECK-NEXT: fix: index the group: bars[stage]


def box_of_another_shape(tma, box, barrier):
    tma.load(nv.get_dynamic_shared_memory((16, 16), nv.f32.ir), barrier, [0, 0])
    # CHECK: TraceError: tma_load.py:[[# @LINE - 1]]: the traced module is not valid:


def box_of_another_type(tma, box, barrier):
    tma.load(nv.get_dynamic_shared_memory((8, 16), nv.f16.ir), barrier, [0, 0])
    # CHECK: TraceError: tma_load.py:[[# @LINE - 1]]: the traced module is not valid:


for wrong in (
    too_few_coordinates,
    coordinate_is_no_integer,
    group_for_an_mbarrier,
    box_of_another_shape,
    box_of_another_type,
):
    refused(array(nv.f32, 8, 16))(nv.jit(lambda a: load(a, wrong)))  # noqa: B023
