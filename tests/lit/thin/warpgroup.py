# RUN: %python %s | FileCheck %s

"""`with Warpgroup`: a branch of one warpgroup; setmaxnreg in the direction that the launch needs, barriers of its 128
threads alone, and exceptions that go on."""

from show import refused, show

from nvdsl.thin import NVDSL, Warpgroup, gpu


def kernel_of(body, threads=384):
    @NVDSL.mlir_func
    def host():
        @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(threads, 1, 1))
        def kernel():
            body()

        kernel()

    return host


# CHECK-LABEL: func.func @host
@show(ptx=True)
@kernel_of
def roles():
    with Warpgroup(primary_thread=0, register_size=24):
        gpu.barrier()
    # 65,536 registers for 384 threads: 168 each.
    # CHECK: arith.cmpi eq
    # CHECK: %[[MINE:\w+]] = arith.cmpi eq
    # CHECK: scf.if %[[MINE]] {
    # CHECK-NEXT: nvvm.setmaxregister decrease 24 (line [[# @LINE - 6]])
    # CHECK-NOT: gpu.barrier
    # CHECK: %[[ID:\w+]] = arith.constant 1 : i32
    # CHECK: %[[THREADS:\w+]] = arith.constant 128 : i32
    # CHECK: nvvm.barrier id = %[[ID]] number_of_threads = %[[THREADS]] (line [[# @LINE - 9]])
    with Warpgroup(primary_thread=128, register_size=240) as consumer:
        # CHECK: nvvm.setmaxregister increase 240
        gpu.barrier()
        # CHECK: %[[TWO:\w+]] = arith.constant 2 : i32
        # CHECK: nvvm.barrier id = %[[TWO]]
        assert consumer.is_wg_primary is not None
    gpu.barrier()
    # CHECK: gpu.barrier (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: setmaxnreg.dec.sync.aligned.u32 24;
# CHECK-DAG: bar.sync 1, 128;
# CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 240;
# CHECK-DAG: bar.sync 2, 128;
# CHECK-DAG: bar.sync 0;


@refused()
@kernel_of
def primary_thread():
    Warpgroup(primary_thread=64, register_size=40)
    # CHECK: TraceError: warpgroup.py:[[# @LINE - 1]]: Warpgroup(primary_thread=64)
    # CHECK-NEXT: rule: a warpgroup starts at a multiple of 128 threads (PTX ISA, wgmma)
    # CHECK-NEXT: fix: use 0, 128, 256, ...


@refused()
@kernel_of
def register_budget():
    for number, registers in enumerate((40, 240, 240)):
        with Warpgroup(primary_thread=128 * number, register_size=registers):
            pass
    # CHECK: VerifyError: warpgroup.py:[[# @LINE - 2]]: setmaxnreg asks for 40*128 + 240*128 + 240*128 = 66,560 registers
    # CHECK-NEXT: rule: setmaxnreg moves the registers that the block starts with, 168 for each of 384 threads = 64,512


@kernel_of
def failing():
    with Warpgroup(primary_thread=0, register_size=40):
        raise KeyError("mine")


try:
    failing.trace()
except KeyError as error:
    print("surfaced:", error)
# CHECK: surfaced: 'mine'
