"""Ops of every dialect that nvdsl emits reach PTX, and as the instructions that they should be."""

from __future__ import annotations

import pytest

from nvdsl import mlir
from nvdsl.errors import LowerError
from nvdsl.lower import atomics
from tests.unit.lower.modules import LOADS, launch, ptx, wgmma

STORE_F32 = "memref.store %r, %f[%tid] : memref<64xf32>"
STORE_I32 = "memref.store %r, %i[%tid] : memref<64xi32>"

# name: (the ops, the PTX they must become); the last value is %r. Several at once where one store suffices.
F32 = {
    "maximumf": ("%r = arith.maximumf %fx, %fy : f32", "max.NaN.f32"),
    "maxnumf": ("%r = arith.maxnumf %fx, %fy : f32", "max.f32"),
    "fma": ("%r = llvm.intr.fma(%fx, %fy, %fy) : (f32, f32, f32) -> f32", "fma.rn.f32"),
    "exp2": ('%r = llvm.call_intrinsic "llvm.exp2.f32"(%fx) : (f32) -> f32', "ex2.approx.f32"),
    "approximate tanh": (
        '%r = llvm.call_intrinsic "llvm.tanh.f32"(%fx) {fastmathFlags = #llvm.fastmath<afn>} : (f32) -> f32',
        "tanh.approx.f32",
    ),
    "libdevice": ("%r = math.exp %fx : f32", "ex2.approx"),
    "atomic": (
        "%r = memref.atomic_rmw addf %fx, %f[%c0] : (f32, memref<64xf32>) -> f32",
        "atom.relaxed.gpu.global.add",
    ),
    "subview": (
        """%s = memref.subview %f[%tid][4][1] : memref<64xf32> to memref<4xf32, strided<[1], offset: ?>>
           %r = memref.load %s[%c1] : memref<4xf32, strided<[1], offset: ?>>""",
        "+4]",
    ),
    "reinterpret_cast": (
        """%s = memref.reinterpret_cast %f to offset: [0], sizes: [8, 8], strides: [8, 1]
               : memref<64xf32> to memref<8x8xf32>
           %r = memref.load %s[%c1, %tid] : memref<8x8xf32>""",
        "+32]",
    ),
}
I32 = {
    "floordivsi": ("%r = arith.floordivsi %ix, %iy : i32", "div.s32"),
    "ceildivui": ("%r = arith.ceildivui %ix, %iy : i32", "div.u32"),
    "ctpop": ("%r = math.ctpop %ix : i32", "popc.b32"),
    "ctlz": ("%r = math.ctlz %ix : i32", "clz.b32"),
    "cttz": ("%r = math.cttz %ix : i32", "popc.b32"),
    "elect": (
        """%elected = nvvm.elect.sync -> i1
           %r = arith.extui %elected : i1 to i32""",
        "elect.sync",
    ),
    "inline_ptx": ('%r = nvvm.inline_ptx "popc.b32 {$w0}, {$r0};" ro(%ix : i32) -> i32', "popc.b32"),
    "shuffle": (
        """%mask = arith.constant -1 : i32
           %lane = arith.constant 1 : i32
           %clamp = arith.constant 31 : i32
           %r = nvvm.shfl.sync bfly %mask, %ix, %lane, %clamp : i32 -> i32""",
        "shfl.sync.bfly.b32",
    ),
    "vector bitcast": (
        """%v = vector.from_elements %hx, %hx : vector<2xf16>
           %w = vector.bitcast %v : vector<2xf16> to vector<1xi32>
           %r = vector.extract %w[0] : i32 from vector<1xi32>""",
        "st.global",
    ),
    "while": (
        """%r = scf.while (%s = %ix) : (i32) -> i32 {
             %more = arith.cmpi slt, %s, %iy : i32
             scf.condition(%more) %s : i32
           } do {
           ^bb0(%s: i32):
             %next = arith.muli %s, %s : i32
             scf.yield %next : i32
           }""",
        "mul.lo.s32",
    ),
}
OTHER = {
    "f32 to bf16": (
        """%r = arith.truncf %fx : f32 to bf16
           memref.store %r, %b[%tid] : memref<64xbf16>""",
        "cvt.rn.bf16.f32",
    ),
    "bf16": (
        """%r = arith.addf %bf, %bf : bf16
           memref.store %r, %b[%tid] : memref<64xbf16>""",
        "add.rn.bf16",
    ),
    "f32 to e4m3": (
        """%r = arith.truncf %fx : f32 to f8E4M3FN
           memref.store %r, %e[%tid] : memref<64xf8E4M3FN>""",
        "cvt.rn.satfinite.e4m3x2.f32",
    ),
    "f16 to e5m2": (
        """%r = arith.truncf %hx : f16 to f8E5M2
           memref.store %r, %g[%tid] : memref<64xf8E5M2>""",
        "cvt.rn.satfinite.e5m2x2.f32",
    ),
    "e4m3 to bf16": (
        """%r = arith.extf %ex : f8E4M3FN to bf16
           memref.store %r, %b[%tid] : memref<64xbf16>""",
        "cvt.rn.f16x2.e4m3x2",
    ),
    "e4m3 vector to f32": (
        """%v = vector.load %e[%c0] {alignment = 4} : memref<64xf8E4M3FN>, vector<4xf8E4M3FN>
           %r = arith.extf %v : vector<4xf8E4M3FN> to vector<4xf32>
           vector.store %r, %f[%c0] {alignment = 16} : memref<64xf32>, vector<4xf32>""",
        "cvt.rn.f16x2.e4m3x2",
    ),
    "e4m3 constant": (
        """%r = arith.constant 1.5 : f8E4M3FN
           memref.store %r, %e[%tid] : memref<64xf8E4M3FN>""",
        ", 60;",  # 0x3c: exponent 7, mantissa 4/8
    ),
    "aligned vector": (
        """%r = vector.load %f[%c0] {alignment = 16} : memref<64xf32>, vector<4xf32>
           vector.store %r, %f[%tid] {alignment = 16} : memref<64xf32>, vector<4xf32>""",
        "ld.global.v4.b32",
    ),
    "transfer": (
        """%pad = arith.constant 0.0 : f32
           %v = vector.transfer_read %f[%c0], %pad {in_bounds = [true]} : memref<64xf32>, vector<2xf32>
           vector.transfer_write %v, %f[%tid] {in_bounds = [true]} : vector<2xf32>, memref<64xf32>""",
        "ld.global.b32",
    ),
    "printf": ('gpu.printf "%d\\0A", %ix : i32', "vprintf"),
}

