"""Operands and sums of a warp: which instruction loads and stores them, their elements, and what is refused."""

# ruff: noqa: F821  (the axes' names are no forward references)

import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.layout import E, Layout, mma_a, mma_b, mma_c
from tests.unit.kernels import array, refused, refused_body, trace


def count(body, name, *arguments):
    return len(find(trace(body, *arguments, block=32), name))


@pytest.mark.parametrize(
    ("cols", "swizzle", "start", "matrices"),
    [
        (64, 128, (0, 16), 1),
        (24, 0, (0, 8), 1),  # rows of 48 bytes
        (20, 0, (0, 0), 0),  # rows of 40 bytes
        (64, 128, (0, 4), 0),  # column 4 is in the middle of a matrix's row
    ],
)
def test_ldmatrix_where_rows_of_16_bytes_allow_it(cols, swizzle, start, matrices):
    def body():
        nv.load_a(nv.smem((16, cols), nv.f16, swizzle=swizzle), start, (16, 16))

    assert count(body, "nvvm.ldmatrix") == matrices
    assert count(body, "vector.load") == (0 if matrices else 4)


def test_a_traced_start_that_is_a_multiple():
    def body(step):
        def kernel():
            tile = nv.smem((16, 64), nv.f16, swizzle=128)
            for k in nv.range(0, 64, step):
                nv.load_a(tile, (0, k), (16, 16))

        return kernel

    assert count(body(16), "nvvm.ldmatrix") == 1
    assert count(body(2), "nvvm.ldmatrix") == 0
    assert count(body(2), "vector.load") == 4
    assert count(body(1), "vector.load") == 0


def test_a_column_that_nothing_is_known_of():
    def body(where, using):
        def kernel(x):
            nv.load_a(nv.smem((16, 64), nv.f16, swizzle=128), (0, where(x)), (16, 16), using=using)

        return kernel

    error = refused_body(body(lambda x: x[0], "ldmatrix"), array(nv.i32, 1))
    assert "rows start at multiples of 2 bytes as far as is known while tracing, not of 16" in str(error)
    assert count(body(lambda x: x[0] * 8, "ldmatrix"), "nvvm.ldmatrix", array(nv.i32, 1)) == 1


def test_parts_of_tiles():
    def body(first):
        def kernel():
            nv.load_a(nv.smem((16, 64), nv.f16)[:, first : first + 16])

        return kernel

    assert count(body(8), "nvvm.ldmatrix") == 1
    assert count(body(4), "nvvm.ldmatrix") == 0
    assert count(body(4), "vector.load") == 4
    assert count(body(3), "vector.load") == 0


def test_a_stage_of_a_stack():
    def body(x):
        nv.load_a(nv.smem((3, 16, 64), nv.f16, swizzle=128)[x[0]], using="ldmatrix")

    assert count(body, "nvvm.ldmatrix", array(nv.i32, 1)) == 4


def test_arrays_whose_rows_lie_anywhere():
    def kernel(x):
        nv.load_a(x, (0, 0), (16, 16))

    for strides, vectors in (((40, 1), 4), ((41, 1), 0), ((1, 16), 0)):
        assert count(kernel, "vector.load", array(nv.f16, 16, 16, strides=strides)) == vectors

    def odd(x):
        nv.load_a(x[:, 1:17])

    assert count(odd, "vector.load", array(nv.f16, 16, 32)) == 0

    def rows(x):
        nv.load_a(x[nv.block_id.x * 16 : nv.block_id.x * 16 + 16, 8:24])

    assert count(rows, "vector.load", array(nv.f16, 32, 64)) == 4
    assert count(rows, "vector.load", array(nv.f16, 32, 33)) == 0


def test_arrays_of_dynamic_extents():
    @nv.jit
    def product(a: nv.Array["m", "k % 8"], d: nv.Array["m", 8]):
        @nv.kernel(grid=nv.cdiv(a.shape[0], 16), block=32)
        def kernel():
            row = nv.block_id.x * 16
            acc = nv.warp_accumulator(16, 8)
            acc += nv.load_a(a, (row, 0), (16, 16)) @ nv.load_b(a, (row, 0), (16, 8))
            acc.store(d, (row, 0))

        kernel()

    text = str(product.trace(nv.ShapeDtype((32, 16), nv.f16), nv.ShapeDtype((32, 8), nv.f32)))
    assert text.count("vector.load") == 4 and text.count("nvvm.mma.sync") == 1


def test_global_memory_is_read_by_vectors():
    def body(x):
        nv.load_b(x, (0, 0), (32, 16))

    assert count(body, "nvvm.ldmatrix", array(nv.f16, 32, 16)) == 0
    assert count(body, "memref.load", array(nv.f16, 32, 16)) == 16  # neighbours along K are in different rows

    def turned(x):
        nv.load_a(x)

    assert count(turned, "vector.load", array(nv.f16, 16, 32)) == 8


