"""What the model of `choose` prefers, and what it takes for granted of the kernels."""

import importlib
import itertools
import random
import warnings
from dataclasses import replace

import pytest

import nvdsl as nv
from nvdsl.hopper.occupancy import occupancy
from nvdsl.kernels.blocks.linear_combination import ACTIVATIONS, LinearCombination
from nvdsl.kernels.gemm import splitk
from nvdsl.kernels.gemm.choose import (
    ALONE,
    BESIDE,
    COMMON,
    MENU,
    OTHERS,
    THIN,
    allowed,
    choose,
    key,
    keys_of,
    near,
)
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dispatch import find
from nvdsl.kernels.gemm.model import Shape, blocks_of_an_sm, cycles, times
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.tiles import legal, listed
from nvdsl.kernels.gemm.tuned import SPACE, shape_class, tuned_matmul
from tests.exhaustive import sample

TYPES = [
    (nv.f16, nv.f16, nv.f32), (nv.bf16, nv.f32, nv.f32), (nv.f16, nv.f16, nv.f16), (nv.f32, nv.f32, nv.f32),
    (nv.e4m3, nv.bf16, nv.f32), (nv.e5m2, nv.e5m2, nv.f16), (nv.i8, nv.i32, nv.i32),
]  # fmt: skip


def b_major(types):
    """Which axis of B is contiguous: of 8 and 32 bits, K."""
    return "mn" if types[0].bits == 16 else "k"


SPLIT = [config for config in legal(nv.f16, nv.f16, nv.f32) if config.schedule == "splitk"]


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch):
    """What is chosen depends on what was before."""
    module = importlib.import_module("nvdsl.kernels.gemm.choose")
    monkeypatch.setattr(module, "_used", {})
    monkeypatch.setattr(module, "_menus", {})
    monkeypatch.setattr(module, "_mixed", set())
    choose.cache_clear()
    yield
    choose.cache_clear()


@pytest.mark.parametrize("types", TYPES, ids=lambda types: ".".join(t.name for t in types))
@pytest.mark.parametrize("crowded", [False, True])
def test_all_that_is_chosen_from_can_run(types, crowded):
    found = legal(*types, crowded, "k", b_major(types))
    assert found and len(set(found)) == len(found)
    for config in found:
        assert config.problems(*types, "k" if config.swap_ab else b_major(types)) == []
    for shape in ((1, 8, 8), (16, 4096, 4096), (1000, 200, 64), (4096, 200, 64), (4096, 4096, 4096)):
        assert choose(Shape(*shape, *types, b_major=b_major(types)), crowded) in found


@pytest.mark.parametrize("layout", [("mn", "k"), ("k", "mn")])
def test_what_reads_a_turned_factor_of_32_bits(layout):
    """It is the kernel's A, which each consumer reads into registers, 64 rows."""
    a, b = layout
    found = legal(nv.f32, nv.f32, nv.f32, False, a, b)
    assert len(found) > 40 and all(config.swap_ab == (b == "mn") for config in found)
    assert all((config.rows, config.cluster, config.shared_tile) == (64, 1, True) for config in found)
    assert choose(Shape(1000, 4096, 2048, nv.f32, nv.f32, a_major=a, b_major=b)) in found


@pytest.mark.parametrize("types", TYPES, ids=lambda types: ".".join(t.name for t in types))
def test_a_search_tries_what_is_chosen_from(types):
    tried = {one["config"] for one in SPACE.configs()}
    assert set(legal(*types, False, "k", b_major(types))) <= tried


@pytest.mark.parametrize("dtype", [nv.f16, nv.e4m3, nv.f32])
def test_rings_are_as_deep_as_shared_memory(dtype):
    """One more stage, or where there is one store buffer a second one, would not fit."""
    for config in listed(dtype):
        types = dtype, nv.f16, nv.f16, "k" if config.swap_ab else "mn"
        if config.schedule != "splitk" and config.problems(*types) == []:
            deeper = replace(config, stages=config.stages + 1)
            assert any("shared memory" in why for why in deeper.problems(*types)), config
            if config.store_buffers == 1:
                assert replace(config, store_buffers=2).problems(*types), config


