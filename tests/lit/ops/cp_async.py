# RUN: %python %s | FileCheck %s

"""cp_async: 4, 8 or 16 bytes from global to shared memory; groups, and arrivals at an mbarrier."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 1024), ptx=True)
def kernel(x):
    t = nv.thread_id.x
    line = nv.smem((1024,), nv.f16)
    full = nv.Mbarriers(1, arrivals=128)[0]
    nv.cp_async(line, t * 8, x, t * 8, 8)
    # CHECK: nvgpu.device_async_copy %{{.*}}[%{{.*}}], %{{.*}}[%{{.*}}], 8 {bypassL1} : memref<1024xf16> to memref<1024xf16, #gpu.address_space<workgroup>> (line [[# @LINE - 1]])
    nv.cp_async_commit()
    # CHECK: nvvm.cp.async.commit.group (line [[# @LINE - 1]])
    nv.cp_async_wait(0)
    # CHECK: nvvm.cp.async.wait.group 0 (line [[# @LINE - 1]])
    nv.cp_async(line, t * 4, x, t * 4, 4, valid=nv.clamp(402 - t * 4, 0, 4))
    # CHECK: nvgpu.device_async_copy %{{.*}}[%{{.*}}], %{{.*}}[%{{.*}}], 4, %{{.*}} : memref
    nv.cp_async_arrive(full)
    # CHECK: nvvm.cp.async.mbarrier.arrive %{{.*}} {noinc = true} : !llvm.ptr<3> (line [[# @LINE - 1]])
    full.wait(0)


# CHECK-LABEL: .entry kernel
# CHECK: cp.async.cg.shared.global [%{{.*}}], [%{{.*}}], 16;
# CHECK: cp.async.commit_group;
# CHECK: cp.async.wait_group {{.*}}0;
# CHECK: cp.async.ca.shared.global [%{{.*}}], [%{{.*}}], 8, %{{.*}};
# CHECK: cp.async.mbarrier.arrive.noinc.shared.b64


@refused(array(nv.f16, 1024))
def too_small(x):
    nv.cp_async(nv.smem((64,), nv.f16), 0, x, 0, 1)
    # CHECK: TraceError: cp_async.py:[[# @LINE - 1]]: cp.async of 1 x f16 (2 bytes)
    # CHECK-NEXT: rule: it copies 4, 8 or 16 contiguous bytes (PTX ISA, cp.async)


@refused(array(nv.f32, 64, 64))
def every_other_element(x):
    nv.copy(x[0:4, 0:16:2], nv.smem((4, 8), nv.f32), asynchronous=True)
    # CHECK: TraceError: cp_async.py:[[# @LINE - 1]]: cp.async with Array(shape=(4, 8), dtype=f32) in global memory, whose last axis has a stride of 2
    # CHECK-NEXT: rule: elements along the last axis lie side by side on both sides
    # CHECK-NEXT: fix: load and store the elements: nv.copy(source, target) without asynchronous


@refused(array(nv.f16, 1024))
def the_wrong_way(x):
    nv.cp_async(x, 0, nv.smem((64,), nv.f16), 0, 8)
    # CHECK: TraceError: cp_async.py:[[# @LINE - 1]]: cp.async from Array(shape=(64{{.*}}dtype=f16) in shared memory to Array(shape=(1024{{.*}}dtype=f16) in global memory
    # CHECK-NEXT: rule: it copies from global to shared memory, as it is


@refused()
def traced_groups():
    nv.cp_async_wait(nv.thread_id.x)
    # CHECK: TraceError: cp_async.py:[[# @LINE - 1]]: cp_async_wait(...)
    # CHECK-NEXT: rule: the number of groups is part of the instruction