def test_layouts():
    def body():
        tile = nv.smem((32, 64), nv.bf16, swizzle=128)
        a, b = nv.load_a(tile), nv.load_b(tile.T)
        assert a.layout == mma_a(2, 64, 32) and b.layout == mma_b(2, 64, 32)
        assert (a.shape, b.shape, len(a.registers), len(b.registers)) == ((32, 64), (64, 32), 32, 32)
        acc = nv.warp_accumulator(32, 32)
        acc += a @ b
        assert acc.layout == mma_c(32, 32)
        assert len(acc.registers()) == len(list(acc.elements())) == 32
        assert len(list(a.elements())) == 64

    assert count(body, "nvvm.mma.sync") == 2 * 4 * 4


REFUSED = {
    "columns": (lambda t: nv.load_a(t, (0, 0), (16, 12)), "K in steps of 8 for f16"),
    "rows": (lambda t: nv.load_a(t, (0, 0), (8, 16)), "A of mma.sync has a multiple of 16 rows"),
    "beyond": (lambda t: nv.load_a(t, (56, 0), (16, 16)), "a part lies within its tile or array"),
    "no such instruction": (lambda t: nv.load_a(t, using="tma"), "ldmatrix, vector, scalar"),
    "type": (lambda t: nv.load_a(nv.smem((16, 16), nv.i32)), "nv.load_a of i32"),
    "exchanged": (lambda t: acc().mma(nv.load_b(t, (0, 0), (16, 8)), t), "as A of a warp's product"),
    "shape": (lambda t: acc().mma(nv.load_a(t), nv.load_b(t, (0, 0), (32, 8))), "64 x 64 @ 32 x 8"),
    "types": (
        lambda t: acc().mma(nv.load_a(t), nv.load_b(nv.smem((64, 8), nv.bf16))),
        "no mma.sync multiplies f16 by bf16",
    ),
    "sums": (lambda t: nv.warp_accumulator(16, 8, nv.bf16), "accumulates in f32, f16, i32, f64"),
    "rows of sums": (lambda t: nv.warp_accumulator(24, 8), "M is a multiple of 16"),
    "store beyond": (lambda t: acc().store(t, (8, 0)), "a part lies within its tile or array"),
    "store without a place": (lambda t: nv.warp_accumulator(16, 8).store(t), "acc.store(tile, (row, col))"),
    "a tile": (lambda t: acc().__iadd__(t), "acc += a @ b"),
    "truth": (lambda t: bool(acc()), "truth value"),
    "fragment": (lambda t: acc().fragment(nv.f16), "16 columns a step"),
    "stmatrix of f32": (lambda t: acc().store(nv.smem((64, 8), nv.f32), using="stmatrix"), "8 rows of 16 bytes"),
    "a column within a row of a matrix": (lambda t: t.ldmatrix((0, 4)), "start at a multiple of 8 columns"),
    "matrices beyond": (lambda t: t.ldmatrix((56, 0)), "choose a row below 49"),
    "three matrices": (lambda t: t.ldmatrix((0, 0), 3), "moves 1, 2 or 4 matrices"),
    "matrices of a transposed view": (lambda t: t.T.ldmatrix((0, 0)), "name the tile itself"),
    "transposed f32": (lambda t: nv.smem((8, 8), nv.f32).ldmatrix((0, 0), 1, transpose=True), "16-bit elements"),
    "matrices in a curve": (
        lambda t: t.ldmatrix((0, 0), matrices=Layout(4, E(0, 2))),
        "a layout takes each matrix's number to the (row, column)",
    ),
    "too many registers": (lambda t: t.stmatrix([nv.i32(0)] * 3, (0, 0)), "moves 1, 2 or 4 matrices"),
    "a stack": (lambda t: nv.load_a(nv.smem((2, 16, 16), nv.f16)), "a tile in shared memory or an array of two axes"),
}


def acc():
    return nv.warp_accumulator(64, 8)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, says = REFUSED[name]

    def body():
        call(nv.smem((64, 64), nv.f16, swizzle=128))

    assert says in str(refused(lambda: trace(body, block=32), call, acc))


def test_half_a_warp():
    assert "a block of 16 threads" in str(refused_body(lambda: nv.warp_accumulator(16, 8), block=16))


def test_fragments_of_two_shapes_are_no_choice():
    def body(x):
        tile = nv.smem((32, 64), nv.f16, swizzle=128)
        held = nv.load_a(tile, (0, 0), (16, 32))
        if x[0] > 0:
            held = nv.load_a(tile, (0, 0), (32, 16))
        _ = nv.warp_accumulator(16, 8).mma(held, nv.load_b(tile.T, (0, 0), (32, 8)))

    with pytest.raises(nv.TraceError, match="`held` is used, but the `if`"):
        trace(body, array(nv.i32, 1), block=32)
