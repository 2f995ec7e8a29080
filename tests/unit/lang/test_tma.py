"""nv.TMA: which boxes a tile is copied in, where each lies in shared memory, and its coordinates."""

import pytest

import nvdsl as nv
from nvdsl.hopper.tensor_maps import TensorMap
from nvdsl.ir.walk import defining, find
from nvdsl.mlir import ir
from nvdsl.verify.evaluate import evaluate
from nvdsl.verify.tensor_maps import describe
from tests.unit.kernels import array, refused

LOAD, STORE = "nvgpu.tma.async.load", "nvgpu.tma.async.store"


def copies(use, x, tile, *, smem=None, cluster=1, **options):
    """The module in which ``use(tma, tile in shared memory, barrier)`` copies tiles of ``x``."""

    def host(x):
        tma = nv.TMA(x, tile=tile, **options)

        @nv.kernel(grid=cluster, block=128, cluster=cluster)
        def kernel():
            shape = smem or tile
            memory = nv.smem(shape, x.dtype, swizzle=options.get("swizzle", 0) if len(shape) > 1 else 0)
            use(tma, memory, nv.Mbarriers(1, arrivals=1)[0])

        kernel()

    module = nv.jit(host).trace(x)
    modules.append(module)
    return module


modules = []  # ops do not keep their module alive


def boxes(module, name=LOAD, thread=0):
    """(byte offset in shared memory, coordinates) of each copy."""
    found = []
    for op in find(module, name):
        memory = next(v for v in op.operands if isinstance(v.type, ir.MemRefType))
        position = {LOAD: slice(3, -1), STORE: slice(2, None)}[name]
        byte = evaluate(defining(memory).operands[1], thread)
        found.append((byte, [evaluate(c, thread) for c in list(op.operands)[position]]))
    return found


def coordinates_of(op):
    segments = [int(s) for s in op.attributes["operandSegmentSizes"]]
    names = {"nvgpu.tma.async.load": 3, "nvgpu.tma.async.store": 2}
    at = names[op.name]
    start = sum(segments[:at])
    return list(op.operands)[start : start + segments[at]]


def load_at(*coords):
    return lambda tma, tile, full: tma.load(tile, full, coords)


def test_a_tile_as_wide_as_its_swizzle_is_one_box():
    module = copies(load_at(128, 64), array(nv.f16, 512, 256), (128, 64), swizzle=128)
    assert boxes(module) == [(0, [64, 128])], "the innermost coordinate comes first"


def test_a_wider_tile_is_a_box_for_each_panel():
    module = copies(load_at(128, 64), array(nv.f16, 512, 512), (64, 256), swizzle=128)
    assert boxes(module) == [(p * 64 * 128, [64 + p * 64, 128]) for p in range(4)]
    assert describe_map(module).box == (64, 64)


@pytest.mark.parametrize(("swizzle", "panels"), [(16, 16), (32, 8), (64, 4), (128, 2), (0, 1)])
def test_panels_are_as_wide_as_the_swizzle(swizzle, panels):
    module = copies(load_at(0, 0), array(nv.f16, 64, 128), (64, 128), swizzle=swizzle)
    width = 128 // panels
    assert boxes(module) == [(p * 64 * width * 2, [p * width, 0]) for p in range(panels)]


def test_traced_coordinates_move_with_the_panel():
    def use(tma, tile, full):
        tma.load(tile, full, (nv.thread_id.x * 64, nv.thread_id.x * 4))

    module = copies(use, array(nv.f32, 512, 512), (64, 64), swizzle=128)
    assert boxes(module, thread=3) == [(0, [12, 192]), (64 * 128, [12 + 32, 192])]


def test_a_stage_of_a_stack_is_filled_where_it_lies():
    def use(tma, stack, full):
        tma.load(stack[nv.thread_id.x % 3], full, (0, 0))

    module = copies(use, array(nv.f16, 64, 64), (64, 64), smem=(3, 64, 64), swizzle=128)
    assert [boxes(module, thread=t)[0][0] for t in (0, 1, 2, 3)] == [0, 8192, 16384, 0]