@pytest.mark.parametrize(
    ("n", "tile"),
    [
        (1536, (128, 144)),  # 132 tiles for 132 SMs
        (2048, (128, 256)),  # 128
        (2056, (192, 176)),
    ],
)
def test_tiles_fill_the_gpu(n, tile):
    config = choose(Shape(n, n, n, b_major="k"))
    assert (config.schedule, config.tile_m, config.tile_n) == ("cooperative", *tile)


@pytest.mark.parametrize("a_major", ["k", "mn"])
@pytest.mark.parametrize("b_major", ["k", "mn"])
def test_consumers_have_whole_panels_of_columns(a_major, b_major):
    """No kernel divides columns inside of one: where such a tile was chosen the default configuration ran instead."""
    for config in legal(nv.bf16, nv.bf16, nv.f32, False, a_major, b_major):
        major = a_major if config.swap_ab else b_major
        assert config.along == "m" or major == "k" or config.cols * 2 % 128 == 0, config


def _drawn(seed):
    """A product of any shape, types, layout and epilogue."""
    rng = random.Random(seed)
    m, n, k = (max(1, round(2 ** rng.uniform(0, 13))) for _ in range(3))
    m, n, k = (x - x % 8 or 8 for x in (m, n, k)) if rng.random() < 0.5 else (m, n, k)
    dtype, out, acc = rng.choice(TYPES)
    strides = rng.choice(((k, 1), (1, m))), rng.choice(((n, 1), (1, k))), rng.choice(((n, 1), (1, m)))
    shapes = dict(zip(("a", "b", "out"), ((m, k), (k, n), (m, n)), strict=True))
    kinds = zip(shapes, (dtype, dtype, out), strides, strict=True)
    given = {name: Matrix(kind, shapes[name], stride) for name, kind, stride in kinds}
    finish = LinearCombination()
    if acc is not nv.i32 and rng.random() < 0.4:
        finish = LinearCombination(alpha=True, bias=True, c=rng.random() < 0.5, activation=ACTIVATIONS["gelu"])
        given |= {"bias": Matrix(out, (n,), (1,))}
        given |= {"c": Matrix(out, (m, n), (n, 1))} if finish.c else {}
    return find(GemmProblem.of(given, acc, out), finish, None, "sim")


@pytest.mark.parametrize("seed", sample(range(60), 4))
def test_what_is_chosen_is_never_refused(seed):
    """Else `Autotuned` would say so, and take the default configuration."""
    road = _drawn(seed)
    if road.function is tuned_matmul:
        slots = dict(road.slots)
        numbers = {name: nv.ShapeDtype(x.spec.shape, x.spec.dtype, x.spec.strides) for name, x in slots.items()}
        described = tuned_matmul._described(tuple(numbers.get(name, 2.0) for name in road.order), {})
        with warnings.catch_warnings():
            warnings.simplefilter("error", nv.TuneWarning)
            road.call(described)


def test_few_tiles_are_not_cut_by_stream_k():
    shape = Shape(688, 1888, 6976, nv.f32, nv.f32, b_major="k")
    assert choose(shape).schedule != "streamk"
    every = [config for config in legal(nv.f32, nv.f32, nv.f32, False, "k", "k") if config.schedule == "streamk"]
    assert all(cycles(config, shape) == float("inf") for config in every)


def test_an_epilogue_has_registers():
    """An epilogue of few operands gets along with 40 beside the sums, as does a store without TMA."""
    for shape in ((5000, 5000, 5000), (2560, 2560, 2560), (4400, 4800, 4096)):
        assert not choose(Shape(*shape, b_major="k", epilogue=True, turns=False)).swap_ab
    for epilogue in (False, True):
        chosen = choose(Shape(2560, 2560, 2560, b_major="k", epilogue=epilogue))
        spare = chosen.registers[1] - chosen.accumulator_registers(nv.f32)
        assert spare >= BESIDE[chosen.schedule] if epilogue else spare == 32
    for shape in ((5000, 5000, 5000), (2560, 2560, 2560), (4400, 4800, 4096)):
        assert choose(Shape(*shape, b_major="k", unaligned=True)).accumulator_registers(nv.f32) <= 192


