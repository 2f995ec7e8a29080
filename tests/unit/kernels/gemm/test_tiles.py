"""Tiles of any multiple of 8 columns, divided along either side, of swapped operands; and split-K by many clusters."""

from dataclasses import replace

import numpy as np
import pytest

import nvdsl as nv
from nvdsl import sim
from nvdsl.kernels import Config, gemm
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.blocks.tile_scheduler import RowGroups
from nvdsl.kernels.gemm import splitk, splitk_memory, tensor_core
from nvdsl.kernels.gemm.splitk_parts import parts
from nvdsl.kernels.gemm.tiles import legal
from tests.exhaustive import sample

FREE = [
    (Config(64, 40, stages=2, consumers=1), (130, 96, 80), "nn nt tn tt"),
    (Config(64, 40, stages=2, consumers=1, swap_ab=True), (72, 136, 80), "nn nt tn tt"),
    (Config(128, 72, stages=3, schedule="pingpong", swap_ab=True, store_buffers=1), (130, 96, 80), "nn nt tn tt"),
    (Config(64, 144, stages=2, along="n"), (130, 304, 80), "nt tt"),
    (Config(64, 144, stages=2, along="n", swap_ab=True, cluster_n=2), (130, 304, 80), "nn nt"),
    (Config(128, 128, stages=2, along="n", cluster_m=2), (260, 72, 80), "nn tt"),
    (Config(64, 272, stages=2, along="n", store_buffers=1), (70, 280, 72), "nt"),
    (Config(64, 32, stages=2, consumers=1, cluster_m=4, swap_ab=True), (260, 72, 80), "nn nt tn tt"),
    (Config(192, 208, stages=2, along="n", store_buffers=1), (200, 216, 200), "nt"),
    (Config(64, 32, stages=2, consumers=1, cluster_m=2, cluster_n=2), (300, 136, 200), "nn nt tn tt"),
    (Config(128, 64, stages=2, cluster_m=2, cluster_n=4, swap_ab=True), (260, 600, 200), "nn nt"),
    (Config(64, 64, stages=3, schedule="pingpong", cluster_m=4, cluster_n=2), (600, 72, 200), "nn tt"),
]
LONG = [
    Config(64, 64, stages=2, schedule="splitk", split=2, consumers=1, store_buffers=1, parts=16),
    Config(128, 64, stages=3, schedule="splitk", split=4, store_buffers=1, parts=3),
]
OUT = [nv.f16, nv.f32]
LEVELS = [sim.Options(), sim.Options(level="nvvm", delivery="random", order="random", seed=2)]


def check(config, sizes, layout, out, batch=()):
    m, n, k = sizes
    rng = np.random.default_rng(sizes)
    a, b = (rng.integers(-3, 4, (*batch, *shape)).astype(np.float16) for shape in ((m, k), (k, n)))
    seen = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if letter == "t" else x
            for x, letter in zip((a, b), layout, strict=True)]  # fmt: skip
    got = nv.matmul(*seen, config=config, out_dtype=out, target="sim")
    np.testing.assert_array_equal(got, (a.astype(np.float32) @ b.astype(np.float32)).astype(got.dtype))


@pytest.mark.parametrize(
    ("config", "sizes", "layout", "out"),
    sample([(c, s, layout, out) for c, s, layouts in FREE for layout in layouts.split() for out in OUT], 2),
    ids=lambda x: x if isinstance(x, str) else getattr(x, "name", ""),
)
@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
def test_any_tile(config, sizes, layout, out, options, monkeypatch):
    monkeypatch.setattr(sim.Options, "from_environment", lambda: options)
    check(config, sizes, layout, out)


def test_a_batch_of_swapped_operands():
    check(Config(64, 24, stages=2, consumers=1, swap_ab=True), (72, 40, 64), "nn", nv.f16, batch=(3,))


def test_an_epilogue_of_swapped_operands():
    """What repeats along rows or columns is read by columns or rows; any other operand, element by element."""
    config, (m, n, k) = Config(64, 16, stages=2, consumers=1, swap_ab=True), (20, 72, 32)
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n), (m, n)))
    bias, scale = rng.integers(-3, 4, n).astype(np.float16), 2.0 ** rng.integers(-1, 2, (m, 1)).astype(np.float32)
    product = a.astype(np.float32) @ b.astype(np.float32)
    got = nv.matmul(a, b, bias=bias, scale_a=scale, activation="relu", config=config, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(got, np.maximum(product * scale + bias, 0))
    got = c.astype(np.float32)
    nv.matmul(a, b, got, c=got, beta=2.0, bias=bias, config=config, target="sim")
    np.testing.assert_array_equal(got, product + 2 * c.astype(np.float32) + bias)


@pytest.mark.parametrize(("config", "k"), sample([(c, k) for c in LONG for k in (64, 392, 904)], 1))
@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
def test_many_clusters_share_a_tile(config, k, options, monkeypatch):
    monkeypatch.setattr(sim.Options, "from_environment", lambda: options)
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((72, k), (k, 72)))
    got = np.full((72, 72), np.nan, np.float32)
    splitk.matmul(a, b, got, config=config, clusters=8, least=1, target="sim")
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32))


IN_MEMORY = [
    Config(64, 64, stages=2, consumers=1, store_buffers=1, parts=5),
    Config(128, 64, stages=2, parts=3, cluster_m=2),
    Config(64, 32, stages=2, consumers=1, parts=2, cluster_n=2),
]


