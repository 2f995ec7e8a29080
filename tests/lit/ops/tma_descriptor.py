# RUN: %python %s | FileCheck %s

"""ops.tma.TMA: the host encodes a tensor map of an array; the kernel takes it by value, 128 bytes aligned to 64."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.mlir.dialects import nvgpu
from nvdsl.ops.tma import TMA


# CHECK-LABEL: func.func @host
# CHECK-SAME: (%[[A:\w+]]: memref<256x128xf16>
@show(array(nv.f16, 256, 128), ptx=True)
@nv.jit
def host(a):
    tma = TMA([64, 32], a.type, nvgpu.TensorMapSwizzleKind.SWIZZLE_64B, nvgpu.TensorMapL2PromoKind.L2PROMO_128B)
    tma.create_descriptor(a)
    # CHECK: %[[CAST:\w+]] = memref.cast %[[A]] : memref<256x128xf16> to memref<*xf16>
    # CHECK: %[[ROWS:\w+]] = arith.constant 64 : index
    # CHECK: %[[COLS:\w+]] = arith.constant 32 : index
    # CHECK: %[[MAP:\w+]] = nvgpu.tma.create.descriptor %[[CAST]] box[%[[ROWS]], %[[COLS]]]
    # CHECK-SAME: tensor = memref<64x32xf16, 3>, swizzle = swizzle_64b, l2promo = l2promo_128b, oob = zero
    # CHECK-SAME: (line [[# @LINE - 6]])

    @nv.kernel(grid=1, block=128)
    def kernel():
        tma.prefetch()
        # CHECK: gpu.launch
        # CHECK: nvgpu.tma.prefetch.descriptor %[[MAP]] : {{.*}}(line [[# @LINE - 2]])
        tma.prefetch(predicate=nv.thread_id.x == 0)
        # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
        # CHECK: nvgpu.tma.prefetch.descriptor %[[MAP]], predicate = %[[FIRST]] :

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK: .param .align 64 .b8 kernel_param_0[128]
# CHECK: prefetch.tensormap


@refused(array(nv.f16, 64, 64))
@nv.jit
def without_descriptor(a):
    tma = TMA([64, 64], a.type)

    @nv.kernel(grid=1, block=128)
    def kernel():
        tma.prefetch()
        # CHECK: TraceError: tma_descriptor.py:[[# @LINE - 1]]: a TMA without a descriptor was used
        # CHECK-NEXT: rule: the host encodes a tensor map before the kernel uses it
        # CHECK-NEXT: fix: call tma.create_descriptor(device_array) in the host function

    kernel()


@refused(array(nv.f16, 64, 64))
def in_the_kernel(a):
    TMA([64, 64], a.type).create_descriptor(a)
    # CHECK: TraceError: tma_descriptor.py:[[# @LINE - 1]]: a tensor map was created inside of kernel `kernel`
    # CHECK-NEXT: rule: tensor maps, launches and device memory belong to the host function
    # CHECK-NEXT: fix: make it in the host function; the kernel uses it directly


@refused(array(nv.f16, 64, 128))
@nv.jit
def row_wider_than_swizzle(a):
    tma = TMA([64, 128], a.type, nvgpu.TensorMapSwizzleKind.SWIZZLE_128B)
    tma.create_descriptor(a)
    # CHECK: VerifyError: tma_descriptor.py:[[# @LINE - 1]]: this tensor map is not possible: the box row is 256 bytes
    # CHECK-SAME: (128 elements of f16): swizzle_128b allows at most 128 bytes (64 elements)
    # CHECK-NEXT: rule: CUDA driver API, cuTensorMapEncodeTiled
    # CHECK-NEXT: fix: make boxes of 64 columns, a copy for each