RANKS = [
    ((256,), (64,), (4,)),
    ((16, 64), (8, 64), (5, 8)),
    ((4, 16, 64), (1, 8, 64), (5, 6, 12)),
    ((2, 4, 16, 64), (1, 2, 8, 64), (5, 6, 7, 8)),
    ((2, 2, 4, 16, 64), (1, 1, 2, 8, 64), (5, 6, 7, 8, 16)),
]


@pytest.mark.parametrize(("shape", "tile", "at"), RANKS, ids=[f"{len(r[0])}D" for r in RANKS])
def test_ranks(shape, tile, at):
    """Axes before the last are rows of the tile in shared memory."""
    rows = 1
    for extent in tile[:-1]:
        rows *= extent
    smem = tile if len(tile) == 1 else (rows, tile[-1])
    module = copies(load_at(*at), array(nv.f32, *shape), tile if len(tile) > 1 else tile[0], smem=smem)
    (load,) = find(module, LOAD)
    assert [evaluate(c, 0) for c in coordinates_of(load)] == list(reversed(at))
    assert describe_map(module).box == tile


def describe_map(module):
    (op,) = find(module, "nvgpu.tma.create.descriptor")
    return describe(op)


def test_bytes_are_those_of_the_whole_tile():
    seen = []
    copies(lambda tma, *_: seen.append(tma.bytes), array(nv.f16, 256, 256), (64, 256), swizzle=128)
    assert seen == [64 * 256 * 2]


def test_modes_become_those_of_the_tensor_map():
    module = copies(load_at(0, 0), array(nv.f16, 64, 64), (8, 32), swizzle=64, l2_promotion=256, fill="nan")
    expected = TensorMap("f16", (64, 64), (64, 1), (8, 32), "swizzle_64b", "l2promo_256b", "nan", "none")
    assert describe_map(module) == expected
    module = copies(load_at(0, 0), array(nv.f16, 64, 64), (8, 32), l2_promotion=0)
    expected = TensorMap("f16", (64, 64), (64, 1), (8, 32), "none", "none", "zero", "none")
    assert describe_map(module) == expected


def test_stores_copy_the_same_boxes():
    def use(tma, tile, full):
        tma.store(tile, (64, 128))

    module = copies(use, array(nv.f16, 512, 512), (64, 128), swizzle=128)
    found = [(evaluate(defining(op.operands[0]).operands[1], 0), op) for op in find(module, STORE)]
    assert [(byte, [evaluate(c, 0) for c in coordinates_of(op)]) for byte, op in found] == [
        (0, [128, 64]),
        (8192, [192, 64]),
    ]


@pytest.mark.parametrize(
    ("use", "op"),
    [
        (lambda tma, tile, full: tma.reduce_add(tile, (8, 0)), "nvvm.cp.async.bulk.tensor.reduce"),
        (lambda tma, tile, full: tma.prefetch_tile((8, 0)), "nvvm.cp.async.bulk.tensor.prefetch"),
        (
            lambda tma, tile, full: tma.load(tile, full, (8, 0), l2_hint=nv.L2_EVICT_FIRST),
            "nvvm.cp.async.bulk.tensor.shared.cluster.global",
        ),
        (
            lambda tma, tile, full: tma.store(tile, (8, 0), l2_hint=nv.L2_EVICT_FIRST),
            "nvvm.cp.async.bulk.tensor.global.shared.cta",
        ),
    ],
    ids=["reduce_add", "prefetch", "load with a hint", "store with a hint"],
)
def test_the_other_copies_take_the_same_coordinates(use, op):
    found = find(copies(use, array(nv.f32, 64, 64), (8, 64), swizzle=128), op)
    every = [[x for x in (evaluate(v, 0) for v in copy.operands) if x is not None] for copy in found]
    assert len(every) == 2
    assert every[0][:2] == [0, 8]
    assert every[1][:2] == [32, 8]


def test_predicate_and_multicast_reach_every_box():
    def use(tma, tile, full):
        tma.load(tile, full, (0, 0), predicate=nv.thread_id.x == 7, multicast_mask=5)

    loads = find(copies(use, array(nv.f32, 64, 64), (8, 64), swizzle=128, cluster=4), LOAD)
    assert len(loads) == 2
    for load in loads:
        *_, mask, predicate = list(load.operands)
        assert evaluate(mask, 0) == 5
        assert [evaluate(predicate, t) for t in (6, 7)] == [0, 1]


