# RUN: %python %s | FileCheck %s

"""TMA.reduce: one cp.reduce.async.bulk.tensor of each kind; reduce_add is the usual one."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.ops.tma import TMA


def host_of(body):
    @nv.jit
    def host(a):
        tma = TMA((16, 32), a.type)
        tma.create_descriptor(a)

        @nv.kernel(grid=1, block=128)
        def kernel():
            body(tma, nv.smem((16, 32), a.dtype).panel(0))

        kernel()

    return host


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64, 32), ptx=True)
@host_of
def each(tma, box):
    tma.reduce_add(box, [0, 16])
    # CHECK: %[[BOX:\w+]] = llvm.inttoptr
    # CHECK: %[[COL:\w+]] = arith.constant 0 : i32
    # CHECK: %[[ROW:\w+]] = arith.constant 16 : i32
    # CHECK: nvvm.cp.async.bulk.tensor.reduce %{{.*}}, %[[BOX]], box[%[[COL]], %[[ROW]]] {redKind = #nvvm.tma_redux_kind<add>} : {{.*}}(line [[# @LINE - 4]])
    for kind in ("min", "max", "and", "or", "xor"):
        tma.reduce(box, [0, 0], kind)


# CHECK-LABEL: .entry kernel
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd{{.*}}, {%r{{.*}}, %r{{.*}}}], [%rd{{.*}}];
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.tile.bulk_group
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.and.tile.bulk_group
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.or.tile.bulk_group
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.xor.tile.bulk_group


@refused(array(nv.f32, 64, 32))
@host_of
def unknown_kind(tma, box):
    tma.reduce(box, [0, 0], "mul")
    # CHECK: TraceError: tma_reduce.py:[[# @LINE - 1]]: TMA reduction 'mul' of f32
    # CHECK-NEXT: rule: TMA can add here (PTX ISA, cp.reduce.async.bulk.tensor)
    # CHECK-NEXT: fix: use one of these, or add in f32 or f16


@refused(array(nv.u8, 64, 32))
@host_of
def no_reduction(tma, box):
    tma.reduce_add(box, [0, 0])
    # CHECK: TraceError: tma_reduce.py:[[# @LINE - 1]]: TMA reduction 'add' of i8
    # CHECK-NEXT: rule: TMA can reduce nothing here