def test_a_bias_takes_the_tiles_of_plain_products_where_operands_are_swapped():
    plain = Shape(8192, 8192, 8192, b_major="k")
    assert choose(plain).accumulator_registers(nv.f32) == 200 and choose(plain).swap_ab
    assert choose(replace(plain, epilogue=True, slight=True)) == choose(plain)
    found = allowed(replace(plain, epilogue=True, slight=True), False)
    assert all(c.swap_ab for c in found if c.registers[1] - c.accumulator_registers(nv.f32) < BESIDE[c.schedule])
    whole = allowed(replace(plain, epilogue=True, slight=True, unaligned=True), False)
    assert max(c.accumulator_registers(nv.f32) for c in whole) <= 192


def test_a_turned_result_of_words_has_registers():
    """Beside 192 sums ptxas 13.0 spilled two registers of the transpose of a result of i32."""
    found = allowed(Shape(1504, 4576, 2048, nv.i8, nv.i32, nv.i32, b_major="k"), False)
    assert max(c.accumulator_registers(nv.i32) for c in found if c.swap_ab) < 192


def test_threads_store_where_registers_are_left():
    """ptxas spilled four registers of 192 x 240 with swapped operands and a result of f32, which leaves 52, some of
    192 x 256 with scales of rows (40), and of 192 x 224 with the largest epilogue (64)."""
    shape = Shape(1000, 1001, 1000, nv.bf16, nv.f32, a_major="k", b_major="k", unaligned=True)
    spare = lambda c: c.registers[1] - c.accumulator_registers(nv.f32)  # noqa: E731
    assert min(spare(c) for c in allowed(shape, False) if c.swap_ab) == 64
    assert min(spare(c) for c in allowed(replace(shape, out=nv.bf16), False)) == 40
    assert min(spare(c) for c in allowed(replace(shape, out=nv.bf16, epilogue=True), False)) == 88
    assert min(spare(c) for c in allowed(replace(shape, out=nv.bf16, unaligned=False), False)) == 32


def test_k_is_split_where_tiles_are_few():
    config = choose(Shape(128, 128, 65536, b_major="k"))
    assert config.parts > 1
    assert choose(Shape(4096, 4096, 4096, b_major="k")).split == 1


@pytest.mark.parametrize("n", [2056, 3336, 4104])
def test_clusters_share_what_is_larger_where_rows_are_off_the_grid(n):
    config = choose(Shape(n, n, n, b_major="k"))
    assert config.cluster == 2 and (config.cluster_n == 2) == (config.tile_m >= config.tile_n)


@pytest.mark.parametrize("n", range(1024, 8192 + 1, 1024))
def test_nothing_is_loaded_together_where_rows_are_on_the_grid(n):
    assert choose(Shape(n, n, n)).cluster == 1


@pytest.mark.parametrize("dtype", sample([nv.f16, nv.e4m3], 1))
def test_what_was_chosen_before_is_taken_again(dtype):
    """For a loss of 2 %, later 3 %, nothing is compiled. Else it is one that is common, or one of a few others."""
    draw, seen, thin, weights, most = random.Random(3), [], set(), set(), ALONE
    every = legal(dtype, nv.f16, nv.f32, False, "k", "k")
    common = [config for config in every if key(config) in COMMON]
    for _ in range(150):
        shape = Shape(*(16 * round(4 * 128 ** draw.random()) for _ in range(3)), dtype, b_major="k")
        if (shape.n, shape.k) in weights:  # beside one B what was chosen for other rows is taken
            continue
        weights.add((shape.n, shape.k))
        others = len({*seen, *thin}.difference(common))
        chosen, enough = choose(shape), near(times(every, shape).min(), others)
        if chosen is THIN:
            thin.add(chosen)
            continue
        took = cycles(chosen, shape)
        if chosen in seen:
            assert took == min(cycles(config, shape) for config in seen)
        else:
            assert all(cycles(config, shape) > min(took, enough) for config in seen)
            assert chosen in common or others < most and took < min(cycles(config, shape) for config in common)
            seen.append(chosen)
        if others < most:
            assert took <= enough
    assert len({*seen, *thin}.difference(common)) == most


def test_large_results_of_a_short_k():
    """Their own tiles compute them, whatever was chosen before, but for what is small, cut up or of other types."""
    large = Shape(6272, 6336, 72, nv.bf16, nv.bf16, b_major="k")
    for shape in (large, replace(large, k=128), replace(large, n=6328), replace(large, m=3072, batches=2)):
        assert choose(shape) is THIN
    others = replace(large, k=136), replace(large, m=800), replace(large, unaligned=True)
    others = *others, replace(large, out=nv.f32), replace(large, dtype=nv.e4m3, k=64), replace(large, m=64, n=10**6)
    assert all(choose(shape) is not THIN for shape in others)


