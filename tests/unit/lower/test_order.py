"""What ptxas makes of the order that a program says, in machine code: exponentials, and the wait behind them."""

import re

import pytest

import nvdsl as nv
from nvdsl.errors import ToolchainError
from nvdsl.lower import toolchain


@pytest.fixture(scope="module", autouse=True)
def disassembler():
    try:
        return toolchain.disassembler()
    except ToolchainError as error:
        pytest.skip(str(error))


def instructions(compiled):
    (kernel,) = compiled.kernels.values()
    return [m[1] for m in re.finditer(r"/\*[0-9a-f]{4,}\*/\s+(.*?) ;", kernel.sass())]


def before_the_wait(code):
    """Exponentials before the last wait for wgmmas, and all of them."""
    waits = [i for i, text in enumerate(code) if "WARPGROUP.DEPBAR" in text]
    powers = [i for i, text in enumerate(code) if "MUFU.EX2" in text]
    return sum(i < waits[-1] for i in powers), len(powers)


@nv.jit
def overlapped(out: nv.Array, *, ordered: int) -> None:
    """The exponentials of one product while another is in flight. ``ordered``: how often their sum is named."""

    @nv.kernel(grid=1, block=128)
    def kernel() -> None:
        A = nv.smem((64, 64), nv.f16, swizzle=128)
        s, acc = nv.accumulator(64, 64), nv.accumulator(64, 64)
        s += A @ A
        acc += A @ A
        nv.wgmma_wait(1)
        weights = nv.math.exp2_approx(s * 0.125)
        total = weights.sum(axis=1, partial=True)
        if ordered:
            nv.sched_barrier(*[total] * ordered)
        nv.wgmma_wait(0)
        (acc * total.total()[:, None] + weights).store(out, (0, 0))

    kernel()


def test_a_sched_barrier_keeps_work_in_front_of_a_wait():
    found = {
        ordered: before_the_wait(instructions(overlapped.compile(nv.ShapeDtype((64, 64), nv.f32), ordered=ordered)))
        for ordered in range(3)
    }
    assert found[1] == (32, 32)
    assert found[2] == (32, 32)  # the same values again take nothing away
    assert found[0][0] < 16  # what ptxas does by itself


def test_it_costs_three_instructions():
    """Two values: a multiply-add, a comparison and a predicated event."""
    with_it, without = (
        [x for x in instructions(overlapped.compile(nv.ShapeDtype((64, 64), nv.f32), ordered=o)) if x != "NOP"]
        for o in (1, 0)
    )
    assert len(with_it) - len(without) <= 4
    assert [x for x in with_it if "PMTRIG" in x and x.startswith("@")] and not any("PMTRIG" in x for x in without)
