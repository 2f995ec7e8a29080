"""Attention backward: right in the simulator, and in machine code what makes it fast."""

import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ToolchainError
from nvdsl.kernels.attention.backward import backward
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.lower import toolchain
from tests.exhaustive import sample
from tests.sim.simulate import run
from tests.unit.kernels.backpropagating import CASES, check
from tests.unit.kernels.sass import main_loop


@pytest.mark.parametrize(("case", "level"), sample([(c, "traced") for c in CASES] + [(CASES[2], "nvvm")], 3), ids=str)
def test_in_the_simulator(case, level):
    check(lambda *a, **k: run(*a, **k, options=sim.Options(level=level, delivery="random", order="random")), case)


@pytest.fixture(scope="module")
def disassembler():
    try:
        return toolchain.disassembler()
    except ToolchainError as error:
        pytest.skip(str(error))


SHIPPED = [(True, 64, 128), (False, 128, 64), (True, 128, 64), (False, 64, 128)]
"""Causal, head size, rows of a tile."""


@pytest.mark.parametrize(("causal", "size", "tile_m"), sample(SHIPPED, 1))
def test_the_machine_code(disassembler, causal, size, tile_m):
    """Nothing is kept in local memory, no wgmmas are serialized, and exponentials run while dP = V dO^T is computed."""
    of_q = nv.ShapeDtype(("batch", "queries", "heads", size), nv.bf16)
    of_k = nv.ShapeDtype(("key_batch", "keys", "kv_heads", size), nv.bf16)
    lse = nv.ShapeDtype(("batch", "heads", "queries"), nv.f32)
    arrays = of_q, of_q, of_k, of_k, of_q, lse, of_q, of_k, of_k
    compiled = nv.jit(backward.__wrapped__, strict=True).compile(
        *arrays, None, None, None, 1.0, 0, 0, 0.0, config=Config((size, size), tile_m), bounded=(False, causal)
    )
    assert all(kernel.resources.spill_stores == 0 for kernel in compiled.kernels.values())
    (text,) = [text for kernel in compiled.kernels.values() if "HGMMA" in (text := kernel.sass())]
    loop = main_loop(text)
    waits = [i for i, line in enumerate(loop) if "WARPGROUP.DEPBAR" in line]
    powers = [i for i, line in enumerate(loop) if "MUFU.EX2" in line]
    (before,) = [i for i, (a, b) in enumerate(zip(waits, waits[1:], strict=False)) if a < powers[0] and powers[-1] < b]
    assert "0x1" in loop[waits[before]], "S is there, and dP in flight"
    assert len(powers) == tile_m // 2 and not any("LDL" in line or "STL" in line for line in loop)
