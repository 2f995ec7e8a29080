# RUN: %python %s | FileCheck %s

"""mbarrier.arrive.expect_tx: the count is in bytes, an int or a traced integer; arrive(bytes) is the same."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[ZERO:\w+]] = arith.constant 0 : index
    barrier.arrive_expect_tx(32768)
    # CHECK: %[[BYTES:\w+]] = arith.constant 32768 : index
    # CHECK: nvgpu.mbarrier.arrive.expect_tx %[[GROUP]][%[[ZERO]]], %[[BYTES]] : {{.*}}(line [[# @LINE - 2]])
    barrier.arrive(16)
    # CHECK: %[[SIXTEEN:\w+]] = arith.constant 16 : index
    # CHECK: nvgpu.mbarrier.arrive.expect_tx %[[GROUP]][%[[ZERO]]], %[[SIXTEEN]] :
    barrier.arrive_expect_tx(nv.block_dim.x)
    # CHECK: %[[SIZE:\w+]] = arith.index_cast %{{.*}} : i32 to index
    # CHECK: nvgpu.mbarrier.arrive.expect_tx %[[GROUP]][%[[ZERO]]], %[[SIZE]] :


# CHECK-LABEL: .entry kernel
# CHECK: mov.b32 [[R:%r\w+]], 32768;
# CHECK: mbarrier.arrive.expect_tx.shared.b64 {{.*}}, [__dynamic_shmem__0], [[R]];


@refused()
def too_many_bytes():
    nv.Mbarriers(1)[0].arrive_expect_tx(1 << 20)
    # CHECK: TraceError: arrive_expect_tx.py:[[# @LINE - 1]]: an mbarrier that expects 1048576 bytes
    # CHECK-NEXT: rule: an mbarrier's transaction count is 0 to 1048575 bytes (PTX ISA,
    # CHECK-NEXT: fix: pass the bytes of the tiles that are loaded; split large tiles over two barriers


@refused()
def negative():
    nv.Mbarriers(1)[0].arrive(-16)
    # CHECK: TraceError: arrive_expect_tx.py:[[# @LINE - 1]]: an mbarrier that expects -16 bytes


@refused()
def no_integer():
    nv.Mbarriers(1)[0].arrive_expect_tx(64 * 64 / 2)
    # CHECK: TraceError: arrive_expect_tx.py:[[# @LINE - 1]]: 2048.0 where an integer belongs
