# RUN: %python %s | FileCheck %s

"""setmaxnreg_inc and _dec: a constant number of registers, 24 to 256 in steps of 8, for a whole warpgroup."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, block=384)
def kernel():
    if nv.warpgroup_id() == 0:
        nv.setmaxnreg_dec(24)
        # CHECK: scf.if
        # CHECK: nvvm.setmaxregister decrease 24 (line [[# @LINE - 2]])
    else:
        nv.setmaxnreg_inc(240)
        # CHECK: } else {
        # CHECK: nvvm.setmaxregister increase 240 (line [[# @LINE - 2]])


# ptxas ignores setmaxnreg unless the kernel says how many threads and blocks it runs with.
# CHECK-LABEL: .entry kernel
# CHECK: .reqntid 384, 1, 1
# CHECK: .minnctapersm 1
# CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 24;
# CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 240;


# Whoever gives up registers follows the branch, as a launch waits for the code of its first loads.
# CHECK-LABEL: gpu.launch
@show(ptx=True, block=384)
def consumers_first():
    if nv.warpgroup_id() > 0:
        nv.setmaxnreg_inc(240)
        for _ in nv.range(nv.block_id.x, unroll=False):
            nv.sync_warp()
    else:
        nv.setmaxnreg_dec(24)


# CHECK: .entry kernel
# CHECK: bra
# CHECK: setmaxnreg.dec.sync.aligned.u32 24;
# CHECK: setmaxnreg.inc.sync.aligned.u32 240;


@refused()
def no_multiple_of_8():
    nv.setmaxnreg_inc(250)
    # CHECK: TraceError: setmaxnreg.py:[[# @LINE - 1]]: setmaxnreg to 250 registers
    # CHECK-NEXT: rule: the count is a constant from 24 to 256, a multiple of 8 (PTX ISA, setmaxnreg)
    # CHECK-NEXT: fix: 24 or 40 for a producer warpgroup, 232 or 240 for each of two consumers


@refused()
def too_few():
    nv.setmaxnreg_dec(16)
    # CHECK: TraceError: setmaxnreg.py:[[# @LINE - 1]]: setmaxnreg to 16 registers


@refused()
def too_many():
    nv.setmaxnreg_inc(264)
    # CHECK: TraceError: setmaxnreg.py:[[# @LINE - 1]]: setmaxnreg to 264 registers


@refused(block=96)
def no_warpgroup():
    nv.setmaxnreg_inc(240)
    # CHECK: TraceError: setmaxnreg.py:[[# @LINE - 1]]: setmaxnreg in a block of 96 threads
    # CHECK-NEXT: rule: all warps of a warpgroup, 128 threads, execute it together (PTX ISA, setmaxnreg)
    # CHECK-NEXT: fix: use a block of 128, 256, 384 ... threads
