"""Tiles: where they are, how many bytes, and the traced address of every element."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.ir.walk import defining, find
from nvdsl.layout import ALIGNMENT, TileLayout
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import kernel_ops, refused_body, smem_bytes, trace

DTYPES = (nv.u8, nv.f16, nv.f32, nv.f64)


def swizzled(row, byte, rows, swizzle, panel_stride=None):
    """Byte offset of byte ``byte`` of row ``row``, as the figures of the PTX ISA ("Tensor swizzling modes") say:
    each row's 16-byte units are XORed with a number that counts rows of 128 bytes."""
    if swizzle == 0:
        raise AssertionError("dense tiles have no panels")
    panel, within = divmod(byte, swizzle)
    unit, rest = divmod(within, 16)
    pattern = {16: 0, 32: row // 4 % 2, 64: row // 2 % 4, 128: row % 8}[swizzle]
    return panel * (panel_stride or rows * swizzle) + row * swizzle + (unit ^ pattern) * 16 + rest


# --- allocation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("swizzle", [0, 16, 32, 64, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tile_starts_where_its_swizzle_starts(dtype, swizzle):
    cols = max(swizzle, 16) // dtype.bytes

    def body():
        nv.smem((3,), nv.u8)  # takes bytes 0..2
        tile = nv.smem((24, cols), dtype, swizzle=swizzle)
        assert tile.offset == ALIGNMENT[swizzle]
        assert (tile.shape, tile.bytes, tile.swizzle) == ((24, cols), 24 * cols * dtype.bytes, swizzle)

    trace(body)


def test_the_launch_asks_for_all_of_it():
    def body():
        nv.smem(10, nv.f32)  # 0..39
        nv.smem((8, 64), nv.f16, swizzle=128)  # 1024..2047
        nv.smem((3, 8, 32), nv.f16, swizzle=64)  # 2048..3583, 512 a stage
        nv.smem((1,), nv.u8)  # 3584

    assert smem_bytes(trace(body)) == 3585


def test_a_stage_takes_whole_multiples_of_the_alignment():
    def body():
        stack = nv.smem((4, 4, 64), nv.f16, swizzle=128)  # 512 bytes of data a stage
        assert (stack.shape, stack.bytes, stack.dtype, len(stack)) == ((4, 4, 64), 512, nv.f16, 4)
        assert [stack[i].offset for i in range(4)] == [0, 1024, 2048, 3072]

    assert smem_bytes(trace(body)) == 4096


def test_a_traced_stage_is_found_by_arithmetic():
    offsets = []

    def body():
        nv.smem((16,), nv.u8)
        stack = nv.smem((4, 8, 64), nv.f16, swizzle=128)
        offsets.append(stack[nv.thread_id.x % 4].offset)

    trace(body)
    assert [evaluate(offsets[0], t) for t in range(6)] == [1024, 2048, 3072, 4096, 1024, 2048]


def test_allocating_emits_nothing():
    def body():
        nv.smem((4, 64, 64), nv.f16, swizzle=128)
        nv.smem((64, 64), nv.f16).T.rows(8, 16)

    assert kernel_ops(trace(body)) == []


@pytest.mark.parametrize("shape", [(), (1, 2, 3, 4), (0, 64), (64, -1), (64, 64.0), "64"])
def test_shapes_that_are_refused(shape):
    def body():
        nv.smem(shape, nv.f16)

    assert "positive Python ints" in refused_body(body).rule


@pytest.mark.parametrize(
    ("cols", "dtype", "swizzle", "fix"),
    [
        (32, nv.f16, 128, "64 columns"),
        (96, nv.f16, 128, "64 columns"),
        (7, nv.f32, 16, "4 columns"),
        (64, nv.f16, 48, ""),
    ],
)
def test_rows_that_do_not_fill_the_swizzle_are_refused(cols, dtype, swizzle, fix):
    def body():
        nv.smem((8, cols), dtype, swizzle=swizzle)

    assert fix in refused_body(body).fix


def test_there_is_no_shared_memory_outside_of_a_kernel():
    with pytest.raises(nv.TraceError, match=r"nv\.smem was used outside"):
        nv.smem((8, 64), nv.f16)


# --- elements --------------------------------------------------------------------------------------


def traced_offsets(rows, cols, dtype, swizzle, part=lambda tile: tile):
    """Byte offset of element (row, col) of ``part(tile)``, from the address arithmetic that was traced."""

    def body():
        nv.smem((1,), nv.u8)  # the tile does not start at 0
        tile = part(nv.smem((rows, cols), dtype, swizzle=swizzle))
        height, width = tile.shape
        t = nv.thread_id.x
        if t < height * width:
            tile[t // width, t % width] = 0

    *_, view = find(trace(body), "memref.view")
    byte = view.operands[1]
    base = ALIGNMENT[swizzle]
    return lambda row, col, width: evaluate(byte, row * width + col) - base


@given(
    st.sampled_from(DTYPES),
    st.sampled_from([16, 32, 64, 128]),
    st.one_of(st.tuples(st.just(1), st.integers(1, 40)), st.tuples(st.integers(2, 3), st.sampled_from([8, 24, 64]))),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40)
def test_elements_lie_where_the_isa_says(dtype, swizzle, size, random):
    panels, rows = size  # several panels: the pattern starts anew with each where its rows are a multiple of 8
    cols = panels * swizzle // dtype.bytes
    offset = traced_offsets(rows, cols, dtype, swizzle)
    for _ in range(25):
        row, col = random.randrange(rows), random.randrange(cols)
        assert offset(row, col, cols) == swizzled(row, col * dtype.bytes, rows, swizzle), (row, col)


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 16, 32, 64, 128]),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_no_two_elements_share_a_byte_and_none_is_left_out(itemsize, swizzle, panels, eights):
    """Of 8, 16, ... 40 rows; where the last panel ends, the tile ends."""
    rows, cols = 8 * eights, panels * max(swizzle, 16) // itemsize
    layout = TileLayout.of(rows, cols, itemsize, swizzle)
    offsets = {layout.offset(row, col) for row in range(rows) for col in range(cols)}
    assert offsets == set(range(0, layout.bytes, itemsize))
    assert layout.bytes == rows * cols * itemsize


