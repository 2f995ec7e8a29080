# RUN: %python %s | FileCheck %s

"""nv.TileQueue: one thread draws numbers of tiles from a counter in global memory, warps read them from slots."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 1), grid=4, block=64, ptx=True)
def kernel(counter):
    queue = nv.TileQueue(counter, 100, readers=1)
    # CHECK: nvgpu.mbarrier.create -> <{{.*}}num_barriers = 2>
    # CHECK: nvgpu.mbarrier.create -> <{{.*}}num_barriers = 2>
    work = queue.begin()
    if nv.warp_id() == 0:
        if nv.lane_id() == 0:
            # CHECK: scf.while
            while work.valid:
                # CHECK: arith.cmpi slt, %{{.*}}, %c100
                work = queue.draw(work)
                # CHECK: llvm.atomicrmw uinc_wrap {{.*}}(line [[# @LINE - 1]])
                # CHECK: nvgpu.mbarrier.try_wait.parity
                # CHECK: memref.store
                # CHECK: nvgpu.mbarrier.arrive
    else:
        # CHECK: scf.while
        while work.valid:
            work = queue.next(work)
            # CHECK: nvgpu.mbarrier.try_wait.parity
            # CHECK: memref.load
            # CHECK: nvvm.shfl.sync idx
            # CHECK: scf.if
            # CHECK: nvgpu.mbarrier.arrive


# CHECK-LABEL: .entry kernel
# CHECK-DAG: atom{{(.relaxed.gpu)?}}.global.inc.u32
# CHECK-DAG: @%p{{[0-9]+}} mbarrier.arrive.shared.b64


@refused(array(nv.i64, 1))
def wide_counter(counter):
    nv.TileQueue(counter, 100, readers=1)
    # CHECK: TraceError: tile_queue.py:[[# @LINE - 1]]: a queue that counts in Array(shape=(1{{,?}}), dtype=i64)
    # CHECK-NEXT: rule: the counter is the first element of a 1-D array of 32-bit integers in global memory
    # CHECK-NEXT: fix: counter = nv.zeros(1, nv.i32), in the host function


@refused(array(nv.i32, 1))
def empty(counter):
    nv.TileQueue(counter, 0, readers=1)
    # CHECK: TraceError: tile_queue.py:[[# @LINE - 1]]: a queue of 0 tiles


@refused(array(nv.i32, 1), grid=(2, 2))
def two_axes(counter):
    nv.TileQueue(counter, 8, readers=1)
    # CHECK: TraceError: tile_queue.py:[[# @LINE - 1]]: a queue in a grid of (2, 2, 1) blocks
