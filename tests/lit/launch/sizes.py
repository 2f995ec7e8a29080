# RUN: %python %s | FileCheck %s

"""nv.kernel: gpu.launch with the grid, the block and the cluster; the block and the cluster are part of the kernel."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[N:\w+]]: i32
@show(7, ptx=True)
@nv.jit
def host(n):
    @nv.kernel(grid=(n, 2), block=(32, 4), cluster=(1, 2))
    def kernel():
        pass

    kernel()
    # CHECK-DAG: %[[BLOCKS:\w+]] = arith.index_cast %[[N]] : i32 to index (line [[# @LINE - 1]])
    # CHECK: gpu.launch clusters({{.*}}) in (%{{\w+}} = %[[C:\w+]], {{.*}}) blocks({{.*}}) in (%{{\w+}} = %[[BLOCKS]],
    # CHECK-SAME: module(@kernel) function(@kernel)


# CHECK-LABEL: .visible .entry kernel
# CHECK: .reqntid 32, 4, 1
# CHECK: .minnctapersm 1
# CHECK: .explicitcluster
# CHECK: .reqnctapercluster 1, 2, 1


# CHECK-LABEL: func.func @sharing
# CHECK: gpu.launch
# CHECK: } {{.*}}nvdsl.blocks_per_sm = 4 : i32
# CHECK-LABEL: .visible .entry together
# CHECK: .minnctapersm 4
@show(ptx=True)
@nv.jit
def sharing():
    @nv.kernel(grid=1, block=64, blocks_per_sm=4)
    def together():
        pass

    together()


# CHECK-LABEL: func.func @at_least
# CHECK: gpu.launch
# CHECK: } {{.*}}nvdsl.blocks_per_sm = 4 : i32, nvdsl.fewest_blocks_per_sm = 2 : i32
# CHECK-LABEL: .visible .entry few
# CHECK: .minnctapersm 4
@show(ptx=True)
@nv.jit
def at_least():
    @nv.kernel(grid=1, block=64, blocks_per_sm=(2, 4))
    def few():
        pass

    few()


# Without a cluster there is none.
# CHECK-LABEL: func.func @host
@show(grid=2, block=64)
def plain():
    nv.sync_threads()
    # CHECK: gpu.launch blocks


def launched(**sizes):
    @refused()
    @nv.jit
    def host():
        @nv.kernel(**sizes)
        def kernel():
            pass

        kernel()
        # CHECK: TraceError: sizes.py:[[# @LINE - 1]]: a block of 64 x 32 x 1 = 2048 threads
        # CHECK-NEXT: rule: a block has at most 1024 threads, 64 along z (CUDA programming guide, compute capabilities)
        # CHECK-NEXT: fix: use a smaller block and more blocks
        # CHECK: TraceError: sizes.py:[[# @LINE - 4]]: a block of 1 x 1 x 128 = 128 threads
        # CHECK: TraceError: sizes.py:[[# @LINE - 5]]: block=(0, 1, 1)
        # CHECK-NEXT: rule: a block's extents are positive Python ints
        # CHECK-NEXT: fix: take them from keyword arguments of the host function
        # CHECK: TraceError: sizes.py:[[# @LINE - 8]]: block=(32.0, 1, 1)
        # CHECK: TraceError: sizes.py:[[# @LINE - 9]]: block=(1, 1, 1, 1)
        # CHECK-NEXT: rule: a block has one to three extents
        # CHECK-NEXT: fix: x, (x, y) or (x, y, z)
        # CHECK: TraceError: sizes.py:[[# @LINE - 12]]: a grid of -1 blocks along x
        # CHECK-NEXT: rule: 0 to 2,147,483,647 blocks along x, an int or a traced integer
        # CHECK-NEXT: fix: nv.cdiv(extent, tile) rounds up
        # CHECK: TraceError: sizes.py:[[# @LINE - 15]]: a grid of 70000 blocks along y
        # CHECK-NEXT: rule: 0 to 65,535 blocks along y
        # CHECK: TraceError: sizes.py:[[# @LINE - 17]]: a grid of 2.5 blocks along x
        # CHECK: TraceError: sizes.py:[[# @LINE - 18]]: a cluster of 16 blocks
        # CHECK-NEXT: rule: a cluster has at most 8 blocks on every Hopper GPU (CUDA programming guide)
        # CHECK-NEXT: fix: use 2, 4 or 8 blocks
        # CHECK: TraceError: sizes.py:[[# @LINE - 21]]: a grid of 6 blocks along x in clusters of 4
        # CHECK-NEXT: rule: the grid is a whole number of clusters along each axis (CUDA programming guide)
        # CHECK-NEXT: fix: round the grid up to a multiple of 4 and skip the extra blocks in the kernel
        # CHECK: TraceError: sizes.py:[[# @LINE - 24]]: blocks_per_sm=5 with 512 threads in a block
        # CHECK-NEXT: rule: an SM has room for 32 blocks and 2048 threads (CUDA programming guide, compute capabilities)
        # CHECK-NEXT: fix: pass an int from 1 to 4, or two, the least and the most; or use a smaller block
        # CHECK: TraceError: sizes.py:[[# @LINE - 27]]: blocks_per_sm=0 with 32 threads in a block
        # CHECK: TraceError: sizes.py:[[# @LINE - 28]]: blocks_per_sm=(3, 2) with 32 threads in a block


launched(grid=1, block=(64, 32))
launched(grid=1, block=(1, 1, 128))
launched(grid=1, block=0)
launched(grid=1, block=32.0)
launched(grid=1, block=(1, 1, 1, 1))
launched(grid=-1, block=32)
launched(grid=(1, 70_000), block=32)
launched(grid=5 / 2, block=32)
launched(grid=16, block=32, cluster=16)
launched(grid=6, block=32, cluster=4)
launched(grid=1, block=512, blocks_per_sm=5)
launched(grid=1, block=32, blocks_per_sm=0)
launched(grid=1, block=32, blocks_per_sm=(3, 2))


@refused(7)
@nv.jit
def traced_block(n):
    @nv.kernel(grid=1, block=n)
    def kernel():
        pass

    kernel()
    # CHECK: TraceError: sizes.py:[[# @LINE - 1]]: block=({{.*}}, 1, 1)


@refused()
def kernel_in_a_kernel():
    @nv.kernel(grid=1, block=32)
    def inner():
        pass

    inner()
    # CHECK: TraceError: sizes.py:[[# @LINE - 1]]: kernel `inner` was launched inside of kernel `kernel`
    # CHECK-NEXT: rule: tensor maps, launches and device memory belong to the host function
    # CHECK-NEXT: fix: launch it in the host function
