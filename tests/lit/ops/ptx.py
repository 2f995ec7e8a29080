# RUN: %python %s | FileCheck %s

"""nv.ptx: one llvm.inline_asm, whose constraints come from the types; what doesn't fit is refused where it is written."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.ops.pointer import GLOBAL, address_of


# CHECK-LABEL: gpu.launch
@show(array(nv.u32, 128), array(nv.f64, 128), ptx=True)
def kernel(x, d):
    t = nv.thread_id.x
    x[t] = nv.ptx("lop3.b32 $0, $1, $2, $3, 0x96;", x[t], t, 5, result=nv.u32, meaning=lambda a, b, c: a ^ b ^ c)
    # CHECK: llvm.inline_asm has_side_effects {{.*}}nvdsl.meaning = "{{.*}}lambda>", nvdsl.ptx = "user"
    # CHECK-SAME: nvdsl.types = ["u32", "u32", "i32", "i32"]
    # CHECK-SAME: "lop3.b32 $0, $1, $2, $3, 0x96;", "=r,r,r,r"
    # CHECK-SAME: (i32, i32, i32) -> i32 (line [[# @LINE - 4]])
    y, less = nv.ptx(
        "{ setp.lt.f64 $1, $2, $3; min.f64 $0, $2, $3; }", d[t], nv.f64(1.0), result=(nv.f64, nv.bool_), volatile=False
    )
    # CHECK: llvm.inline_asm asm_dialect
    # CHECK-SAME: "=d,=b,d,d"
    # CHECK-SAME: -> !llvm.struct<(f64, i1)>
    d[t] = nv.select(less, y, 0.0)
    nv.ptx("st.global.b32 [$0], $1;", address_of(x, 4 * t, GLOBAL), t)
    # CHECK: llvm.inline_asm has_side_effects
    # CHECK-SAME: nvdsl.types = ["!llvm.ptr<1>", "i32"]
    # CHECK-SAME: "l,r,~{memory}"
    nv.ptx("{ @$0 trap; }", x[0] == 77)
    # CHECK: "b"


# CHECK-LABEL: .entry kernel
# CHECK: lop3.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, 0x96;
# CHECK: { setp.lt.f64 %p{{[0-9]+}},
# CHECK: st.global.b32 [%rd{{[0-9]+}}], %r
# CHECK: { @%p{{[0-9]+}} trap; }


# What computes nothing that anybody uses is left out, unless it is volatile.
# CHECK-LABEL: gpu.launch
@show(array(nv.u32, 128), ptx=True)
def unused(x):
    nv.ptx("brev.b32 $0, $1;", x[0], result=nv.u32, volatile=False)
    nv.ptx("bfind.u32 $0, $1;", x[0], result=nv.u32)


# CHECK-LABEL: .entry kernel
# CHECK-NOT: brev
# CHECK: bfind.u32


@refused(array(nv.u32, 128))
def beyond(x):
    nv.ptx("mov.b32 $0, $2;", x[0], result=nv.u32)
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: $2 in the text of nv.ptx, which has 1 result and 1 operand
    # CHECK-NEXT: rule: $0, $1, ... are the registers of the results and then of the operands; $$ is a dollar sign
    # CHECK-NEXT: fix: count from $0 to $1


@refused(array(nv.u32, 128))
def forgotten(x):
    nv.ptx("mov.b32 $0, 3;", x[0], result=nv.u32)
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: operand 0 of nv.ptx is not in its text: there is no $1


@refused(array(nv.u32, 128))
def no_semicolon(x):
    nv.ptx("mov.b32 $0, $1  // a copy", x[0], result=nv.u32)
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: nv.ptx('mov.b32 $0, $1  // a copy'): the last instruction has no


@refused(array(nv.u32, 128))
def whole_array(x):
    nv.ptx("ld.global.b32 $0, [$1];", x, result=nv.u32)
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: operand 0 of nv.ptx is Array
    # CHECK-NEXT: rule: operands are numbers, conditions and pointers


@refused()
def byte():
    nv.ptx("mov.b32 $0, $1;", nv.i8(3), result=nv.i32)
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: operand 0 of nv.ptx is a i8
    # CHECK-NEXT: rule: a register of inline PTX holds a number of 16, 32 or 64 bits, or a predicate (a bool)


@refused()
def no_type():
    nv.ptx("mov.b32 $0, 1;", result="u32")
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: a result of nv.ptx of type 'u32'


@refused()
def nothing():
    nv.ptx("bar.warp.sync 0xffffffff;", volatile=False)
    # CHECK: TraceError: ptx.py:[[# @LINE - 1]]: nv.ptx without a result, and with volatile=False


@refused(array(nv.u32, 128), compile=True)
def unknown_to_ptxas(x):
    x[0] = nv.ptx("lop3.b32 $0, $1, $1;", x[0], result=nv.u32)
    # CHECK: LowerError: ptx.py:[[# @LINE - 1]]: ptxas refused the kernel: {{.*}}Arguments mismatch for instruction 'lop3'
