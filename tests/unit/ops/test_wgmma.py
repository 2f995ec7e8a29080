"""wgmma: what exists, and that the two ways to emit it (an op, inline PTX) say the same."""

import itertools
import re

import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, defining, find
from nvdsl.layout import Operand, TileLayout
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import wgmma
from nvdsl.values import dtypes
from nvdsl.values.traced import const
from tests.unit.kernels import host, refused_body, trace

# PTX ISA, wgmma.mma_async, "Shapes and types"
EXIST = {("f16", "f16"): "f16 f32", ("bf16", "bf16"): "f32", ("tf32", "tf32"): "f32"}
EXIST |= {(a, b): "f16 f32" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")}
EXIST |= {(a, b): "i32" for a in ("i8", "u8") for b in ("i8", "u8")}


def refuses(a, b, d, n):
    try:
        wgmma.check_types(a, b, d, n)
    except nv.TraceError as error:
        assert error.rule and error.fix
        return True
    return False


def test_types_that_exist():
    for a, b, d in itertools.product(dtypes.ALL, repeat=3):
        assert refuses(a, b, d, 32) != (d.name in EXIST.get((a.name, b.name), "").split()), (a, b, d)


def test_widths_that_exist():
    """N of floats: 8, 16 ... 256; of integers 8, 16, 24, 32, 48 ... 256."""
    floats = [n for n in range(-8, 300) if not refuses(nv.f16, nv.f16, nv.f32, n)]
    integers = [n for n in range(-8, 300) if not refuses(nv.u8, nv.i8, nv.i32, n)]
    assert floats == list(range(8, 257, 8))
    assert integers == [8, 16, 24, *range(32, 257, 16)]


@pytest.mark.parametrize("pending", [-1, 8, 1.0, None])
def test_waits_that_do_not_exist(pending):
    def body():
        nv.wgmma_wait(pending)

    assert "0 to 7" in refused_body(body).rule


def instruction(scale_d, a, b, d, n, majors=("k", "k"), scales=(1, 1), registers=False):
    """The PTX of one wgmma behind its operands, and its name: (name, immediates)."""

    def body():
        operand = Operand(TileLayout.of(256, 128 // a.bytes, a.bytes, 128), "k")
        desc = wgmma.descriptor(nv.smem((256, 128 // a.bytes), a, swizzle=128).address, operand)
        left = [nv.i32(nv.thread_id.x + i) for i in range(4)] if registers else desc
        zero = nv.accumulator(64, n, d).blocks[0]
        scale = scale_d if isinstance(scale_d, bool) else nv.thread_id.x >= 0
        types = {"a_dtype": WGMMA_TYPE.get(a, a), "b_dtype": WGMMA_TYPE.get(b, b), "d_dtype": d}
        signs = {"scale_a": scales[0], "scale_b": scales[1]}
        wgmma.wgmma_fence()
        made = wgmma.mma_async(
            zero, left, desc, n=n, a_major=majors[0], b_major=majors[1], scale_d=scale, **types, **signs
        )
        wgmma.wgmma_commit()
        wgmma.wgmma_wait(0)
        from nvdsl.ops import ptx

        ptx.touch(made)

    text = host(body).compile().ptx
    (found,) = re.findall(r"(wgmma\.mma_async\S+)\s*\{[^}]*\},\s*(?:\{[^}]*\}|%rd\d+),\s*%rd\d+,\s*([^;]*);", text)
    return found[0], [x.strip() for x in found[1].split(",")][1:]


WGMMA_TYPE = {nv.f32: nv.tf32}
CASES = [
    (nv.f16, nv.f16, nv.f32, 64, ("k", "k"), (1, 1)),
    (nv.f16, nv.f16, nv.f16, 8, ("k", "mn"), (1, 1)),
    (nv.bf16, nv.bf16, nv.f32, 256, ("mn", "k"), (-1, 1)),
    (nv.bf16, nv.bf16, nv.f32, 16, ("mn", "mn"), (1, -1)),
    (nv.f32, nv.f32, nv.f32, 24, ("k", "k"), (1, 1)),
    (nv.e4m3, nv.e5m2, nv.f32, 32, ("k", "k"), (-1, -1)),
    (nv.e5m2, nv.e4m3, nv.f16, 32, ("k", "k"), (1, 1)),
    (nv.i8, nv.u8, nv.i32, 48, ("k", "k"), (1, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]} {case[3]}")
def test_the_op_and_the_inline_form_are_one_instruction(case):
    """Name, negations and transpositions; scale-d aside, which one has as a constant and the other in a register."""
    op = instruction(True, *case)
    inline = instruction(None, *case)
    assert op == inline
    a, b, d, n, majors, scales = case
    assert f"m64n{n}k{32 // a.bytes}" in op[0]
    integers = a in (nv.i8, nv.u8)
    assert op[1] == ([] if integers else list(map(str, scales))) + (
        [str(int(major == "mn")) for major in majors] if a.bits == 16 else []
    )


@pytest.mark.parametrize(("a", "immediates"), [(nv.f16, ["1", "1", "1"]), (nv.e4m3, ["1", "1"]), (nv.i8, [])], ids=str)
def test_registers_of_a_have_no_transposition(a, immediates):
    d = nv.i32 if a is nv.i8 else nv.f32
    majors = ("k", "mn") if a is nv.f16 else ("k", "k")
    assert instruction(True, a, a, d, 32, majors, registers=True)[1] == immediates


REFUSED = {
    "fp8 by columns": ({"a_dtype": nv.e4m3, "b_dtype": nv.e4m3, "a_major": "mn"}, "K-major"),
    "int8 by columns": ({"a_dtype": nv.i8, "b_dtype": nv.i8, "d_dtype": nv.i32, "b_major": "mn"}, "K-major"),
    "a scale of 2": ({"scale_a": 2}, "1 or -1"),
    "negated integers": ({"a_dtype": nv.i8, "b_dtype": nv.i8, "d_dtype": nv.i32, "scale_b": -1}, "integer types"),
    "two kinds of floats": ({"b_dtype": nv.bf16}, "wgmma takes"),
}


@pytest.mark.parametrize(("changed", "rule"), REFUSED.values(), ids=list(REFUSED))
def test_forms_that_do_not_exist(changed, rule):
    def body():
        options = {"a_dtype": nv.f16, "b_dtype": nv.f16, "d_dtype": nv.f32, **changed}
        zero = llvm.mlir_undef(wgmma.accumulator_type(16, options["d_dtype"]))
        desc = const(0, nv.i64)
        wgmma.mma_async(zero, desc, desc, n=16, **options)

    assert rule in refused_body(body).rule


def test_a_descriptor_joins_its_start_address():
    """Bits 0 to 13: the address without its last 4 bits; the rest is the layout's."""

    def body():
        wgmma.descriptor(nv.i32(0x2_1230), Operand(TileLayout.of(64, 64, 2, 128), "k"))

    (join,) = find(trace(body), "arith.ori")
    assert constant(join.operands[1]) & (1 << 64) - 1 == 0x4000_0040_0001_0000
    masked = defining(defining(join.operands[0]).operands[0])
    assert constant(masked.operands[1]) == 0x3FFF
    assert constant(defining(masked.operands[0]).operands[1]) == 4
