# RUN: %python %s | FileCheck %s

"""clock and globaltimer read where they are written: no two reads become one, none leaves its loop."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i64, 3), array(nv.f32, 1), ptx=True)
def kernel(out, x):
    start = nv.clock()
    # CHECK: nvvm.read.ptx.sreg.clock64 : i64 (line [[# @LINE - 1]])
    x[0] = x[0] + 1.0
    out[0] = nv.clock() - start
    # CHECK: nvvm.read.ptx.sreg.clock64 : i64 (line [[# @LINE - 1]])
    out[1] = nv.globaltimer() - nv.globaltimer()
    # CHECK-COUNT-2: nvvm.read.ptx.sreg.globaltimer : i64 (line [[# @LINE - 1]])
    for _ in nv.range(out.shape[0], unroll=False):
        out[2] = out[2] + nv.clock()


# CHECK-LABEL: .entry kernel
# CHECK: mov.u64 [[START:%rd\w+]], %clock64;
# CHECK: st.global.b32
# CHECK: mov.u64 [[END:%rd\w+]], %clock64;
# CHECK: sub.s64 {{%rd\w+}}, [[END]], [[START]];
# CHECK: mov.u64 [[FIRST:%rd\w+]], %globaltimer;
# CHECK: mov.u64 [[SECOND:%rd\w+]], %globaltimer;
# CHECK: sub.s64 {{%rd\w+}}, [[FIRST]], [[SECOND]];
# CHECK: [[LOOP:\$L\w+]]:
# CHECK: mov.u64 {{%rd\w+}}, %clock64;
# CHECK: bra [[LOOP]];


@refused()
@nv.jit
def on_the_host():
    nv.clock()
    # CHECK: TraceError: clocks.py:[[# @LINE - 1]]: clock was used outside of a kernel


@refused()
@nv.jit
def nanoseconds_of_the_host():
    nv.globaltimer()
    # CHECK: TraceError: clocks.py:[[# @LINE - 1]]: globaltimer was used outside of a kernel
