"""The GEMM kernels in the simulator: right numbers and no report, for every schedule of warps and copies.

Integers small enough that every sum is exact: results are compared bit by bit.
"""

import itertools

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm import cooperative, pingpong, splitk, streamk
from nvdsl.kernels.gemm.config import Config
from tests.exhaustive import sample
from tests.sim.simulate import run

ORDERS = [
    sim.Options(),
    sim.Options(delivery="eager", order="reverse"),
    sim.Options(delivery="random", order="random", seed=5),
]
MATMUL = {
    "cooperative": cooperative.matmul,
    "pingpong": pingpong.matmul,
    "streamk": streamk.matmul,
    "splitk": splitk.matmul,
}


def small(schedule="cooperative", tile_m=128, tile_n=64, **fields):
    if schedule == "splitk":
        fields.setdefault("split", 2)
    return Config(tile_m, tile_n, schedule=schedule, stages=fields.pop("stages", 3), **fields)


def product(config, m, n, k, blocks, layout="nn", options=None, dtype=np.float16, out=np.float16, **constants):
    """Run a kernel on random small integers; raises unless the result is exact."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(out)
    stored = [x if kind == "n" else np.ascontiguousarray(x.T) for x, kind in zip((a, b), layout, strict=True)]
    d = np.full((m, n), np.nan if np.dtype(out).kind == "f" else -1, out)
    majors = {"a_major": "k" if layout[0] == "n" else "mn", "b_major": "mn" if layout[1] == "n" else "k"}
    persistent = {} if config.schedule == "splitk" else {"blocks": blocks}
    run(
        MATMUL[config.schedule], *stored, d, config=config, options=options, **persistent, **majors, **constants,
    )  # fmt: skip
    np.testing.assert_array_equal(d, expected)


SHAPES = [
    (small(), (256, 128, 256), 3),
    (small(in_flight=0), (256, 64, 256), 2),
    (small(store_buffers=1, tile_n=128), (128, 128, 128), 1),
    (small(cluster_m=2), (256, 128, 256), 2),
    (small(tile_m=256, tile_n=136, swap_ab=True), (136, 512, 128), 1),
    (small(tile_m=256, cluster_m=2), (1024, 64, 192), 2),
    (small(consumers=1), (384, 64, 64), 1),
    (small(cluster_n=2), (128, 256, 256), 2),
    (small(cluster_m=2, cluster_n=2), (256, 256, 256), 4),
    (small("pingpong"), (384, 64, 320), 1),
    (small("pingpong", cluster_m=2), (512, 64, 256), 2),
    (small("splitk"), (256, 64, 512), None),
    (small("splitk", 64, 128, consumers=1, split=4), (64, 128, 512), None),
    (small("splitk", 128, 32, consumers=1), (128, 64, 256), None),
]


def id_of(x):
    return x.delivery if isinstance(x, sim.Options) else str(x)


@pytest.mark.parametrize(
    ("config", "shape", "blocks", "options"),
    sample([(*one, order) for one in SHAPES for order in ORDERS], 12),
    ids=id_of,
)
def test_every_schedule(config, shape, blocks, options):
    product(config, *shape, blocks, options=options)


CUT = [
    ((384, 64, 320), 2),  # a round, and a tile for two
    ((128, 64, 640), 3),  # one tile for all: the owner is given sums twice
    ((128, 128, 640), 3),  # two tiles for three: a block gives, then owns
    ((640, 64, 192), 3),  # and then it has whole tiles
    ((512, 64, 64), 3),  # too short to be cut
]


@pytest.mark.parametrize(
    ("shape", "blocks", "options"), sample([(*one, order) for one in CUT for order in ORDERS], 6), ids=id_of
)
def test_tiles_cut_along_k(shape, blocks, options):
    product(small("streamk"), *shape, blocks, options=options, least=1)


@pytest.mark.parametrize(
    ("schedule", "layout"),
    sample(itertools.product(["cooperative", "pingpong", "splitk"], ["nn", "nt", "tn", "tt"]), 5),
)
def test_every_layout(schedule, layout):
    product(small(schedule, tile_n=96), 256, 192, 192, 2, layout)


@pytest.mark.parametrize(
    ("schedule", "shape"),
    sample(itertools.product(MATMUL, [(1, 8, 8), (129, 72, 72), (64, 200, 136), (8, 64, 64)]), 9),
)
def test_ragged_shapes(schedule, shape):
    """TMA reads zeros beyond the edge and drops what is stored there."""
    product(small(schedule), *shape, 1)


@pytest.mark.parametrize("options", sample(ORDERS, 1), ids=["late", "eager", "random"])
@pytest.mark.parametrize(
    "config",
    [
        small(tile_m=64, consumers=1),
        small(tile_m=192, consumers=3),
        small("pingpong"),
        small("splitk", tile_m=64, consumers=1),
        small("streamk"),
    ],
    ids=str,
)
def test_rows_that_are_not_there_are_zero_and_not_loaded(config, options):
    """Of A 17 rows and of B 40: the rest of their tiles in shared memory is written by `clear` alone."""
    product(config, 17, 40, 320, 1, "nt", options=options)


@pytest.mark.parametrize(
    ("schedule", "layout", "options"),
    sample([(kind, x, order) for kind in MATMUL for x in ("nn", "nt", "tn", "tt") for order in ORDERS], 7),
    ids=id_of,
)
def test_the_last_tile_of_a_row_or_column_is_loaded_as_far_as_there_is_memory(schedule, layout, options):
    """More slices of K than slots: the short boxes come, over what whole ones have left."""
    product(small(schedule, tile_n=128), 128 + 24, 128 + 40, 64 * 9, 1, layout, options)


@pytest.mark.parametrize(
    ("major", "extent", "mn", "present", "short"),
    [
        ("k", 256, 128, 128, None),  # no edge within a tile
        ("k", 152, 128, 24, 24),  # 24 rows of the second tile
        ("k", 131, 128, 8, 8),  # 3 rows: as many as the swizzle's pattern has
        ("k", 17, 128, 24, 24),  # the only tile
        ("mn", 256, 128, 128, None),
        ("mn", 168, 128, 64, None),  # 40 columns: a panel of 64
        ("mn", 250, 128, 128, None),  # 122: both panels
        ("mn", 40, 128, 64, None),
    ],
)
def test_what_is_present_of_the_last_tile(major, extent, mn, present, short):
    operands = []

    @nv.jit
    def host(x: nv.Array, y: nv.Array) -> None:
        operands.append(TmaOperand(x, mn, 64, major=major))

        @nv.kernel(grid=1, block=32)
        def kernel() -> None:
            y[0] = nv.f16(0)

        kernel()

    shape = (extent, 640) if major == "k" else (640, extent + -extent % 8)
    x = nv.ShapeDtype((640, extent) if major == "mn" else shape, nv.f16, (shape[1], 1))
    host.compile(x, nv.ShapeDtype((1,), nv.f16))
    (operand,) = operands
    assert operand.present == present
    assert (operand.short.rows if operand.short else None) == short
    assert operand.count(operand.last, True) == present
    assert operand.count(operand.last, False) == (mn if extent > mn else present)
    assert extent <= mn or operand.count(0, True) == mn
    assert operand.bytes(present) == 128 * present  # 64 elements of K take 128 bytes


@pytest.mark.parametrize("m", [256, 256 + 24])
def test_the_last_tile_expects_fewer_bytes(m):
    a, b, d = (nv.ShapeDtype(shape, nv.f16) for shape in ((m, 640), (640, 128), (m, 128)))
    (kernel,) = cooperative.matmul.compile(a, b, d, config=small(), blocks=1).kernels.values()
    assert (f"{(24 + 64) * 128}" in kernel.ptx) == (m % 128 == 24)


@pytest.mark.parametrize(
    ("shape", "split"),
    sample([(shape, split) for shape in ((20, 40, 72), (136, 72, 200), (8, 264, 640)) for split in (2, 4, 8)], 4),
)
def test_parts_of_k_beyond_its_end_are_zero(split, shape):
    product(small("splitk", 64, 128, split=split, consumers=1), *shape, None, "nt")


@pytest.mark.parametrize("tile_n", [16, 48, 112])
def test_tiles_that_are_no_multiple_of_64_columns(tile_n):
    product(small(tile_n=tile_n), 128, 2 * tile_n, 64, 1)
    product(small("pingpong", tile_n=tile_n), 128, 2 * tile_n, 64, 1, "nt")


def test_other_types():
    product(small(), 128, 64, 64, 1, out=np.float32)
    product(small(tile_k=128), 128, 64, 128, 1, "nt", dtype=np.int8, out=np.int32, acc_dtype=nv.i32)
    product(small(), 128, 64, 64, 1, acc_dtype=nv.f16)
    product(small("splitk"), 128, 64, 256, None, acc_dtype=nv.f16)
    product(small("splitk", tile_k=128), 128, 64, 256, None, "nt", dtype=np.int8, out=np.int32, acc_dtype=nv.i32)
    product(small(tile_k=32), 128, 64, 64, 1, "nt", dtype=np.float32, out=np.float32)


def plus_row_and_bias(value, batch, row, col, bias):
    return value + nv.f32(row) + bias[col]


@pytest.mark.parametrize(("schedule", "tile_n", "n"), [
    ("cooperative", 64, 72), ("pingpong", 64, 72), ("splitk", 64, 72), ("cooperative", 40, 80),
])  # fmt: skip
def test_a_visit_sees_each_element_and_its_place(schedule, tile_n, n):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((136, 64), (64, n)))
    bias, d = rng.integers(-8, 9, n).astype(np.float32), np.full((136, n), np.nan, np.float16)
    blocks = {} if schedule == "splitk" else {"blocks": 1}
    run(MATMUL[schedule], a, b, d, bias, config=small(schedule, tile_n=tile_n), epilogue_op=plus_row_and_bias, **blocks)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32) + np.arange(136)[:, None] + bias)
