"""The whole verifier: no alarm on the repository's kernels, within the time that a trace may take."""

import time

import pytest

from nvdsl import verify
from nvdsl.errors import VerifyError
from nvdsl.mlir import ir
from tests.sim.programs import CASES, case


@pytest.mark.parametrize("name", CASES)
def test_no_false_alarm(name):
    verify.check(case(name).program.module)


def test_what_it_costs():
    """Chapter 5 has a thousand ops; several times what it takes on a machine that does nothing else."""
    module = case("ch5").program.module
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        verify.check(module)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1


HOST_SIZED = """
func.func @f(%n: index) {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  gpu.launch blocks(%a, %b, %c) in (%x = %c1, %y = %c1, %z = %c1)
             threads(%d, %e, %g) in (%u = SIZE, %v = %c1, %w = %c1) {
    %t = gpu.thread_id x
    %half = arith.cmpi ult, %t, %c1 : index
    scf.if %half { gpu.barrier }
    gpu.terminator
  }
  return
}"""


def test_kernels_whose_block_the_host_computes_are_let_through():
    with ir.Context():
        verify.check(ir.Module.parse(HOST_SIZED.replace("SIZE", "%n")))
        with pytest.raises(VerifyError, match="a part of a warp"):
            verify.check(ir.Module.parse(HOST_SIZED.replace("SIZE", "%c64")))
