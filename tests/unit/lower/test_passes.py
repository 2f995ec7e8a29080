"""The pass list: it is well formed, leaves the traced module alone, and its errors name the user's line."""

from __future__ import annotations

import pytest

from nvdsl.errors import LowerError
from nvdsl.lower import compiler, passes
from nvdsl.mlir import ir, passmanager
from tests.unit.lower.modules import LOADS, launch, line_of, parse, ptx

STEPS = (*passes.HOST, *passes.DEVICE)


def test_each_step_has_one_name_and_one_thing_to_do():
    assert len({step.name for step in STEPS}) == len(STEPS)
    assert all(bool(step.pipeline) != bool(step.rewrite) and step.why for step in STEPS)


@pytest.mark.parametrize("step", [s for s in STEPS if s.pipeline], ids=lambda s: s.name)
def test_each_pipeline_is_known_to_mlir(step):
    with ir.Context():
        passmanager.PassManager.parse(f"builtin.module({step.pipeline})")


def test_lowering_leaves_the_traced_module_and_the_hosts_kernels_as_they_are():
    module = parse(launch(LOADS + "memref.store %fx, %f[%c0] : memref<64xf32>"))
    before = str(module)
    lowered = compiler.lower(module)
    assert str(module) == before
    host = str(lowered.host)
    assert "gpu.launch_func  @host_kernel::@host_kernel" in host
    assert "memref.store" in host and "llvm." not in host
    assert set(lowered.stages) == {"passes", "ptx", "ptxas"}


def test_a_step_runs_only_where_it_is_needed():
    step = next(s for s in passes.DEVICE if s.name == "relax-atomics")
    assert step.wanted(frozenset({"memref.atomic_rmw", "gpu.func"}))
    assert not step.wanted(frozenset({"memref.load"}))
    assert next(s for s in passes.DEVICE if s.name == "convert-scf-to-cf").wanted(frozenset())


def error_of(body: str, match: str, line: str) -> LowerError:
    """The LowerError of a kernel; its line is the one that has ``line`` in it."""
    text = launch(LOADS + body)
    with pytest.raises(LowerError, match=match) as caught:
        ptx(text)
    assert caught.value.where.line == line_of(text, line)
    return caught.value


def test_what_a_pass_refuses():
    error = error_of(
        "%r = gpu.subgroup_reduce add %fx : (f32) -> f32\nmemref.store %r, %f[%tid] : memref<64xf32>",
        match="convert-gpu-to-nvvm refused the kernel: failed to legalize",
        line="gpu.subgroup_reduce",
    )
    assert "NVDSL_DUMP=before:convert-gpu-to-nvvm" in error.fix
    assert "\n" not in error.message  # MLIR's own text has the whole module in it


def test_what_no_pass_converts():
    body = """%r = arith.addf %ex, %ex : f8E4M3FN
              memref.store %r, %e[%tid] : memref<64xf8E4M3FN>"""
    error_of(body, match="`arith.addf` has no lowering to LLVM", line="arith.addf")


def test_an_array_of_unknown_shape_is_put_together_in_the_kernel():
    text = launch(
        "%q = memref.load %view[%c1] : memref<?xf32>\n memref.store %q, %f[%c0] : memref<64xf32>",
        host="    %view = memref.cast %f : memref<64xf32> to memref<?xf32>",
    )
    assert "ld.global" in ptx(text)


def test_an_array_of_unknown_rank():
    text = launch(
        "%r = memref.cast %view : memref<*xf32> to memref<64xf32>\n"
        "%q = memref.load %r[%c1] : memref<64xf32>\n memref.store %q, %f[%c0] : memref<64xf32>",
        host="    %view = memref.cast %f : memref<64xf32> to memref<*xf32>",
    )
    with pytest.raises(LowerError, match=r"kernel host_kernel is passed an array of type memref<\*xf32>"):
        ptx(text)


@pytest.mark.parametrize("name", ["exp", "log2", "sin", "tanh"])
def test_an_intrinsic_that_would_end_the_process(name):
    call = f'%r = llvm.call_intrinsic "llvm.{name}.f32"(%fx) : (f32) -> f32'
    error_of(call, match=f"no instruction for llvm.{name} on f32", line="call_intrinsic")


def test_an_intrinsic_op_that_would_end_the_process():
    op = "%r = llvm.intr.pow(%fx, %fy) {fastmathFlags = #llvm.fastmath<afn>} : (f32, f32) -> f32"
    error_of(op, match="no instruction for llvm.pow", line="llvm.intr.pow")


def test_an_approximate_intrinsic_on_64_bits_would_end_the_process():
    op = "%r = llvm.intr.sin(%dx) {fastmathFlags = #llvm.fastmath<afn>} : (f64) -> f64"
    error_of(op, match="no instruction for llvm.sin on f64", line="llvm.intr.sin")


@pytest.mark.parametrize(
    ("text", "constraints", "problem"),
    [
        ("mov.u32 $0, $laneid;", "=r", r"\$laneid is no operand"),
        ("mov.u32 $0, $7;", "=r", r"\$7 of 1 operands"),
        ("mov.u32 $0, $1;", "=r,r", "0 operands for 1 input constraints"),
        ("mov.u32 $0, ${0:q};", "=r", "is no operand"),
    ],
)
def test_inline_ptx_that_would_end_the_process(text, constraints, problem):
    op = f'%r = llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}" : () -> i32'
    error_of(op, match=problem, line="llvm.inline_asm")


def test_a_percent_sign_in_nvvm_inline_ptx_would_end_the_process():
    op = '%r = nvvm.inline_ptx "mov.u32 {$w0}, %laneid;" -> i32'
    error_of(op, match=r"\$laneid is no operand", line="nvvm.inline_ptx")