def test_elements_of_a_dense_tile_are_row_major():
    offset = traced_offsets(5, 7, nv.f32, 0)
    assert [offset(r, c, 7) for r in range(5) for c in range(7)] == list(range(0, 140, 4))


def test_elements_of_the_transposed_tile_are_the_same():
    offset = traced_offsets(16, 64, nv.f16, 128, part=lambda tile: tile.T)
    for row, col in ((0, 0), (63, 15), (9, 3), (40, 8)):
        assert offset(row, col, 16) == swizzled(col, 2 * row, 16, 128)


def test_elements_of_a_part_are_those_of_the_whole():
    rows = traced_offsets(32, 64, nv.f32, 128, part=lambda tile: tile.rows(8, 16))
    cols = traced_offsets(32, 64, nv.f32, 128, part=lambda tile: tile.cols(32, 32))
    for row, col in ((0, 0), (3, 50), (15, 63), (9, 32)):
        assert rows(row, col, 64) == swizzled(row + 8, 4 * col, 32, 128)
        assert cols(row, col % 32, 32) == swizzled(row, 4 * (col % 32 + 32), 32, 128)


def test_a_python_subscript_and_a_traced_one_give_one_address():
    def body():
        tile = nv.smem((16, 64), nv.f16, swizzle=128)
        tile[11, 37] = 1.0
        if nv.thread_id.x < 16:
            tile[nv.thread_id.x, nv.thread_id.x + 26] = 1.0

    fixed, traced = (view.operands[1] for view in find(trace(body), "memref.view"))
    assert evaluate(fixed, 0) == evaluate(traced, 11) == swizzled(11, 74, 16, 128)


@pytest.mark.parametrize("transposed", [False, True])
def test_elements_keep_their_dtype(transposed):
    def body():
        tile = nv.smem((8, 16), nv.u16)
        tile = tile.T if transposed else tile
        assert tile[0, 0].dtype is nv.u16
        tile[1, 1] = nv.i32(3)
        assert nv.f32(tile[1, 1]).dtype is nv.f32

    module = trace(body)
    assert find(module, "arith.trunci") and find(module, "arith.uitofp")


@pytest.mark.parametrize("key", [(8, 0), (0, 64), (-1, 0), (0, -1)])
def test_subscripts_outside_of_the_tile_are_refused(key):
    def body():
        nv.smem((8, 64), nv.f16)[key]

    assert str(key) in refused_body(body).message


def test_subscripts_of_the_transposed_tile_are_checked_by_its_own_shape():
    def body():
        tile = nv.smem((8, 64), nv.f16).T
        tile[63, 7]
        tile[7, 63]

    assert "(64, 8)" in refused_body(body).message


# --- parts -----------------------------------------------------------------------------------------


def test_rows_may_start_at_a_traced_row():
    offsets = []

    def body():
        tile = nv.smem((128, 128), nv.f16, swizzle=128).rows(nv.warpgroup_id() * 64, 64)
        assert (tile.shape, tile.bytes) == ((64, 128), 64 * 128 * 2)
        assert tile.layout.panel_stride == 128 * 128
        offsets.append(tile.offset)

    trace(body, block=256)
    assert [evaluate(offsets[0], t) for t in (0, 127, 128, 255)] == [0, 0, 64 * 128, 64 * 128]