@pytest.mark.parametrize("first", [True, False])
def test_few_others_beside_results_that_tma_cant_store(first):
    """One kernel serves both kinds of result. Where those that TMA can't store come late, there are more already."""
    chosen, draw = [], random.Random(5)
    for unaligned in (first, not first):
        for _ in range(150):
            sizes = (8 * round(8 * 128 ** draw.random()) for _ in range(3))
            kind = {"dtype": nv.bf16, "a_major": "mn", "epilogue": first}  # each time one that nobody has used
            found = choose(Shape(*sizes, **kind, unaligned=unaligned))
            assert not unaligned or found.stores_without_tma(nv.bf16, nv.f32, first)
            chosen.append(found)
    others = len({config for config in chosen if key(config) not in keys_of(COMMON, True)})
    assert others == (OTHERS[16] if first else ALONE), "with M of A contiguous"


def test_few_are_compiled_beside_one_b():
    weight = {"n": 4400, "k": 4480, "b_major": "k"}
    found = [choose(Shape(m, **weight)) for m in range(64, 8192, 333)]
    assert 3 <= len(set(found)) <= MENU
    best = min(set(found), key=lambda config: cycles(config, Shape(5001, **weight)))
    assert choose(Shape(5001, **weight)) == best


@pytest.mark.parametrize("m", [1, 8, 16, 32, 64, 96, 128])
def test_few_rows_are_read_by_half_the_sms(m):
    """Of 4096 columns there are 32 tiles of 128: narrower ones, or parts of K, keep memory busy. For 64 SMs or more it
    was about the same on an H200: 6 x 4296 x 10912 took 31.8 us by 68 tiles, and 32.6 by 90 and by 108."""
    config = choose(Shape(m, 4096, 4096, b_major="k"))
    rows, cols = (4096, m) if config.swap_ab else (m, 4096)
    assert config.tiles(rows, cols) * config.cluster * config.split >= 64


def test_a_larger_product_takes_longer():
    for config in legal(nv.f16, nv.f16, nv.f32):
        small, large = (cycles(config, Shape(n, n, n)) for n in (2048, 4096))
        assert small < large, config


@pytest.mark.parametrize(
    ("config", "b_major"),
    sample(itertools.product(SPLIT, ("k", "mn")), 6),
    ids=lambda x: x if isinstance(x, str) else f"{x.tile_m}x{x.tile_n}-{x.consumers}",
)
def test_blocks_of_an_sm_are_those_of_the_compiled_kernel(config, b_major):
    square = nv.ShapeDtype((512, 512), nv.f16)
    (kernel,) = splitk.matmul.compile(square, square, square, config=config, b_major=b_major).kernels.values()
    found = occupancy(config.threads, kernel.resources.registers, kernel.smem_bytes)
    assert blocks_of_an_sm(config, nv.f16, b_major) == found.blocks


def test_other_schedules_have_an_sm_for_themselves():
    assert blocks_of_an_sm(Config(64, 64, consumers=1, stages=2), nv.f16, "k") == 1


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4096, 4096, 4096), [1, 4096, 4096, 4096, 1, 1]),
        ((4000, 4097, 5000), [1, 4096, 4224, 4096, 0, 0]),  # 4097 columns of f16 are off the grid
        ((4000, 4104, 5000), [1, 4096, 4224, 4096, 0, 1]),
        ((1, 4096, 14336), [1, 1, 4096, 16384, 1, 1]),
        ((33, 4096, 4096), [1, 64, 4096, 4096, 1, 1]),
        ((129, 4096, 4096), [1, 192, 4096, 4096, 1, 1]),
        ((257, 4096, 4096), [1, 384, 4096, 4096, 1, 1]),
    ],
)
def test_shapes_of_a_class_have_as_many_tiles(shape, expected):
    m, n, k = shape
    assert shape_class(nv.ShapeDtype((m, k), nv.f16), nv.ShapeDtype((m, n), nv.f16), "k") == expected
