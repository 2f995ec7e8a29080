"""Attention backward: right in the simulator, and in machine code what makes it fast."""

import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.errors import ToolchainError
from nvdsl.kernels.attention.gradient_config import MANY, choose
from nvdsl.kernels.attention.gradient_kernels import gradients
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.lower import toolchain
from tests.exhaustive import sample
from tests.sim.simulate import run
from tests.unit.kernels.backpropagating import CASES, check
from tests.unit.kernels.sass import main_loop


@pytest.mark.parametrize(("case", "level"), sample([(c, "traced") for c in CASES] + [(CASES[2], "nvvm")], 2), ids=str)
def test_in_the_simulator(case, level):
    check(lambda *a, **k: run(*a, **k, options=sim.Options(level=level, delivery="random", order="random")), case)


@pytest.fixture(scope="module")
def disassembler():
    try:
        return toolchain.disassembler()
    except ToolchainError as error:
        pytest.skip(str(error))


def of_heads(size):
    """dout, q, k, v, out, lse, dq, dk and dv."""
    of_q = nv.ShapeDtype(("batch", "queries", "heads", size), nv.bf16)
    of_k = nv.ShapeDtype(("key_batch", "keys", "kv_heads", size), nv.bf16)
    return of_q, of_q, of_k, of_k, of_q, nv.ShapeDtype(("batch", "heads", "queries"), nv.f32), of_q, of_k, of_k


SHIPPED = [(True, 64, 128, 1), (False, 128, 64, 2), (True, 128, 64, 1), (False, 64, 128, 1), (True, 128, 64, 2)]
"""Causal, head size, rows of a tile, parts of dQ."""


@pytest.mark.parametrize(("causal", "size", "tile_m", "parts"), sample(SHIPPED, 1))
def test_the_machine_code(disassembler, causal, size, tile_m, parts):
    """Nothing is kept in local memory, no wgmmas are serialized, exponentials run while dP = V dO^T is computed, and
    dQ is handed on while S is: no consumer meets the other in the loop."""
    arrays = of_heads(size)
    config = choose(size, size, tile_m == 64, False, MANY * 64 if parts > 1 else 0)
    assert (config.tile_m, config.parts) == (tile_m, parts)
    compiled = nv.jit(gradients.__wrapped__, strict=True).compile(
        *arrays, *[None] * 5, 0, 1.0, 0, 0, 0.0, config=config, bounded=(False, causal)
    )
    assert all(kernel.resources.spill_stores == 0 for kernel in compiled.kernels.values())
    (text,) = [text for kernel in compiled.kernels.values() if "HGMMA" in (text := kernel.sass())]
    loop = main_loop(text)
    waits = [i for i, line in enumerate(loop) if "WARPGROUP.DEPBAR" in line]
    powers = [i for i, line in enumerate(loop) if "MUFU.EX2" in line]
    products = [i for i, line in enumerate(loop) if "HGMMA" in line]
    assert products[0] < powers[0] and powers[-1] < waits[0], "S is there where the loop begins"
    assert ["0x0" in loop[i] for i in waits] == [False, False, False, True], "dV is in flight, then dQ, then S"
    assert sum(waits[0] < i < waits[1] for i in products) == tile_m // 16 + 128 // 16, "dK, and dQ of the tile before"
    handed_on = [i for i, line in enumerate(loop) if "STS.128" in line]
    assert waits[2] < handed_on[0] and handed_on[-1] < waits[3]
    assert not any("BAR.SYNC" in line and "0x100" in line for line in loop)
    assert len(powers) == tile_m // 2 and not any("LDL" in line or "STL" in line for line in loop)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("value_size", "causal"), [(192, False), (128, True)])
