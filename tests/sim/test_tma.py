"""nvdsl.sim.tma against a model that moves one element at a time, nvdsl.layout, and what an H200 did."""

import itertools

import numpy as np
import pytest

from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.layout import TileLayout
from nvdsl.sim import geometry, numbers, tma

pytestmark = pytest.mark.usefixtures("warnings_off")

WIDTHS = {"none": 0, "swizzle_32b": 32, "swizzle_64b": 64, "swizzle_128b": 128}
NAMES = {width: name for name, width in WIDTHS.items()}

# PTX ISA, "Tensor swizzling modes": by row, which 16-byte unit holds each unit of the row.
UNITS = {
    "swizzle_128b": [
        "01234567",
        "10325476",
        "23016745",
        "32107654",
        "45670123",
        "54761032",
        "67452301",
        "76543210",
    ],
    "swizzle_64b": ["0123", "0123", "1032", "1032", "2301", "2301", "3210", "3210"],
    "swizzle_32b": ["01"] * 4 + ["10"] * 4,
}


def dense(element, shape, box, swizzle="none", oob="zero", pad=0):
    """The tensor map of an array whose rows are ``pad`` elements apart, and the array's bytes."""
    strides = [1]
    for i, size in enumerate(shape[:0:-1]):
        strides.append(strides[-1] * size + (pad if i == 0 else 0))
    tensor_map = TensorMap(element, tuple(shape), tuple(strides[::-1]), tuple(box), swizzle, oob=oob)
    assert tensor_map.check() == []
    size = strides[-1] * shape[0] * numbers.dtype(element).bytes
    return tensor_map, np.random.default_rng(0).integers(0, 120, size, np.uint8)


