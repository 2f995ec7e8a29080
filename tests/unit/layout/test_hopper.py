"""Hopper's layouts as the algebra states them, against formulas of their own, in the simulator and here."""

import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import errors
from nvdsl.layout import (
    FRAGMENT_ROWS,
    MMA_C,
    WGMMA_K_BYTES,
    Layout,
    Operand,
    TileLayout,
    a_fragment_element,
    accumulator_element,
    composition,
    matrix_rows,
    matrix_values,
    mma_a,
    mma_b,
    mma_c,
    right_inverse,
    tma_boxes,
    wgmma_a,
    wgmma_accumulator,
)
from nvdsl.sim import geometry, matrix
from tests.unit.layout.registers import a_fragment_to_matrix, accumulator_to_matrix


@pytest.mark.parametrize("n", [8, 24, 96, 256])
def test_accumulator(n):
    layout = wgmma_accumulator(n)
    numbers = np.arange(128 * (n // 2), dtype=np.int32).reshape(n // 2, 128)  # [register, thread]
    found = accumulator_to_matrix(numbers, n, "i32")
    row, col = layout(np.arange(128), np.arange(n // 2)[:, None])
    assert (found[row, col] == numbers).all()
    assert right_inverse(layout)(17, 9 % n) == found[17, 9 % n] // 128 * 128 + found[17, 9 % n] % 128


@pytest.mark.parametrize("n", [8, 64])
def test_accumulator_of_f16_has_two_values_in_a_register(n):
    layout = wgmma_accumulator(n)
    pairs = np.arange(64 * n, dtype=np.uint16).reshape(n // 4, 128, 2)  # [register, thread, half]
    found = accumulator_to_matrix(pairs.view(np.uint32)[..., 0], n, "f16").view(np.uint16)
    register, thread, half = np.ogrid[: n // 4, :128, :2]
    row, col = layout(thread, 2 * register + half)
    assert (found[row, col] == pairs).all()


@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_a_in_registers(itemsize):
    per = 4 // itemsize
    raw = np.arange(4 * 128 * per).reshape(4, 128, per)  # [register, thread, element]
    layout = wgmma_a(itemsize)
    register, thread, element = np.ogrid[:4, :128, :per]
    row, col = layout(thread, (element, register))
    assert sorted(zip((row + 0 * col).flat, (col + 0 * row).flat, strict=True)) == [
        (r, c) for r in range(64) for c in range(8 * per)
    ]
    if itemsize > 1:
        numbers = (raw % 512).astype(np.float16 if itemsize == 2 else np.float32)
        found = a_fragment_to_matrix(numbers.view(np.uint32)[..., 0], "f16" if itemsize == 2 else "f32")
        assert (found[row, col] == numbers).all()


def test_elements_are_those_of_the_layouts():
    for thread, register in itertools.product(range(0, 128, 9), range(32)):
        assert accumulator_element(thread, register) == wgmma_accumulator(64)(thread, register)
    for itemsize, thread, register in itertools.product((1, 2, 4), range(0, 128, 9), range(4)):
        assert a_fragment_element(thread, register, itemsize) == wgmma_a(itemsize)(thread, (0, register))


def test_a_warps_fragments_are_a_warpgroups_first():
    for itemsize in (1, 2, 4):
        lanes, values = wgmma_a(itemsize)
        assert composition(lanes, Layout(32)) == mma_a(itemsize)[0] and values == mma_a(itemsize)[1]
    acc = wgmma_accumulator(64)
    assert (composition(acc[0], Layout(32)), composition(acc[1], Layout((2, 2), (1, 2)))) == tuple(MMA_C)


def test_an_accumulator_packed_in_pairs_is_an_a_operand():
    """What FlashAttention does between its two products: 16 columns of sums are one step of A."""
    acc, a = wgmma_accumulator(64), wgmma_a(2)
    for thread, step, register, half in itertools.product((0, 37, 127), range(4), range(4), range(2)):
        row, col = a(thread, (half, register))
        assert acc(thread, 8 * step + 2 * register + half) == (row, 16 * step + col)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix(count, transpose):
    shared = np.arange(count * 64, dtype=np.uint16).view(np.uint8)
    lanes = np.arange(32)
    row, number = matrix_rows(count)(lanes)
    addresses = np.where(lanes < 8 * count, (number * 8 + row) * 16, 0)
    registers = matrix.ldmatrix(shared, addresses, count, transpose)
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(count, 32, 2)
    row, col = matrix_values(transpose=transpose)(lanes[:, None], np.arange(2))
    for i in range(count):
        assert (halves[i] == i * 64 + row * 8 + col).all()
    written = np.zeros_like(shared)
    matrix.stmatrix(written, addresses, registers, transpose)
    assert (written == shared).all()


@pytest.mark.parametrize(("swizzle", "cols"), [(0, 24), (16, 8), (32, 16), (64, 32), (128, 64), (128, 128)])
def test_the_epilogues_lanes_load_what_a_fragment_needs(swizzle, cols):
    """ldmatrix at FRAGMENT_ROWS gives each lane the registers of an A operand: 16 rows, 16 columns."""
    if cols < 16:
        return
    tile = TileLayout.of(64, cols, 2, swizzle)
    shared = np.zeros(tile.bytes, np.uint8)
    row, col = np.mgrid[:64, :cols]
    shared.view(np.uint16)[tile.as_layout()(row, col) // 2] = row * cols + col
    starts = composition(tile.as_layout(), FRAGMENT_ROWS)
    for warp in range(4):
        lanes = 32 * warp + np.arange(32)
        registers = matrix.ldmatrix(shared, starts(lanes), 4)
        row, col = wgmma_a(2)(lanes[None, :, None], (np.arange(2), np.arange(4)[:, None, None]))
        assert (np.ascontiguousarray(registers).view(np.uint16).reshape(4, 32, 2) == row * cols + col).all()


TILES = [(r, p, s, i) for r in (8, 24, 200) for p in (1, 3) for s in (0, 16, 32, 64, 128) for i in (1, 2, 4)]


@pytest.mark.parametrize(("rows", "panels", "swizzle", "itemsize"), TILES)
def test_tiles(rows, panels, swizzle, itemsize):
    """The algebra, `TileLayout.offset`, and the simulator's swizzle say where each element lies."""
    cols = panels * (swizzle or 48) // itemsize
    tile = TileLayout.of(rows, cols, itemsize, swizzle)
    row, col = np.mgrid[:rows, :cols]
    found = tile.as_layout()(row, col)
    assert (found == tile.offset(row, col)).all()
    byte, width = col * itemsize, tile.panel_bytes
    linear = byte // width * rows * width + row * width + byte % width
    assert (found == geometry.swizzled(linear, swizzle)).all()


def test_parts_of_a_tile():
    whole = TileLayout.of(128, 128, 2, 128)
    rows = whole.take_rows(16)
    part, offset = (whole.as_layout() / (16, 128)).slice((None, (3, 0)))
    for r, c in ((0, 0), (5, 70), (15, 127)):
        assert int(offset) + rows.offset(r, c) == whole.offset(48 + r, c) == part(r, c) + int(offset)
    assert str(TileLayout.of(8, 64, 2, 128).take_rows(4).as_layout()) == "(4,64):(X(0x90),X(0x2))"
    with pytest.raises(errors.LayoutError):
        TileLayout(12, 64, 2, 128, 12 * 128).as_layout()


@pytest.mark.parametrize(
    ("rows", "cols", "swizzle"), [(128, 64, 128), (128, 128, 128), (64, 64, 64), (64, 32, 32), (64, 16, 16)]
)
def test_steps_of_wgmma_walk_the_tile(rows, cols, swizzle):
    """An operand's offsets are the tile's: where the first element of each step lies."""
    tile = TileLayout.of(rows, cols, 2, swizzle)
    k_major, mn_major = Operand(tile, "k"), Operand(tile, "mn")
    layout, k = tile.as_layout(), WGMMA_K_BYTES // 2
    for step in range(cols // k):
        assert k_major.k_offset(step) == layout(0, step * k)
    for start in range(0, rows, 64):
        assert k_major.mn_offset(start) == layout(start, 0)
    for step in range(rows // k):
        assert mn_major.k_offset(step) == layout(step * k, 0)
    assert mn_major.mn_offset(tile.panel_cols) == (layout(0, tile.panel_cols) if tile.panels > 1 else tile.panel_stride)


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_what_a_descriptor_reads_lies_as_the_layout_says(swizzle, major):
    """The simulator decodes descriptors by the PTX ISA's formulas; the verifier knows their stride."""
    rows, cols = (64, 2 * swizzle // 2) if major == "k" else (32, max(64, swizzle // 2))
    tile = TileLayout.of(rows, cols, 2, swizzle)
    shared = np.zeros(tile.bytes, np.uint8)
    row, col = np.mgrid[:rows, :cols]
    shared.view(np.float16)[tile.as_layout()(row, col) // 2] = numbers = (row * cols + col) % 2048
    operand = Operand(tile, major)
    for step in range((cols if major == "k" else rows) // 16):
        descriptor = operand.descriptor_constant() | operand.k_offset(step) >> 4
        found = matrix.read_operand(shared, descriptor, 64, "f16", major)
        part = numbers[:64, step * 16 :][:, :16] if major == "k" else numbers[step * 16 :][:16, :64].T
        assert (found == part).all()
    if swizzle > 16:
        assert operand.stride_bytes == 8 * swizzle == tile.as_layout()(8, 0)


@pytest.mark.parametrize(("rows", "cols", "swizzle"), [(128, 128, 128), (64, 24, 0), (200, 96, 64)])
def test_boxes_of_tma(rows, cols, swizzle):
    tile = TileLayout.of(rows, cols, 2, swizzle)
    boxes = tma_boxes(tile)
    assert boxes.shape == (tile.panel_cols, rows, tile.panels)
    every = np.arange(boxes.size)
    row, col = boxes(every)
    assert sorted(row * cols + col) == list(every)
    # what TMA writes next lies next, before it permutes the units
    panel, within = col // tile.panel_cols, col % tile.panel_cols
    assert (2 * every == panel * tile.panel_stride + row * tile.panel_bytes + 2 * within).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: wgmma_accumulator(12), "n is a multiple of 8"),
        (lambda: wgmma_a(8), "1, 2 or 4 bytes"),
        (lambda: mma_a(0), "1, 2, 4 or 8 bytes"),
        (lambda: mma_a(2, 20), "k is a multiple of 8"),
        (lambda: mma_a(2, 16, 24), "m is 8, or a multiple of 16"),
        (lambda: mma_b(1, 32, 12), "n is a multiple of 8"),
        (lambda: mma_c(20, 8), "m is 8, or a multiple of 16"),
        (lambda: mma_c(16, 12), "n is a multiple of 8"),
        (lambda: mma_c(16, 8.0), "n is a multiple of 8"),
        (lambda: matrix_rows(3), "1, 2 or 4"),
    ],
)
def test_extents_that_are_no_whole_fragments(make, said):
    """They were rounded down without a word."""
    with pytest.raises(nv.LayoutError) as caught:
        make()
    assert said in caught.value.rule and caught.value.where.file == __file__
