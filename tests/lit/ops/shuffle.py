# RUN: %python %s | FileCheck %s

"""shuffle, shuffle_xor, shuffle_up and shuffle_down: shfl.sync of 32 bits; the result has the value's dtype."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128), ptx=True)
def kernel(x):
    t = nv.thread_id.x
    value = x[t]
    # CHECK: %[[VALUE:\w+]] = memref.load
    value = nv.shuffle(value, 5)
    # CHECK: %[[ALL:.*]] = arith.constant -1 : i32
    # CHECK: %[[LANE:\w+]] = arith.constant 5 : i32
    # CHECK: %[[A:\w+]] = nvvm.shfl.sync idx %[[ALL]], %[[VALUE]], %[[LANE]], {{.*}} : f32 -> f32 (line [[# @LINE - 3]])
    value = nv.shuffle_xor(value, t)
    # CHECK: %[[B:\w+]] = nvvm.shfl.sync bfly %{{.*}}, %[[A]],
    value = nv.shuffle_up(value, 1)
    # CHECK: %[[C:\w+]] = nvvm.shfl.sync up %{{.*}}, %[[B]],
    value = nv.shuffle_down(value, 1, mask=0xFFFF)
    # CHECK: %[[HALF:\w+]] = arith.constant 65535 : i32
    # CHECK: nvvm.shfl.sync down %[[HALF]], %[[C]],
    x[t] = value
    assert nv.shuffle(nv.u32(t), 0).dtype is nv.u32


# Lanes that the first lane bounds have the clamp 0, the others 31.
# CHECK-LABEL: .entry kernel
# CHECK: shfl.sync.idx.b32 {{.*}}, 5, 31, -1;
# CHECK: shfl.sync.bfly.b32 {{.*}}, 31, -1;
# CHECK: shfl.sync.up.b32 {{.*}}, 1, 0, -1;
# CHECK: shfl.sync.down.b32 {{.*}}, 1, 31, 65535;


@refused()
def sixteen_bits():
    nv.shuffle(nv.f16(1.0), 0)
    # CHECK: TraceError: shuffle.py:[[# @LINE - 1]]: shuffle of a f16 value
    # CHECK-NEXT: rule: shfl.sync moves 32 bits (PTX ISA, shfl.sync)
    # CHECK-NEXT: fix: convert to nv.i32 or nv.f32 first


@refused()
def lane_is_no_integer():
    nv.shuffle(nv.thread_id.x, 1.5)
    # CHECK: TraceError: shuffle.py:[[# @LINE - 1]]: 1.5 where an integer belongs
