"""The operands of a product: matrix descriptors, layouts, and what wgmma does not take."""

import itertools

import pytest

import nvdsl as nv
from nvdsl.ir.walk import constant, defining, find
from nvdsl.lang.tile import Product
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import array, kernel_ops, refused_body, trace

WGMMA = "nvvm.wgmma.mma_async"


def descriptors(module):
    """(start address in bytes, constant bits, advance in bytes) of A and B of each wgmma."""
    return [tuple(map(decode, list(op.operands)[1:3])) for op in find(module, WGMMA)]


def decode(descriptor):
    advance = 0
    op = defining(descriptor)
    if op.name == "arith.addi":
        advance, op = constant(op.operands[1]), defining(op.operands[0])
    assert op.name == "arith.ori"
    bits = constant(op.operands[1]) & (1 << 64) - 1
    masked = defining(defining(op.operands[0]).operands[0])
    assert (masked.name, constant(masked.operands[1])) == ("arith.andi", 0x3FFF)
    shifted = defining(masked.operands[0])
    assert (shifted.name, constant(shifted.operands[1])) == ("arith.shrsi", 4)
    start = defining(shifted.operands[0])  # the address of the dynamic shared memory, plus the tile's offset
    offset = evaluate(start.operands[1], 0) if start.name == "arith.addi" else 0
    return offset, bits, advance * 16


# Matrix Descriptor Format: bits 16-29 LBO >> 4, bits 32-45 SBO >> 4, bits 62-63 the swizzle: 1 is 128, 2 is 64,
# 3 is 32 bytes, 0 is none. Computed by hand.
K_MAJOR = {128: 0x4000_0040_0001_0000, 64: 0x8000_0020_0001_0000, 32: 0xC000_0010_0001_0000, 16: 0x0000_0008_0080_0000}
MN_MAJOR = {128: 0x4000_0040_0200_0000, 64: 0x8000_0020_0100_0000, 32: 0xC000_0010_0080_0000, 16: 0x0000_0040_0008_0000}


@pytest.mark.parametrize("swizzle", [128, 64, 32, 16])
def test_descriptor_constants(swizzle):
    """A is 128 x 64 with K contiguous, B is 64 x 128 with N contiguous: f16."""

    def body():
        A, B = nv.smem((128, 64), nv.f16, swizzle=swizzle), nv.smem((64, 128), nv.f16, swizzle=swizzle)
        acc = nv.accumulator(128, 128)
        acc += A @ B

    module = trace(body)
    for (a_start, a_bits, _), (b_start, b_bits, _) in descriptors(module):
        assert (a_start, b_start) == (0, 128 * 64 * 2)
        assert (hex(a_bits), hex(b_bits)) == (hex(K_MAJOR[swizzle]), hex(MN_MAJOR[swizzle]))
    for op in find(module, WGMMA):
        assert ("row" in str(op.attributes["layoutA"]), "row" in str(op.attributes["layoutB"])) == (True, True)


def test_descriptors_advance_along_k_and_m():
    """128-byte swizzle: 32 bytes a step of K within a panel, 64 rows of 128 bytes to the second block of A; 16 rows
    of 128 bytes a step of K of B."""

    def body():
        A, B = nv.smem((128, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
        acc = nv.accumulator(128, 64)
        acc += A @ B

    advances = [(a[2], b[2]) for a, b in descriptors(trace(body))]
    assert advances == [(32 * k + 8192 * i, 2048 * k) for k in range(4) for i in range(2)]


def test_k_goes_on_in_the_next_panel():
    def body():
        A, B = nv.smem((64, 128), nv.f16, swizzle=128), nv.smem((32, 128), nv.f16, swizzle=128)
        acc = nv.accumulator(64, 32)
        acc += A @ B.T

    advances = [(a[2], b[2]) for a, b in descriptors(trace(body))]
    within = [0, 32, 64, 96]
    assert advances == [(x, x) for x in within] + [(64 * 128 + x, 32 * 128 + x) for x in within]


@pytest.mark.parametrize(("ta", "tb"), list(itertools.product([False, True], repeat=2)))
def test_transposed_tiles_change_the_layout_attributes(ta, tb):
    def body():
        A, B = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
        acc = nv.accumulator(64, 64)
        acc += (A.T if ta else A) @ (B.T if tb else B)

    op = find(trace(body), WGMMA)[0]
    # row is K-major for A, MN-major for B (a matrix that is stored by rows)
    assert ("col" in str(op.attributes["layoutA"]), "col" in str(op.attributes["layoutB"])) == (ta, tb)


def test_f32_tiles_are_multiplied_as_tf32():
    def body():
        A, B = nv.smem((64, 32), nv.f32, swizzle=128), nv.smem((16, 32), nv.f32, swizzle=128)
        acc = nv.accumulator(64, 16)
        acc += A @ B.T

    op = find(trace(body), WGMMA)[0]
    assert "tf32" in str(op.attributes["typeA"])
    assert "tf32" in str(op.attributes["typeB"])


def tiles(a, b, dtype, swizzle=128):
    return nv.smem(a, dtype, swizzle=swizzle), nv.smem(b, dtype, swizzle=swizzle)


REFUSED = {
    "M": (((128, 64), (64, 64), nv.f16), False, "shapes match"),
    "N": (((64, 64), (64, 128), nv.f16), False, "shapes match"),
    "K": (((64, 64), (128, 64), nv.f16), False, "shapes match"),
    "a dense tile": (((64, 64), (64, 64), nv.f16, 0), False, "core matrices"),
    "fp8 with N contiguous": (((64, 128), (128, 64), nv.e4m3, 64), False, "K-major"),
    "tf32 with N contiguous": (((64, 64), (64, 64), nv.f32), False, "K-major"),
    "a type that wgmma lacks": (((64, 64), (64, 64), nv.i16), True, "wgmma takes"),
}


@pytest.mark.parametrize(("operands", "transpose", "rule"), REFUSED.values(), ids=list(REFUSED))
def test_products_that_do_not_exist_are_refused(operands, transpose, rule):
    def body():
        A, B = tiles(*operands)
        acc = nv.accumulator(64, 64)
        acc += A @ (B.T if transpose else B)

    assert rule in refused_body(body).rule


def test_k_of_no_whole_step_is_refused():
    def body():
        A, B = nv.smem((64, 24), nv.f16, swizzle=16), nv.smem((24, 16), nv.f16, swizzle=16)
        acc = nv.accumulator(64, 16)
        acc += A @ B

    assert "multiple of 16" in refused_body(body).fix


def test_an_accumulator_takes_no_tile_for_a_product():
    def body():
        acc = nv.accumulator(64, 16)
        acc += nv.smem((64, 16), nv.f16)

    assert "product" in refused_body(body).rule


def test_a_product_is_not_computed_before_it_is_added():
    def body():
        product = nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem((64, 64), nv.f16, swizzle=128)
        assert isinstance(product, Product)

    assert kernel_ops(trace(body)) == []


def test_elements_of_a_choice_are_known_behind_it():
    """A choice that is no branch moves its ops out, and its block goes: what was computed there stays known."""

    def body(x):
        acc = nv.accumulator(64, 8).map(lambda _: x[1])
        square = acc * acc
        chosen = square * 2.0 if x[0] > 0.0 else square * 3.0
        (chosen + square).store(nv.smem((64, 8), nv.f32))

    assert find(trace(body, array(nv.f32, 4)), "arith.mulf")
