"""Accumulators: their registers, and the wgmmas that a product becomes."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import defining, find
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from tests.unit.kernels import inline_ptx, kernel_ops, position, refused_body, trace

WGMMA, FENCE = "nvvm.wgmma.mma_async", "nvvm.wgmma.fence.aligned"
COMMIT = "nvvm.wgmma.commit.group.sync.aligned"


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
        acc = acc.mma(A, B.T, commit=False)

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
    assert not inline_ptx(module, "touch")


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
    (struct,), fields = touch.operands, []
    while (insert := defining(struct)).name == "llvm.insertvalue":
        assert list(insert.attributes["position"]) == [len(llvm.StructType(struct.type).body) - 1 - len(fields)]
        fields.append(insert.operands[1])
        struct = insert.operands[0]
    return fields[::-1]


def test_scale_d_may_be_known_on_the_device_only():
    """It holds for the first step: the others add to what it made."""

    def body(keep):
        A, B = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        acc = acc.mma(A, B, scale_d=keep != 0)

    module = trace(body, 1)
    (first,) = inline_ptx(module, "wgmma")
    assert "m64n16k16.f32.f16.f16" in str(first.attributes["asm_string"])
    assert scales_d(module) == [True] * 3
    assert len(inline_ptx(module, "touch")) == 1, "the zeros that scale-d may keep"


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
    opaque = [position(module, op) for op in inline_ptx(module, "touch")]
    fences = [i for i, name in enumerate(names) if name == FENCE]
    assert any(scaled < i < fences[1] for i in opaque)


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