PARTS = {
    "rows from the middle of a pattern": (lambda tile: tile.rows(4, 8), "multiple of 8"),
    "rows to the middle of a pattern": (lambda tile: tile.rows(8, 4), "multiple of 8"),
    "rows past the end": (lambda tile: tile.rows(56, 16), "within"),
    "more rows than there are": (lambda tile: tile.rows(nv.thread_id.x, 72), "within"),
    "rows before the start": (lambda tile: tile.rows(-8, 8), "within"),
    "no rows": (lambda tile: tile.rows(8, 0), "within"),
    "part of a panel": (lambda tile: tile.cols(0, 32), "whole panels"),
    "from within a panel": (lambda tile: tile.cols(32, 64), "whole panels"),
    "panels past the end": (lambda tile: tile.cols(64, 128), "within"),
    "no panels": (lambda tile: tile.cols(64, 0), "within"),
}


@pytest.mark.parametrize(("use", "rule"), PARTS.values(), ids=list(PARTS))
def test_parts_that_are_refused(use, rule):
    def body():
        use(nv.smem((64, 128), nv.f16, swizzle=128))

    with pytest.raises(nv.TraceError) as caught:
        trace(body)
    assert rule in caught.value.rule
    assert caught.value.where.file == __file__


@pytest.mark.parametrize("stage", [-1, 4])
def test_stages_that_do_not_exist_are_refused(stage):
    def body():
        nv.smem((4, 8, 64), nv.f16)[stage]

    assert "0 to 3" in refused_body(body).rule


def test_panels_are_what_one_box_fills():
    def body():
        tile = nv.smem((2, 32, 128), nv.f16, swizzle=64)[1]
        panel = tile.panel(3)
        assert (panel.shape, panel.strides) == ((32, 32), (32, 1))
        assert tile.panel(0, (4, 8, 32)).shape == (4, 8, 32)

    last, first = (evaluate(view.operands[1], 0) for view in find(trace(body), "memref.view"))
    assert first == 32 * 128 * 2
    assert last == first + 3 * 32 * 64


# --- what wgmma needs --------------------------------------------------------------------------------


def test_majors():
    def body():
        tile = nv.smem((64, 64), nv.f16, swizzle=128)
        assert tile.operand(0).major == "k", "A[m, k]: k runs along the rows"
        assert tile.operand(1).major == "mn", "B[k, n]: n does"
        assert tile.T.operand(0).major == "mn"
        assert tile.T.operand(1).major == "k"
        assert tile.T.T.operand(0).major == "k"

    trace(body)


def test_addresses_count_from_the_tile():
    results = []

    def body():
        nv.smem((1,), nv.u8)
        tile = nv.smem((16, 64), nv.f16, swizzle=128)
        results.extend([tile.address, tile.pointer(nv.thread_id.x * 16), tile.pointer()])

    trace(body)
    address, moved, fixed = map(defining, results)
    assert (address.name, evaluate(address.operands[1], 0)) == ("arith.addi", 1024)
    assert moved.name == fixed.name == "llvm.getelementptr"
    assert evaluate(moved.operands[1], 3) == 1024 + 48
    assert list(fixed.attributes["rawConstantIndices"]) == [1024]


def test_a_tile_says_what_it_is():
    def body():
        assert repr(nv.smem((16, 64), nv.f16, swizzle=128).T) == "Tile((64, 16), f16, swizzle=128)"

    trace(body)


def test_numpys_integers_are_as_good_as_pythons():
    """Where a number must be known while tracing, and as indices."""
    one, two, rows, cols = (np.int64(n) for n in (1, 2, 64, 32))

    def host(x):
        x_tma = nv.TMA(x, tile=(rows, cols), swizzle=64)

        @nv.kernel(grid=two, block=np.int32(128))
        def kernel():
            tiles, ring = nv.smem((two, rows, cols), x.dtype, swizzle=64), nv.Ring(two, bytes=64)
            full, state = nv.Mbarriers(two, arrivals=one)[one], nv.PipelineState(two)
            nv.setmaxnreg_dec(np.uint8(40))
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(np.int64(tiles[one].bytes))
                x_tma.load(tiles[one], full, (one, rows))
            full.wait(np.int64(0))
            nv.accumulator(rows, cols), nv.warp_accumulator(rows, cols)
            nv.cp_async_wait(one), nv.wgmma_wait(one), nv.bulk_wait_group(one)
            tiles[0][one, two] = nv.warp.sum(x[one, one] ** two, width=np.int64(16), mask=np.uint32(0xFFFFFFFF))
            assert len(tiles) == ring.stages == state.stages == 2 and type(tiles.shape[0]) is int

        kernel()

    nv.jit(host).trace(nv.ShapeDtype((64, 64), nv.f16))