def test_the_machine_code_of_heads_of_192(disassembler, value_size, causal):
    """The same, and the exponentials run beside dP; dQ is added up beside dK, or dV, and S."""
    of_q, of_out = (nv.ShapeDtype(("batch", "queries", "heads", n), nv.bf16) for n in (192, value_size))
    of_k, of_v = (nv.ShapeDtype(("key_batch", "keys", "kv_heads", n), nv.bf16) for n in (192, value_size))
    lse = nv.ShapeDtype(("batch", "heads", "queries"), nv.f32)
    compiled = nv.jit(gradients.__wrapped__, strict=True).compile(
        of_out, of_q, of_k, of_v, of_out, lse, of_q, of_k, of_v, *[None] * 5, 0, 1.0, 0, 0, 0.0,
        config=choose(192, value_size, False, False), bounded=(False, causal),
    )  # fmt: skip
    (text,) = [text for kernel in compiled.kernels.values() if "HGMMA" in (text := kernel.sass())]
    assert not any(word in text for word in ("LDL", "STL"))
    loop = main_loop(text)
    waits, powers, products, sums = (
        [i for i, line in enumerate(loop) if word in line] for word in ("DEPBAR", "MUFU.EX2", "HGMMA", "RED")
    )
    assert len(powers) == 24 and powers[-1] < waits[0]
    assert sum(i < powers[0] for i in products) == value_size // 16, "dP"
    groups = [int(loop[i].split("0x")[-1].split()[0], 16) for i in waits]
    assert groups[0] == 0 and groups[1] > 2 and groups[-1] == 0, "dK, or dV, is in flight behind the first of dQ"
    assert len(sums) == 12 and waits[1] < sums[0] and sums[-1] < waits[-1]


@pytest.mark.parametrize(
    ("size", "causal"), sample([(64, True), (64, False), (128, True), (128, False), (192, True)], 1)
)
def test_sums_in_order_take_no_more_registers(size, causal):
    """Heads of 64 keep their tiles of 128 rows. Spills are errors here."""
    config = choose(size, size, False, False, MANY * 64)
    nv.jit(gradients.__wrapped__, strict=True).compile(
        *of_heads(size), *[None] * 5, 0, 1.0, 0, 0, 0.0, config=config, bounded=(False, causal), ordered=True
    )


def slopes(s, batch, head, query, key):
    return s - nv.math.exp2(-nv.f32(head + 1)) * nv.f32(nv.abs(query - key))


@pytest.mark.exhaustive
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("bounded", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "told", [(False, None), (True, None), (True, slopes), (False, slopes)], ids=["no bias", "bias", "both", "score"]
)
@pytest.mark.parametrize("softcap", [False, True])
@pytest.mark.parametrize(("size", "rows"), [(64, 0), (96, 0), (128, 0), (128, MANY * 64), (192, 0), (256, 0)])
@pytest.mark.parametrize("shared", [False, True])
def test_no_option_takes_registers_that_are_not_there(size, rows, softcap, told, bounded, ordered, shared):
    """Packed sequences where there is no bias, its gradient where there is no softcap. Spills are errors here."""
    packed = not told[0]
    arrays = of_heads(size)
    starts = [nv.ShapeDtype((name,), nv.i32) if packed else None for name in ("starts", "key_starts")]
    bias = nv.ShapeDtype(("bias_batch", "bias_heads", "bias_queries", "bias_keys"), nv.bf16) if told[0] else None
    of_bias = nv.ShapeDtype(("of_batch", "of_heads", "of_queries", "of_keys"), nv.f32)
    kind = ScoreKind(softcap, *told)
    tight = all(bounded) and softcap or kind.told and any(bounded)
    more = all(bounded) or softcap or packed
    config = choose(size, size, more, kind.told or packed and softcap, rows, tight, shared=shared)
    full = kind.told and config.wide or packed and all(bounded) and config.apart
    shares = nv.ShapeDtype(("parts", "head_parts"), nv.bf16) if shared and not full else None
    given = *starts, bias, of_bias if bias and not softcap else None, shares
    nv.jit(gradients.__wrapped__, strict=True).compile(
        *arrays, *given, 0, 1.0, 0, 0, 0.0,
        config=config, bounded=bounded, scores=kind, ordered=ordered,
        interleaved=ordered and bounded == (False, True),
    )  # fmt: skip
