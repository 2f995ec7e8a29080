# RUN: %python %s | FileCheck %s

"""get_dynamic_shared_memory: the block's bytes, or a dense view from a byte on; one external array of 1024-byte
alignment in PTX, as large as nv.smem's allocations."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK: %[[SIZE:\w+]] = arith.constant 8192 : i32
# CHECK: gpu.launch {{.*}} dynamic_shared_memory_size %[[SIZE]]
@show(ptx=True)
def kernel():
    nv.smem((64, 64), nv.f16)
    whole = nv.get_dynamic_shared_memory()
    # CHECK: gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>> (line [[# @LINE - 1]])
    whole[0] = 1
    t = nv.thread_id.x
    # CHECK: %[[T:\w+]] = arith.index_cast %thread_id_x
    row = nv.get_dynamic_shared_memory((64,), nv.f16.ir, t * 128)
    # CHECK: %[[BYTE:\w+]] = arith.muli %[[T]],
    # CHECK: %[[START:\w+]] = arith.index_cast %[[BYTE]] : i32 to index
    # CHECK: memref.view %{{.*}}[%[[START]]][] : {{.*}} to memref<64xf16, #gpu.address_space<workgroup>>
    row[3] = 1.0


# CHECK: .extern .shared .align 1024 .b8 __dynamic_shmem__0[];
# CHECK-LABEL: .entry kernel
# CHECK: st.shared


@refused()
def behind_the_allocations():
    nv.smem((64, 64), nv.f16)
    nv.get_dynamic_shared_memory((32,), nv.f32.ir, 8192 - 64)
    # CHECK: VerifyError: dynamic_smem.py:[[# @LINE - 1]]: bytes 8,128 to 8,256 of shared memory are used, and the kernel has 8,192
    # CHECK-NEXT: rule: a kernel's shared memory is what nv.smem allocates
    # CHECK-NEXT: fix: allocate with nv.smem


@refused()
def offset_is_no_integer():
    nv.get_dynamic_shared_memory((32,), nv.f32.ir, 8192 / 2)
    # CHECK: TraceError: dynamic_smem.py:[[# @LINE - 1]]: 4096.0 where an integer belongs


@refused()
@nv.jit
def on_the_host():
    nv.get_dynamic_shared_memory()
    # CHECK: TraceError: dynamic_smem.py:[[# @LINE - 1]]: get_dynamic_shared_memory was used outside of a kernel