CASES = {
    **{name: (f"{body}\n{STORE_F32}", expected) for name, (body, expected) in F32.items()},
    **{name: (f"{body}\n{STORE_I32}", expected) for name, (body, expected) in I32.items()},
    **OTHER,
}


@pytest.mark.parametrize("name", CASES)
def test_an_op_becomes_its_instruction(name):
    body, expected = CASES[name]
    assert expected in with_defaults(ptx(launch(LOADS + body)))


def with_defaults(text):
    """LLVM 22 leaves out what PTX takes by default."""
    return text.replace("atom.global.", "atom.relaxed.gpu.global.")


def test_a_product_and_a_sum_are_not_contracted():
    text = ptx(launch(f"{LOADS} %q = arith.mulf %fx, %fy : f32\n %r = arith.addf %q, %fy : f32\n {STORE_F32}"))
    assert "mul.rn.f32" in text and "add.rn.f32" in text and "fma" not in text


def test_a_vector_access_without_alignment_is_split():
    """The op's alignment attribute is what makes it wide: MLIR promises an element's alignment without it."""
    text = ptx(
        launch("""%r = vector.load %f[%c1] : memref<64xf32>, vector<2xf32>
                  vector.store %r, %f[%tid] : memref<64xf32>, vector<2xf32>""")
    )
    assert text.count("ld.global.b32") == 2 and ".v2" not in text


ORDERED = f"""{LOADS}
      %address = memref.extract_aligned_pointer_as_index %i : memref<64xi32> -> index
      %integer = arith.index_cast %address : index to i64
      %pointer = llvm.inttoptr %integer : i64 to !llvm.ptr<1>
      %old = llvm.atomicrmw add %pointer, %ix acq_rel : !llvm.ptr<1>, i32
      %r = memref.atomic_rmw maxs %old, %i[%c1] : (i32, memref<64xi32>) -> i32
      {STORE_I32}"""


@pytest.mark.parametrize("written", [True, False])
def test_an_atomic_of_the_llvm_dialect_keeps_its_order(written, monkeypatch):
    if not written:  # as LLVM 22
        monkeypatch.setattr(atomics, "_orders_are_written", lambda: False)
    text = ptx(launch(ORDERED))
    assert ".acq_rel.sys.global.add.u32" in text and "global.max.s32" in text
    relaxed = ORDERED.replace("%ix acq_rel", '%ix syncscope("device") monotonic')
    assert "global.add.u32" in ptx(launch(relaxed))
    assert ".relaxed.sys.global.add.u32" in ptx(launch(ORDERED.replace("acq_rel", "monotonic")))


def test_an_order_that_the_backend_drops_and_ptx_lacks_is_refused(monkeypatch):
    monkeypatch.setattr(atomics, "_orders_are_written", lambda: False)
    with pytest.raises(LowerError, match=r"drops the order and the scope of llvm\.atomicrmw") as raised:
        ptx(launch(ORDERED.replace("atomicrmw add", "atomicrmw nand")))
    assert raised.value.where is not None


@pytest.mark.skipif(mlir.provider != mlir.DEFAULT_PROVIDER, reason="LLVM 22 takes a compare-and-swap of integers only")
def test_a_compare_and_swap_loop_is_relaxed():
    text = ptx(
        launch("""
      %r = memref.generic_atomic_rmw %f[%tid] : memref<64xf32> {
      ^bb0(%now: f32):
        %then = arith.mulf %now, %now : f32
        memref.atomic_yield %then : f32
      }""")
    )
    assert "atom.relaxed.gpu.global.cas.b32" in text


def test_wgmma_and_setmaxnreg():
    text = ptx(launch("      nvvm.setmaxregister increase 232\n" + wgmma(), block=128))
    assert text.count("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16") == 2
    assert "setmaxnreg.inc.sync.aligned.u32 \t232" in text
