# RUN: not %python %s 2>&1 | FileCheck %s


"""setmaxnreg of all warpgroups together: 24/240/240 fit the register file, 40/240/240 hang."""

import nvdsl as nv


@nv.jit
def gemm(*, producer):
    @nv.kernel(grid=1, block=384)
    def kernel():
        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(producer)
        else:
            nv.setmaxnreg_inc(240)

    kernel()


gemm.trace(producer=24)
print("24 fits")
gemm.trace(producer=40)

# CHECK: 24 fits
# CHECK: nvdsl.errors.VerifyError: {{.*}}register_budget.py:[[# @LINE - 10]]: setmaxnreg asks for 40*128 + 240*128 + 240*128 = 66,560 registers
# CHECK-NEXT: rule: setmaxnreg moves the registers that the block starts with, 168 for each of 384 threads = 64,512 (PTX ISA, setmaxnreg); a kernel that asks for more hangs
# CHECK-NEXT: fix: 24 for the producer and 240 for each of two consumers
