# RUN: %python %s | FileCheck %s

"""A traced loop carries an accumulator as its registers' structs, zeros at first."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128, 8), 7, ptx=True)
def kernel(d, steps):
    A, B = nv.smem((128, 16), nv.f16, swizzle=32), nv.smem((8, 16), nv.f16, swizzle=32)
    acc = nv.accumulator(128, 8)
    for _ in nv.range(steps):
        acc += A @ B.T
    # CHECK: %[[ZERO:\w+]] = arith.constant 0.000000e+00 : f32
    # CHECK: %[[LAST:\w+]]:2 = scf.for {{.*}} iter_args(%[[UPPER:\w+]] = %{{.*}}, %[[LOWER:\w+]] = %{{.*}}) -> (!llvm.struct<(f32, f32, f32, f32)>, !llvm.struct<(f32, f32, f32, f32)>) : i32 {
    # CHECK: %[[U:\w+]] = nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[UPPER]], {{.*}}D[<f32>, <one>]
    # CHECK: %[[L:\w+]] = nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[LOWER]], {{.*}}D[<f32>, <one>]
    # CHECK: scf.yield %[[U]], %[[L]] :
    # CHECK-NEXT: } (line [[# @LINE - 7]])
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))
    # CHECK: {nvdsl.ptx = "touch"} "", "=f,=f,=f,=f,0,1,2,3" %[[LAST]]#0 :


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n8k16