@pytest.mark.parametrize(
    ("config", "k", "layout"),
    sample([(c, k, layout) for c in IN_MEMORY for k in (8, 392, 904) for layout in ("nt", "tn")], 1),
)
@pytest.mark.parametrize("options", sample(LEVELS, 1), ids=lambda x: x.level)
def test_sums_of_parts_in_memory(config, k, layout, options, monkeypatch):
    monkeypatch.setattr(sim.Options, "from_environment", lambda: options)
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((72, k), (k, 72)))
    bias, got = rng.integers(-3, 4, 72).astype(np.float16), np.full((72, 72), np.nan, np.float32)
    at = [np.ascontiguousarray(x.T) if letter == "t" else x for x, letter in zip((a, b), layout, strict=True)]
    majors = {"a_major": "k" if layout[0] == "n" else "mn", "b_major": "mn" if layout[1] == "n" else "k"}
    how = {"config": config, "blocks": 16, "least": 1, "epilogue_op": Elementwise(LinearCombination(bias=True))}
    splitk_memory.matmul(*at, got, bias[None], **how, **majors, target="sim")
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32) + bias)


def test_parts_in_memory_cut_what_an_epilogue_makes_of_integers():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (9, 1040)).astype(np.int8), rng.integers(-128, 128, (1040, 16)).astype(np.int8)
    got = nv.matmul(a, b, alpha=0.25, activation="relu", config=replace(IN_MEMORY[0], tile_k=128), target="sim")
    np.testing.assert_array_equal(got, np.maximum(a.astype(np.int32) @ b.astype(np.int32), 0) // 4)


@pytest.mark.parametrize(
    ("tiles", "slices", "split", "clusters", "most", "expected"),
    [
        (1, 1024, 8, 15, 16, 15), (1, 1024, 8, 15, 4, 4), (4, 1024, 2, 66, 32, 16), (1, 100, 8, 15, 16, 1),
        (100, 1024, 2, 66, 32, 1), (1, 0, 2, 66, 32, 1), (1, 97, 2, 66, 32, 6), (66, 4096, 2, 66, 32, 1),
    ],
)  # fmt: skip
def test_as_many_clusters_as_run_and_have_work(tiles, slices, split, clusters, most, expected):
    found = parts(tiles, slices, split, clusters, most)
    steps = nv.cdiv(slices, found * split)
    assert found == expected and found * steps * split >= slices
    assert found == 1 or (found - 1) * steps * split < slices, "a part without a slice"


@pytest.mark.parametrize(
    "config",
    sample(
        [
            Config(128, 304, stages=3, along="n", store_buffers=1),
            Config(320, 128, stages=3, along="n", store_buffers=1),
            Config(256, 200, stages=3, store_buffers=1, swap_ab=True), Config(192, 200, stages=3, consumers=3),
            Config(128, 200, stages=4, schedule="pingpong", store_buffers=1), LONG[1],
            Config(128, 128, stages=4, schedule="splitk", split=8, store_buffers=1, parts=16),
        ],
        1,
    ),
    ids=lambda c: f"{c.schedule}-{c.tile_m}x{c.tile_n}",
)  # fmt: skip
def test_the_largest_do_not_spill(config):
    square = nv.ShapeDtype((2048, 2048), nv.f16)
    strict = nv.jit(tensor_core.matmul, strict=True)
    found = strict.compile(square, square, square, config=config, sms=132, a_major="k", b_major="k")
    (kernel,) = found.kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)


@pytest.mark.parametrize(
    ("config", "cols", "said"),
    [
        (Config(64, 64, consumers=1, swap_ab=True, stages=2), 60, "swapped operands with a result"),
        (Config(64, 144, along="n", stages=2), 64, "whole panels of 128 bytes"),
    ],
)
def test_what_a_configuration_can_not_do_is_told(config, cols, said):
    with pytest.raises(nv.ArgumentError, match=said):
        nv.matmul(np.ones((64, 64), np.float16), np.ones((64, cols), np.float16), config=config, target="sim")


def test_an_op_of_places_is_not_swapped():
    a = np.ones((64, 64), np.float16)
    with pytest.raises(nv.ArgumentError, match="swapped operands with the epilogue"):
        config = Config(64, 64, consumers=1, swap_ab=True, stages=2)
        gemm(a, a.T, a.copy(), config=config, epilogue_op=lambda value, batch, row, col: value, target="sim")


@pytest.mark.parametrize("a_major", ["k", "mn"])
def test_wide_tiles_begin_with_a_sector_where_n_is_contiguous(a_major):
    """256 x 104 took up to 1.25 times as long as cuBLAS; of a K-major B a tile's rows start where B's do."""
    for config in legal(nv.bf16, nv.bf16, nv.f32, False, a_major, "mn"):
        b_major = a_major if config.swap_ab else "mn"
        assert b_major == "k" or config.tile_n <= 64 or config.tile_n % 16 == 0, config
    assert any(config.tile_n == 104 for config in legal(nv.bf16, nv.bf16, nv.f32, False, "k", "k"))


def test_neighbouring_blocks_share_rows_and_columns():
    """16 blocks of a GPC ask for little more than the squarest patch of their tiles has."""
    for config in legal(nv.f16, nv.f16, nv.f32)[::5]:
        if config.cluster == 1 and config.schedule == "cooperative" and config.parts == 1:
            least = min(asked(config.changed(group=group)) for group in range(1, 17))
            assert asked(config) <= 1.1 * least, config


def asked(config, blocks=16, size=48):
    """Rows and columns of the tiles of neighbouring blocks, in elements: of a result of so many tiles each way."""
    order = RowGroups(size, size, config.group)
    places = [order.place(t) for t in range(config.group * blocks)]
    patches = [set(places[t : t + blocks]) for t in range(0, len(places), blocks)]
    return sum(
        len({row for row, _ in patch}) * config.tile_m + len({col for _, col in patch}) * config.tile_n
        for patch in patches
    ) / len(patches)
