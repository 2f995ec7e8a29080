"""Accumulators: registers, the wgmmas that a product becomes, and where each register's element goes."""

import itertools

import pytest

import nvdsl as nv
from nvdsl.layout import a_fragment_element, accumulator_element
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.tile import Product
from nvdsl.verify.evaluate import evaluate
from nvdsl.verify.walk import constant, defining, find
from tests.unit.kernels import array, kernel_ops, refused_body, trace

WGMMA, FENCE = "nvvm.wgmma.mma_async", "nvvm.wgmma.fence.aligned"
COMMIT, WAIT = "nvvm.wgmma.commit.group.sync.aligned", "nvvm.wgmma.wait.group.sync.aligned"


def ptx(module, name):
    """The inline PTX ops of that name in the registry."""
    return [op for op in find(module, "llvm.inline_asm") if op.attributes["nvdsl.ptx"].value == name]


def scales_d(module):
    """scale-d of each wgmma, in order."""
    return ["one" in str(op.attributes["scaleD"]) for op in find(module, WGMMA)]


# --- registers ---------------------------------------------------------------------------------------


def test_registers_of_every_width_and_type():
    """A warpgroup's 128 threads share 64 x n elements: n / 2 registers each, and half as many for pairs of f16."""

    def body():
        for n in range(8, 257, 8):
            for dtype, name, count in ((nv.f32, "f32", n // 2), (nv.i32, "i32", n // 2), (nv.f16, "i32", n // 4)):
                acc = nv.accumulator(64, n, dtype)
                assert (acc.shape, acc.dtype) == ((64, n), dtype)
                for block in acc.blocks:
                    assert [str(t) for t in llvm.StructType(block.type).body] == [name] * count

    trace(body)


@pytest.mark.parametrize("dtype", [nv.f32, nv.f16, nv.i32], ids=str)
def test_a_thread_reads_n_half_elements(dtype):
    def body():
        registers = nv.accumulator(128, 24, dtype).registers()
        assert [[x.dtype for x in values] for values in registers] == [[dtype] * 12] * 2

    trace(body)


@pytest.mark.parametrize(
    ("m", "n", "dtype"),
    [(0, 8, nv.f32), (96, 8, nv.f32), (-64, 8, nv.f32), (64, 0, nv.f32), (64, 12, nv.f32), (64, 264, nv.f32)]
    + [(64, 8, dtype) for dtype in (nv.f64, nv.bf16, nv.i8, nv.u32)],
)
def test_accumulators_that_do_not_exist_are_refused(m, n, dtype):
    def body():
        nv.accumulator(m, n, dtype)

    refused_body(body)


# --- A @ B ---------------------------------------------------------------------------------------------


def test_a_product_is_fence_wgmmas_commit():
    """128 x 128 x 64 f16: two blocks of 64 rows, four steps of 16."""

    def body():
        A, B = nv.smem((128, 64), nv.f16, swizzle=128), nv.smem((64, 128), nv.f16, swizzle=128)
        acc = nv.accumulator(128, 128)
        acc += A @ B

    names = [n for n in kernel_ops(trace(body)) if n.startswith("nvvm.wgmma")]
    assert names == [FENCE, *[WGMMA] * 8, COMMIT]


def test_groups_can_be_left_open():
    def body():
        A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((8, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 8)
        acc.mma(A, B.T, commit=False)

    module = trace(body)
    assert len(find(module, WGMMA)) == 1
    assert not find(module, COMMIT)


@pytest.mark.parametrize(
    ("dtype", "acc", "shape"),
    [
        (nv.f16, nv.f32, (64, 32, 16)),
        (nv.bf16, nv.f32, (64, 32, 16)),
        (nv.f32, nv.f32, (64, 32, 8)),
        (nv.e4m3, nv.f16, (64, 32, 32)),
        (nv.u8, nv.i32, (64, 32, 32)),
    ],
    ids=str,
)
def test_one_wgmma_consumes_32_bytes_of_k(dtype, acc, shape):
    def body():
        A, B = (nv.smem((64, 64 // dtype.bytes), dtype, swizzle=64) for _ in range(2))
        sums = nv.accumulator(64, 32, acc)
        sums += A @ B.rows(0, 32).T

    ops = find(trace(body), WGMMA)
    assert len(ops) == 2
    assert str(ops[0].attributes["shape"]) == "#nvvm.shape<m = {}, n = {}, k = {}>".format(*shape)


def test_a_sum_in_straight_line_code_starts_without_zeros():
    def body():
        A, B = nv.smem((128, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
        acc = nv.accumulator(128, 64)
        acc += A @ B
        acc += A @ B

    module = trace(body)
    assert scales_d(module) == [False] * 2 + [True] * 6 + [True] * 8
    first = find(module, WGMMA)[0]
    assert defining(first.operands[0]).name == "llvm.mlir.undef"
    assert not ptx(module, "touch")


def test_a_carried_sum_starts_with_zeros():
    def body(n):
        A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((16, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        for _ in nv.range(n):
            acc += A @ B
        nv.wgmma_wait(0)
        acc.registers()

    module = trace(body, 3)
    (loop,) = find(module, "scf.for")
    zeros = defining(loop.operands[3])
    assert zeros.attributes["nvdsl.ptx"].value == "touch"
    assert [ir.FloatAttr(defining(x).attributes["value"]).value for x in touched_fields(zeros)] == [0.0] * 8
    assert scales_d(module) == [True]


def touched_fields(touch):
    """What was packed into the struct that an opaque copy was made of."""
    fields = []
    for extract in map(defining, touch.operands):
        position = list(extract.attributes["position"])
        insert = defining(extract.operands[0])
        while list(insert.attributes["position"]) != position:
            insert = defining(insert.operands[0])
        fields.append(insert.operands[1])
    return fields


def test_scale_d_may_be_known_on_the_device_only():
    """It holds for the first step: the others add to what it made."""

    def body(keep):
        A, B = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        acc = acc.mma(A, B, scale_d=keep != 0)

    module = trace(body, 1)
    (first,) = ptx(module, "wgmma")
    assert "m64n16k16.f32.f16.f16" in str(first.attributes["asm_string"])
    assert scales_d(module) == [True] * 3
    assert len(ptx(module, "touch")) == 1, "the zeros that scale-d may keep"


def test_arithmetic_before_a_product_cannot_pass_its_fence():
    def body():
        A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((16, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        acc += A @ B
        nv.wgmma_wait(0)
        acc = acc.map(lambda x: x * 2.0)
        acc += A @ B

    module = trace(body)
    names = kernel_ops(module)
    scaled = len(names) - 1 - names[::-1].index("arith.mulf")
    opaque = [i for i, op in enumerate(top(module)) if op in map(hash_of, ptx(module, "touch"))]
    fences = [i for i, name in enumerate(names) if name == FENCE]
    assert any(scaled < i < fences[1] for i in opaque)


def hash_of(op):
    return hash(op.results[0])


def top(module):
    (launch,) = find(module, "gpu.launch")
    return [hash(op.results[0]) if len(op.results) else None for op in launch.regions[0].blocks[0].operations]


# --- descriptors -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("added", [1.0, nv.f32], ids=["a number", "a traced value"])
def test_an_accumulator_takes_products_only(added):
    def body():
        acc = nv.accumulator(64, 16)
        acc += added if added == 1.0 else nv.f32(1.0)

    assert "product" in refused_body(body).rule


def test_a_product_is_not_computed_before_it_is_added():
    def body():
        product = nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem((64, 64), nv.f16, swizzle=128)
        assert isinstance(product, Product)

    assert kernel_ops(trace(body)) == []


# --- reading ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [nv.f32, nv.f16], ids=str)
def test_elements_cover_the_tile_once(dtype):
    found = []

    def body():
        found.extend(nv.accumulator(128, 24, dtype).elements())

    trace(body)
    every = [(evaluate(row, t), evaluate(col, t)) for t in range(128) for row, col, _ in found]
    assert sorted(every) == [(r, c) for r in range(128) for c in range(24)]


def test_elements_count_from_the_warpgroups_own_first_thread():
    found = []

    def body():
        found.extend(nv.accumulator(64, 8).elements())

    trace(body, block=256)
    here, there = ([(evaluate(r, t), evaluate(c, t)) for r, c, _ in found] for t in (37, 128 + 37))
    assert here == there == [accumulator_element(37, i) for i in range(4)]


def stored(module):
    """{(row, col): times} over all 128 threads, from the addresses of the stores."""
    cells = {}
    for op in find(module, "vector.store", "memref.store"):
        width = ir.VectorType(op.operands[0].type).shape[0] if op.name == "vector.store" else 1
        for t in range(128):
            row, col = (evaluate(x, t) for x in list(op.operands)[2:4])
            for i in range(width):
                cells[row, col + i] = cells.get((row, col + i), 0) + 1
    return cells


@pytest.mark.parametrize(
    ("start", "strides", "paired"),
    [
        ((0, 0), None, True),
        ((64, 6), None, True),
        ((8, 3), None, False),
        ((0, 0), (65, 1), False),
        ((0, 0), (1, 256), False),
    ],
)
def test_store_writes_each_element_once(start, strides, paired):
    """Pairs of neighbours in one access, where rows are contiguous and the pairs aligned."""

    def body(out):
        nv.accumulator(128, 16).store(out, start)

    module = trace(body, array(nv.f32, 256, 64, strides=strides))
    top, left = start
    assert stored(module) == {(top + r, left + c): 1 for r in range(128) for c in range(16)}
    assert bool(find(module, "vector.store")) == paired
    assert bool(find(module, "memref.store")) != paired


@pytest.mark.parametrize(
    ("acc", "out", "op"),
    [
        (nv.f32, nv.f16, "nvvm.convert.f32x2.to.f16x2"),
        (nv.f32, nv.bf16, "nvvm.convert.f32x2.to.bf16x2"),
        (nv.f32, nv.f64, "arith.extf"),
        (nv.f16, nv.f32, "arith.extf"),
        (nv.i32, nv.i8, "arith.trunci"),
        (nv.i32, nv.f32, "arith.sitofp"),
    ],
    ids=str,
)
def test_store_converts(acc, out, op):
    def body(x):
        nv.accumulator(64, 8, acc).store(x, (0, 0))

    module = trace(body, array(out, 64, 8))
    assert find(module, op)
    assert len(stored(module)) == 64 * 8


def test_map_computes_on_every_element():
    def body():
        acc = nv.accumulator(128, 16).map(lambda x: nv.max(x, 0.0))
        assert (acc.shape, acc.dtype) == ((128, 16), nv.f32)
        assert len(acc.blocks) == 2

    assert len(find(trace(body), "arith.maximumf", "arith.maxnumf")) == 16


def test_map_keeps_the_accumulators_type():
    def body():
        acc = nv.accumulator(64, 16, nv.f16).map(lambda x: nv.f32(x) * 2.0)
        assert [str(t) for t in llvm.StructType(acc.blocks[0].type).body] == ["i32"] * 4

    module = trace(body)
    assert len(find(module, "arith.truncf")) == 8 or len(find(module, "nvvm.convert.f32x2.to.f16x2")) == 4


def test_a_fragment_holds_what_the_next_wgmma_reads():
    """Register r of step s packs accumulator registers 8 s + 2 r and the one after: the same elements."""
    for t, step, r in itertools.product(range(128), range(4), range(4)):
        row, col = a_fragment_element(t, r, 2)
        assert accumulator_element(t, 8 * step + 2 * r) == (row, 16 * step + col)
        assert accumulator_element(t, 8 * step + 2 * r + 1) == (row, 16 * step + col + 1)

    def body():
        fragment = nv.accumulator(128, 64).fragment(nv.bf16)
        assert (fragment.shape, fragment.dtype) == ((128, 64), nv.bf16)
        assert [[len(step) for step in block] for block in fragment.registers] == [[4] * 4] * 2
        assert {str(x.type) for block in fragment.registers for step in block for x in step} == {"i32"}
        B = nv.smem((64, 32), nv.bf16, swizzle=64)
        acc = nv.accumulator(128, 32)
        acc += fragment @ B

    module = trace(body)
    assert len(ptx(module, "wgmma")) == 4 * 2


@pytest.mark.parametrize(("n", "dtype"), [(24, nv.f16), (8, nv.bf16), (64, nv.f32), (64, nv.e4m3), (64, nv.i16)])
def test_fragments_that_no_wgmma_reads_are_refused(n, dtype):
    def body():
        nv.accumulator(64, n).fragment(dtype)

    refused_body(body)


def test_reads_stay_behind_the_wait():
    def body():
        A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((16, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.registers()

    module = trace(body)
    names = kernel_ops(module)
    (touch,) = ptx(module, "touch")
    assert top(module).index(hash_of(touch)) > names.index(WAIT)


# --- carrying ----------------------------------------------------------------------------------------------


def test_a_loop_carries_the_blocks():
    def body(n):
        A, B = nv.smem((128, 16), nv.f16, swizzle=32), nv.smem((16, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(128, 16)
        for _ in nv.range(n):
            acc += A @ B
        assert (acc.m, acc.n, acc.dtype) == (128, 16, nv.f32)

    (loop,) = find(trace(body, 3), "scf.for")
    assert [str(r.type) for r in loop.results] == [f"!llvm.struct<({', '.join(['f32'] * 8)})>"] * 2


def test_an_if_merges_the_blocks():
    def body(n):
        A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((16, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        if n > 3:
            acc += A @ B
        assert acc.shape == (64, 16)
        nv.wgmma_wait(0)
        acc.registers()

    (branch,) = find(trace(body, 3), "scf.if")
    assert len(branch.results) == 1