def place(tensor_map, address, index):
    """Where the element ``index`` (outermost first) of a box lies in shared memory, by the ISA's tables."""
    row = 0
    for i, size in zip(index[:-1], tensor_map.box[:-1], strict=True):
        row = row * size + i
    byte = index[-1] * numbers.dtype(tensor_map.element).bytes
    if tensor_map.swizzle == "none":
        return address + row * tensor_map.box[-1] * numbers.dtype(tensor_map.element).bytes + byte
    width = WIDTHS[tensor_map.swizzle]
    start = address + row * width
    table = UNITS[tensor_map.swizzle][start // width % 8]
    return start + int(table[byte // 16]) * 16 + byte % 16


def elements(tensor_map, coords):
    """(index in the box, byte offset in the tensor or None) of every element of a box."""
    for index in itertools.product(*map(range, tensor_map.box)):
        at = [c + i for c, i in zip(coords[::-1], index, strict=True)]
        inside = all(0 <= a < n for a, n in zip(at, tensor_map.shape, strict=True))
        item = numbers.dtype(tensor_map.element).bytes
        yield (
            index,
            sum(a * s for a, s in zip(at, tensor_map.strides, strict=True)) * item if inside else None,
        )


CASES = {
    "2d whole": (("f16", (20, 72), (8, 64), "swizzle_128b"), (8, 4), 2048),
    "2d clipped below": (("f16", (20, 72), (8, 64), "swizzle_128b"), (16, 15), 1024),
    "negative": (("f16", (20, 72), (8, 64), "swizzle_128b"), (-24, -3), 1024),
    "outside": (("f16", (20, 72), (8, 64), "swizzle_128b"), (72, 4), 1024),
    "far outside": (("f32", (20, 72), (4, 16), "none"), (-(2**31), 2**31 - 4), 128),
    "32 bytes": (("f32", (12, 40), (12, 8), "swizzle_32b"), (8, 0), 128 * 3),
    "64 bytes": (("bf16", (12, 40), (12, 32), "swizzle_64b"), (8, 0), 128 * 5),
    "128 bytes at an odd line": (("i8", (12, 128), (12, 128), "swizzle_128b"), (0, 0), 128 * 13),
    "narrow in 128": (("f16", (12, 40), (12, 16), "swizzle_128b"), (16, 0), 128 * 3),
    "narrow in 64": (("f64", (12, 40), (12, 2), "swizzle_64b"), (2, 1), 128 * 3),
    "narrow in 32, clipped": (("f8E4M3FN", (12, 32), (12, 16), "swizzle_32b"), (16, 6), 128 * 3),
    "no swizzle": (("f16", (12, 40), (5, 24), "none"), (16, 3), 128),
    "no swizzle, clipped": (("f16", (12, 40), (5, 24), "none"), (24, 9), 128),
    "1d": (("i64", (50,), (16,), "none"), (40,), 256),
    "3d": (("f16", (4, 6, 64), (2, 3, 64), "swizzle_128b"), (0, 2, 1), 128 * 9),
    "3d clipped": (("i32", (4, 6, 32), (2, 3, 32), "swizzle_128b"), (0, 5, 3), 1024),
    "5d": (("f32", (2, 3, 2, 4, 8), (2, 1, 2, 3, 8), "swizzle_32b"), (0, 2, 0, 1, 0), 1024),
}


@pytest.mark.parametrize("name", CASES)
class TestAgainstOneElementAtATime:
    def test_load(self, name):
        spec, coords, address = CASES[name]
        tensor_map, source = dense(*spec)
        item = numbers.dtype(spec[0]).bytes
        smem = np.full(8192, 0xEE, np.uint8)
        expected, base = smem.copy(), 48
        for index, offset in elements(tensor_map, coords):
            where = place(tensor_map, address, index)
            expected[where : where + item] = 0 if offset is None else source[offset : offset + item]
        tma.load(np.concatenate([np.zeros(base, np.uint8), source]), base, smem, address, tensor_map, coords)
        assert np.array_equal(smem, expected)

    def test_footprints(self, name):
        spec, coords, address = CASES[name]
        tensor_map, source = dense(*spec)
        item = numbers.dtype(spec[0]).bytes
        shared, taken = np.zeros(8192, bool), np.zeros(len(source), bool)
        for index, offset in elements(tensor_map, coords):
            where = place(tensor_map, address, index)
            shared[where : where + item] = True
            if offset is not None:
                taken[offset : offset + item] = True
        for expected, ranges in (
            (shared, tma.footprint(tensor_map, coords, address)),
            (taken, tma.global_footprint(tensor_map, coords)),
        ):
            starts = np.flatnonzero(np.diff(expected.astype(int), prepend=0) == 1).tolist()
            stops = np.flatnonzero(np.diff(expected.astype(int), append=0) == -1) + 1
            assert ranges == list(zip(starts, stops.tolist(), strict=True))  # maximal, in order

    def test_pieces(self, name):
        spec, coords, address = CASES[name]
        tensor_map, _ = dense(*spec)
        copy = tma.boxes(tensor_map, coords, address)
        item = numbers.dtype(spec[0]).bytes
        assert copy.item == item
        assert copy.bytes == item * np.prod(tensor_map.box)
        assert copy.bytes == copy.run * len(copy.smem_offsets)
        per = copy.run // item
        for i, (index, offset) in enumerate(elements(tensor_map, coords)):
            piece, within = divmod(i, per)
            assert copy.inside[piece] == (offset is not None)
            assert address + copy.smem_offsets[piece] + within * item == place(tensor_map, address, index)
            if offset is not None:
                assert copy.global_offsets[piece] + within * item == offset


@pytest.mark.parametrize("name", [name for name, (_, coords, _) in CASES.items() if min(coords) >= 0])
def test_store_against_one_element_at_a_time(name):
    spec, coords, address = CASES[name]
    tensor_map, target = dense(*spec)
    smem = np.random.default_rng(1).integers(0, 256, 8192, np.uint8)
    item = numbers.dtype(spec[0]).bytes
    expected, used = target.copy(), np.zeros(8192, bool)
    for index, offset in elements(tensor_map, coords):  # rows here are multiples of 16 bytes
        if offset is not None:
            where = place(tensor_map, address, index)
            expected[offset : offset + item] = smem[where : where + item]
            used[where : where + item] = True
    tma.store(target, 0, smem, address, tensor_map, coords)
    assert np.array_equal(target, expected)
    clipped = tma.footprint(tensor_map, coords, address, clipped=True)
    assert sum(stop - start for start, stop in clipped) == used.sum()
    assert all(used[start:stop].all() for start, stop in clipped)


@pytest.mark.parametrize("swizzle", [0, 16, 32, 64, 128])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_tiles_of_the_layout_come_and_go(swizzle, itemsize):
    cols = 3 * (swizzle or 64) // itemsize
    layout = TileLayout.of(48, cols, itemsize, swizzle)
    shape = (100, 2 * cols + 16)
    element = {1: "i8", 2: "f16", 4: "f32"}[itemsize]
    box = (48, layout.panel_cols)
    tensor_map, source = dense(element, shape, box, NAMES.get(swizzle, "none"))
    array = source.view(f"u{itemsize}").reshape(shape)
    smem, address = np.zeros(32768, np.uint8), layout.alignment * 3
    for panel in range(layout.panels):
        at = (16 + panel * layout.panel_cols, 7)
        tma.load(source, 0, smem, address + panel * layout.panel_stride, tensor_map, at)
    rows, cols_ = np.indices((48, cols))
    where = (address + layout.offset(rows, cols_)) // itemsize
    assert np.array_equal(smem.view(array.dtype)[where], array[7:55, 16 : 16 + cols])
    back = np.zeros_like(source)
    for panel in range(layout.panels):
        at = (16 + panel * layout.panel_cols, 7)
        tma.store(back, 0, smem, address + panel * layout.panel_stride, tensor_map, at)
    expected = np.zeros_like(array)
    expected[7:55, 16 : 16 + cols] = array[7:55, 16 : 16 + cols]
    assert np.array_equal(back.view(array.dtype).reshape(shape), expected)


def test_rows_may_overlap():
    window = TensorMap("f16", (4, 16), (8, 1), (4, 16))  # each row starts where the last one's half is
    assert window.check() == []
    source = np.arange(40, dtype=np.uint16)
    smem = np.zeros(256, np.uint8)
    tma.load(source.view(np.uint8), 0, smem, 128, window, (0, 0))
    assert smem[128:].view(np.uint16).reshape(4, 16)[:, 0].tolist() == [0, 8, 16, 24]
    assert tma.global_footprint(window, (0, 0)) == [(0, 80)]


# --- out of bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "fill"),
    [
        ("f16", 0x7FF7),
        ("bf16", 0x7FF7),
        ("f32", 0x7FF77FF7),
        ("tf32", 0x7FF77FF7),
        ("f64", 0x7FF77FF77FF77FF7),
    ],
)
def test_nan_fill_has_an_h200s_bits(element, fill):
    tensor_map, source = dense(element, (4, 16), (2, 16), oob="nan")
    smem = np.zeros(1024, np.uint8)
    tma.load(source, 0, smem, 0, tensor_map, (8, 0))
    item = numbers.dtype(element).bytes
    found = smem[: 2 * 16 * item].view(f"u{item}").reshape(2, 16)
    assert (found[:, 8:] == fill).all() and not (found[:, :8] == fill).any()
    assert np.isnan(found[:, 8:].view(numbers.dtype(element).numpy).astype(np.float64)).all()


def test_loads_clip_rows_to_elements_and_stores_to_16_bytes():
    # Measured on an H200: rows of 242 f16 (484 bytes) are stored up to byte 496, columns 242 to 247 included.
    tensor_map, target = dense("f16", (61, 242), (8, 64), "swizzle_128b", pad=14)
    assert tma.global_footprint(tensor_map, (192, 60)) == [(60 * 512 + 384, 60 * 512 + 484)]
    assert tma.global_footprint(tensor_map, (192, 60), store=True) == [(60 * 512 + 384, 60 * 512 + 496)]
    smem = np.full(2048, 0xBB, np.uint8)
    before = target.copy()
    tma.store(target, 0, smem, 1024, tensor_map, (192, 56))
    changed = np.flatnonzero((target != before).reshape(61, 512).any(0))
    assert (changed[0], changed[-1]) == (384, 495)
    assert np.flatnonzero((target != before).reshape(61, 512).any(1)).tolist() == [56, 57, 58, 59, 60]
    tma.load(before, 0, smem, 1024, tensor_map, (192, 60))
    row = smem[1024:].view(np.uint16)[:64]
    assert np.array_equal(np.sort(row)[14:], np.sort(before.view(np.uint16).reshape(61, 256)[60, 192:242]))
    copy = tma.boxes(tensor_map, (192, 60), 1024, store=True)
    assert copy.inside.sum() == 56 and tma.boxes(tensor_map, (192, 60), 1024).inside.sum() == 50


def test_a_store_past_the_array_is_seen_in_its_footprint():
    tensor_map, _ = dense("f16", (100,), (64,))
    assert tma.global_footprint(tensor_map, (64,), store=True) == [(128, 208)]  # the array ends at 200
    with pytest.raises(ValueError, match="buffer"):
        tma.store(np.zeros(200, np.uint8), 0, np.zeros(256, np.uint8), 0, tensor_map, (64,))


# --- tf32 and reductions -------------------------------------------------------------------------


def test_tf32_is_rounded_on_loads_only():
    tensor_map, _ = dense("tf32", (4, 8), (4, 8))
    source = np.full(32, 0x3F803000, np.uint32).view(np.uint8)
    kept, smem = source.copy(), np.zeros(128, np.uint8)
    tma.load(source, 0, smem, 0, tensor_map, (0, 0))
    assert (smem.view(np.uint32) == 0x3F804000).all()
    assert np.array_equal(source, kept)
    target = np.zeros(128, np.uint8)
    tma.store(target, 0, source, 0, tensor_map, (0, 0))
    assert np.array_equal(target, kept)


def operands(element, low, high):
    dtype = numbers.dtype(element).numpy
    rng = np.random.default_rng(2)
    return (rng.integers(low, high, (16, 32)).astype(dtype) for _ in range(2))


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "tf32", "i32"])
@pytest.mark.parametrize("swizzle", ["none", "swizzle_64b"])
def test_add(element, swizzle):
    mine, theirs = operands(element, -50, 50)
    box = (8, 64 // mine.itemsize)
    tensor_map = TensorMap(element, (16, 32), (32, 1), box, swizzle)
    smem, target = np.zeros(4096, np.uint8), theirs.copy()
    at = (
        16 if element in ("f16", "bf16") else 32 - box[1] // 2,
        12,
    )  # the last 4 rows, and half of the columns or all
    full = np.zeros((24, 64), mine.dtype)
    full[:16, :32] = mine
    part = full[at[1] : at[1] + 8, at[0] : at[0] + box[1]]
    scratch = TensorMap(element, (24, 64), (64, 1), box, swizzle)
    tma.load(full.view(np.uint8).reshape(-1), 0, smem, 1024, scratch, at)
    tma.reduce(target.view(np.uint8).reshape(-1), 0, smem, 1024, tensor_map, at, "add")
    expected = theirs.copy()
    inside = expected[at[1] :, at[0] : at[0] + box[1]]
    inside += part[: inside.shape[0], : inside.shape[1]]
    assert np.array_equal(target, expected) and not np.array_equal(target, theirs)


@pytest.mark.parametrize("kind", ["min", "max", "and", "or", "xor"])
def test_integer_reductions(kind):
    mine, theirs = operands("i32", -(2**31), 2**31 - 1)
    tensor_map = TensorMap("i32", (16, 32), (32, 1), (16, 32))
    target = theirs.copy()
    tma.reduce(
        target.view(np.uint8).reshape(-1), 0, mine.view(np.uint8).reshape(-1), 0, tensor_map, (0, 0), kind
    )
    op = {
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    assert np.array_equal(target, op[kind](mine, theirs))


def test_overlapping_rows_are_added_up():
    # Measured on an H200: eight rows of a box onto one row, through a stride of 0.
    tensor_map = TensorMap("i32", (8, 32), (0, 1), (8, 32))
    assert tensor_map.check() == []
    mine, target = np.arange(256, dtype=np.int32), np.zeros(32, np.int32)
    tma.reduce(target.view(np.uint8), 0, mine.view(np.uint8), 0, tensor_map, (0, 0), "add")
    assert np.array_equal(target, mine.reshape(8, 32).sum(0))


@pytest.mark.parametrize(
    ("element", "kind"),
    [("i8", "add"), ("i16", "min"), ("i32", "inc"), ("i64", "add"), ("f32", "max"), ("f16", "or")],
)
def test_reductions_that_an_h200_refuses(element, kind):
    tensor_map, target = dense(element, (16, 32), (16, 32))
    assert "reduction" in tma.problems(tensor_map, (0, 0), 128, reduction=kind)[0].says
    with pytest.raises(ValueError, match=f"reduction {kind} of {element}"):
        tma.reduce(target, 0, target.copy(), 0, tensor_map, (0, 0), kind)


# --- rules ---------------------------------------------------------------------------------------


def test_rules_of_a_copy():
    tensor_map, _ = dense("f16", (64, 64), (8, 64), "swizzle_128b")
    assert tma.problems(tensor_map, (-8, -3), 1024 + 128) == []
    assert tma.problems(tensor_map, (8, 3), 1024, store=True) == []
    assert tma.problems(tensor_map, (8, 3), 1024, reduction="add") == []
    for coords, address, kwargs, says, rule in (
        ((0, 0), 1024 + 64, {}, "shared address 0x440 is 64 bytes past", "a multiple of 128 bytes"),
        ((4, 0), 1024, {}, "innermost coordinate 4 is 8 bytes", "a multiple of 16 bytes"),
        ((0, -1), 1024, {"store": True}, "coordinates (0, -1)", "no negative coordinate"),
        ((0, -1), 1024, {"reduction": "add"}, "coordinates (0, -1)", "no negative coordinate"),
        ((0, 0), 1024, {"reduction": "xor"}, "reduction xor of f16", "add, min, max"),
    ):
        (problem,) = tma.problems(tensor_map, coords, address, **kwargs)
        assert says in problem.says and rule in problem.rule and problem.fix


@pytest.mark.parametrize(("element", "legal"), [("i8", 16), ("f16", 8), ("f32", 4), ("f64", 2)])
def test_the_innermost_coordinate_is_a_multiple_of_16_bytes(element, legal):
    """Loads, stores, reductions and prefetches alike, wherever the box is: tests/gpu/test_coordinates.py."""
    tensor_map, _ = dense(element, (64, 128), (8, 16))
    for column in range(-40, 300):
        found = tma.problems(tensor_map, (column, 99), 0)
        assert bool(found) == bool(column % legal), column
        if found:
            assert f"start the box at {column - column % legal}," in found[0].fix


def test_a_tensor_map_needs_one_coordinate_a_dimension():
    tensor_map, source = dense("f16", (64, 64), (8, 64))
    with pytest.raises(ValueError, match="3 coordinates for a tensor map of rank 2"):
        tma.load(source, 0, np.zeros(1024, np.uint8), 0, tensor_map, (0, 0, 0))


def test_interleaved_tensor_maps_are_refused():
    tensor_map = TensorMap("f16", (4, 4, 64), (256, 64, 1), (1, 4, 64), interleave="interleave_16b")
    with pytest.raises(ValueError, match="interleave_16b"):
        tma.footprint(tensor_map, (0, 0, 0), 0)


def test_swizzled_addresses_are_the_isas_table():
    for name, table in UNITS.items():
        width = WIDTHS[name]
        for pattern, (row, units) in itertools.product((0, 3 * 1024), enumerate(table)):
            start = pattern + row * width
            found = geometry.swizzled(start + np.arange(width // 16) * 16 + 5, width)
            assert found.tolist() == [start + int(unit) * 16 + 5 for unit in units]
    assert geometry.swizzled(np.array(0x3F0), 16) == 0x3F0


def test_ranges():
    assert geometry.ranges(np.array([32, 0, 16, 100, 90, 64]), 16) == [(0, 48), (64, 80), (90, 116)]
    assert geometry.ranges(np.array([], np.int64), 16) == []
