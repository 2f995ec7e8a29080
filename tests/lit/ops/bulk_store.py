# RUN: %python %s | FileCheck %s

"""bulk_store: contiguous bytes from a shared array to a global one, in the thread's bulk group."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 256), ptx=True)
def kernel(out):
    source = nv.smem((64,), nv.i32)
    nv.bulk_store(out[128:192], source, nv.i32(256))
    # CHECK: %[[OUT:\w+]] = llvm.getelementptr %{{.*}}[512] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
    # CHECK: %[[SOURCE:\w+]] = llvm.inttoptr %{{.*}} : i64 to !llvm.ptr<3>
    # CHECK: nvvm.cp.async.bulk.global.shared.cta %[[OUT]], %[[SOURCE]], %{{.*}} : <1>, <3> (line [[# @LINE - 3]])


# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.global.shared::cta.bulk_group [%rd{{.*}}+512], [__dynamic_shmem__0], %r


@refused(array(nv.i32, 256))
def nothing(out):
    nv.bulk_store(out, nv.smem((64,), nv.i32), 0)
    # CHECK: TraceError: bulk_store.py:[[# @LINE - 1]]: bulk copy of 0 bytes


@refused(array(nv.i32, 256))
def swapped(out):
    nv.bulk_store(nv.smem((64,), nv.i32), out, 64)
    # CHECK: TraceError: bulk_store.py:[[# @LINE - 1]]: bulk copy with Array({{.*}}) in the place of shared memory