def nothing(tma, tile, full):
    pass


BAD = {
    "rank": (nothing, (8, 8, 8), {}, "one extent for each axis"),
    "swizzle": (nothing, (8, 64), {"swizzle": 256}, "swizzle is one of"),
    "l2_promotion": (nothing, (8, 64), {"l2_promotion": 32}, "l2_promotion is one of"),
    "fill": (nothing, (8, 64), {"fill": "one"}, "fill is one of"),
    "part of a panel": (nothing, (8, 96), {"swizzle": 128}, "panels"),
}


@pytest.mark.parametrize(("use", "tile", "options", "rule"), BAD.values(), ids=list(BAD))
def test_tensor_maps_that_are_refused(use, tile, options, rule):
    error = refused(lambda: copies(use, array(nv.f16, 128, 128), tile, **options), copies)
    assert rule in error.rule


COPIES = {
    "too few coordinates": (load_at(0), {}, "one coordinate for each axis"),
    "too many coordinates": (load_at(0, 0, 0), {}, "one coordinate for each axis"),
    "another shape": (load_at(0, 0), {"smem": (16, 128)}, "one shape"),
    "rows of another tile": (
        lambda tma, tile, full: tma.load(tile.rows(0, 8), full, (0, 0)),
        {"smem": (16, 128)},
        None,
    ),
    "a panel alone": (lambda tma, tile, full: tma.load(tile.panel(0), full, (0, 0)), {}, "one box"),
    "flat memory": (load_at(0, 0), {"smem": (1024,)}, "one box"),
}


@pytest.mark.parametrize(("use", "options", "rule"), COPIES.values(), ids=list(COPIES))
def test_copies_that_are_refused(use, options, rule):
    """The tensor map's tile is 8 x 128 f16 with a swizzle of 128 bytes: two panels."""

    def copy():
        copies(use, array(nv.f16, 128, 128), (8, 128), swizzle=128, **options)

    if rule is None:
        copy()  # the right part of a larger tile is fine
        return
    assert rule in refused(copy, copies, use).rule


def other_tile(dtype, swizzle):
    """Loads 8 x 64 f16 with a swizzle of 128 bytes into a tile of another kind."""

    def host(x):
        tma = nv.TMA(x, tile=(8, 64), swizzle=128)

        @nv.kernel(grid=1, block=32)
        def kernel():
            full = nv.Mbarriers(1, arrivals=1)[0]
            tma.load(nv.smem((8, 64), dtype, swizzle=swizzle), full, (0, 0))

        kernel()

    return nv.jit(host).trace(array(nv.f16, 64, 64))


@pytest.mark.parametrize(("dtype", "swizzle"), [(nv.f16, 64), (nv.f32, 128), (nv.bf16, 128)])
def test_a_tile_of_another_swizzle_or_type_is_refused(dtype, swizzle):
    assert "swizzle=128" in refused(lambda: other_tile(dtype, swizzle), other_tile).fix


@pytest.mark.parametrize("dtype", [nv.i16, nv.u16])
def test_the_bits_may_be_read_as_integers(dtype):
    assert len(find(other_tile(dtype, 128), LOAD)) == 1


def test_bits_have_no_tensor_map():
    def use(tma, tile, full):
        tma.load(tile, full, (0, 0))

    error = refused(lambda: copies(use, array(nv.bool_, 64, 256), (8, 128)), copies)
    assert "one bit" in error.rule and "view(np.uint8)" in error.fix


@pytest.mark.parametrize(("tile", "dtype", "swizzle"), [((3, 64), nv.u8, 32), ((4, 16), nv.f16, 16)])
def test_a_second_panel_that_no_box_can_fill_is_refused(tile, dtype, swizzle):
    """Panels of 96 and of 64 bytes."""

    def use(tma, tile, full):
        tma.load(tile, full, (0, 0))

    error = refused(lambda: copies(use, array(dtype, 64, 64), tile, swizzle=swizzle), use)
    assert "multiple of 128 bytes" in error.rule
