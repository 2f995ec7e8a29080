"""How kernels see the arrays: each road, carried out by NumPy, gives the product, whatever the strides."""

from __future__ import annotations

from dataclasses import replace

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import LinearCombination
from nvdsl.kernels.gemm import flat, gathered, gemv, residues, short, simple, small, small_words
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.dispatch import SIMPLE_PRODUCTS, find
from nvdsl.kernels.gemm.problem import GemmProblem, Matrix
from nvdsl.kernels.gemm.tuned import tuned_matmul

CONFIG = Config(64, 64, stages=2, consumers=1)


@st.composite
def placed(draw, shape, repeated=True):
    """Memory, and an array of ``shape`` in it: axes in any order, padded, from any element on; batches may repeat."""
    order = draw(st.permutations(range(len(shape))))
    strides, step = [0] * len(shape), 1
    for axis in order:
        if repeated and axis < len(shape) - 2 and draw(st.booleans()):
            continue  # one for all
        strides[axis] = step
        step = step * shape[axis] + draw(st.sampled_from([0, 0, 1, 8]))
    start = draw(st.sampled_from([0, 3, 8]))
    memory = np.random.default_rng(step).integers(-4, 5, start + step).astype(np.float32)
    array = np.lib.stride_tricks.as_strided(memory[start:], shape, [4 * s for s in strides])
    return memory[start:], Matrix(nv.f16, shape, tuple(strides), start % 8 == 0), array


@st.composite
def products(draw):
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    m, n, k = (draw(st.sampled_from([1, 2, 8, 9, 16])) for _ in range(3))
    cut = draw(st.integers(0, len(batch)))
    a = draw(placed((*batch, m, k)))
    b = draw(placed((*batch[cut:], k, n)))
    out = draw(placed((*batch, m, n), repeated=False))
    return a, b, out


def by_numpy(road, sources):
    """What a road's kernel does."""
    for launch in range(road.launches):
        with road.packed(sources) as given:
            for name, packing in road.packs.items():
                *outer, cols = packing.source.spec.shape
                copy = given[name].reshape(packing.target.spec.shape)[..., :cols]
                copy[...] = packing.source.described(sources[name], launch)[1][2]
            a, b, out = (memory[2] for _, memory in road.described(given, 1.0, 0.0, launch))
        k = road.problem.sizes[2]
        if road.function is flat.matmul:
            a, b = (x.reshape(*x.shape[:-2], -1, k) for x in (a, b))
        if road.function in (gemv.rows, gemv.columns, small.matmul, flat.matmul):
            out[...] = (a.swapaxes(-1, -2) if road.function is gemv.columns else a) @ b.swapaxes(-1, -2)
            continue
        a = a[..., :k] if road.options.get("a_major", "k") == "k" else a[..., : out.shape[-2]]
        b = b[..., :k] if road.options.get("b_major", "mn") == "k" else b[..., : out.shape[-1]]
        if road.function in (tuned_matmul, short.matmul):
            a = a if road.options["a_major"] == "k" else a.swapaxes(-1, -2)
            b = b if road.options["b_major"] == "mn" else b.swapaxes(-1, -2)
        out[...] = a @ b


@hypothesis.given(products(), st.booleans())
def test_every_road_is_the_product(given, fast):
    (a_memory, a, x), (b_memory, b, y), (out_memory, out, result) = given
    problem = GemmProblem.of({"a": a, "b": b, "out": out}, None, None)
    road = find(problem, LinearCombination(), CONFIG if fast else None, "sim")
    expected = np.matmul(x, y)
    by_numpy(road, {"a": a_memory, "b": b_memory, "out": out_memory})
    np.testing.assert_array_equal(result, expected)


@hypothesis.given(products())
def test_what_is_not_packed_suits_tma(given):
    """Each array of a road over the tensor cores has contiguous rows at multiples of 16 bytes, or is copied."""
    (_, a, _), (_, b, _), (_, out, _) = given
    road = find(GemmProblem.of({"a": a, "b": b, "out": out}, None, None), LinearCombination(), CONFIG, "sim")
    for name, slot in road.slots:
        if name != "out" or not road.options["direct_store"]:
            *outer, cols = zip(slot.spec.shape, slot.spec.strides, strict=True)
            assert cols[0] == 1 or cols[1] == 1, name
            assert all(n == 1 or (s > 0 and s * 2 % 16 == 0) for n, s in outer), name
            assert all(start * 2 % 16 == 0 for start in slot.starts), name


def road(m, n, k, dtype=nv.f16, **strides):
    given = {"a": Matrix(dtype, (m, k), strides.get("a", (k, 1))), "b": Matrix(dtype, (k, n), strides.get("b", (n, 1)))}
    return find(GemmProblem.of(given, None, None), LinearCombination(), None, "sim")


def test_small_products_are_not_copied_for():
    assert road(16, 16, 15).function is road(16, 16, 13, nv.i8).function is simple.matmul
    assert road(16, 16, 131, nv.f32).function is road(256, 256, 65, nv.f64).function is simple.matmul
    assert road(16, 16, 131).function is road(16, 16, 131, nv.i8).function is road(16, 16, 264).function is small.matmul
    assert road(16, 16, 16).function is short.matmul and road(16, 16, 24).function is tuned_matmul
    assert SIMPLE_PRODUCTS < 1024 * 1024 * 1001 and road(1024, 1024, 1001).function is tuned_matmul


ON_A_GPU = {nv.bf16: [
    (simple.matmul, [(8, 1904, 8), (106, 9, 32), (12, 93, 59), (8, 2, 4110), (8, 8, 968)]),
    (flat.matmul, [(264, 3558, 116), (14879, 808, 14), (26936, 3296, 8), (12532, 19976, 16), (22600, 3541, 36)]),
    (short.matmul, [(2446, 54, 24), (688, 182, 44), (42, 1876, 50)]),
    (small.matmul, [(56, 24, 11336)]),
    (small_words.matmul, [(858, 4, 25812), (54, 8, 8014), (8, 3666, 2259), (28506, 4, 66), (40, 38, 3890)]),
    (gathered.matmul, [(1042, 16, 9142), (14, 9345, 1002), (50468, 32, 574)]),
    (small.matmul, [(50, 2096, 105), (1088, 48, 202), (1602, 32, 205)]),
    (tuned_matmul, [(952, 56, 3846), (17656, 226, 63)]),
    (residues.matmul, [(8, 20002, 22450), (42, 6358, 22726), (7576, 8, 26837), (69511, 16, 467), (2019, 98, 30892)]),
    (tuned_matmul, [(1568, 1322, 228), (28578, 2572, 98), (512, 512, 512), (1940, 17876, 65)]),
], nv.e4m3: [
    (flat.matmul, [(136, 2758, 22), (13124, 8, 8), (98, 8153, 24)]),
    (small.matmul, [(120, 73, 294), (11, 3762, 77), (80, 22, 1384)]),
    (residues.matmul, [(31676, 24, 17247), (12000, 60, 4001)]),
    (tuned_matmul, [(72, 1552, 109), (32338, 9300, 26), (104, 8, 10939), (8198, 2, 987), (83, 24539, 1134)]),
]}  # fmt: skip
"""What races of all these showed."""


@pytest.mark.parametrize("dtype", ON_A_GPU, ids=str)
def test_what_is_fastest_on_a_gpu(decided_for_a_gpu, dtype):
    for function, shapes in ON_A_GPU[dtype]:
        for m, n, k in shapes:
            assert road(m, n, k, dtype, b=(1, k)).function is function, (m, n, k)


def test_doubles_and_empty_sums_go_the_simple_road():
    assert road(512, 512, 512, nv.f64).function is simple.matmul
    assert road(4, 4, 0).function is simple.empty_sums
    assert road(0, 4, 4).launches == 0


def test_transposed_factors_are_copied_only_where_wgmma_needs_it():
    columns = {"a": (1, 1024), "b": (1, 1024)}
    sixteen, eight = road(1024, 1024, 1024, **columns), road(1024, 1024, 1024, nv.i8, **columns)
    assert (sixteen.options["a_major"], sixteen.options["b_major"]) == ("mn", "k")
    assert list(sixteen.packs) == [] and list(eight.packs) == ["a"] and eight.packs["a"].turned


def test_one_factor_of_32_bits_is_read_as_it_lies():
    """By the kernel as its A. The larger one of two; B only where TMA can store the result's transpose."""

    def found(layout, m=1024, n=512, k=256, config=None):
        strides = {"a": (1, m) if layout[0] == "T" else (k, 1), "b": (1, k) if layout[1] == "T" else (n, 1)}
        given = {name: Matrix(nv.f32, shape, strides[name]) for name, shape in (("a", (m, k)), ("b", (k, n)))}
        one = find(GemmProblem.of(given, None, None), LinearCombination(), config, "sim")
        return [*one.packs], one.options["a_major"], one.options["b_major"]

    assert found("NN") == ([], "k", "mn") and found("TT") == ([], "mn", "k") and found("NT") == ([], "k", "k")
    assert found("TN") == (["b"], "mn", "k") and found("TN", n=2048) == (["a"], "k", "mn")
    assert found("NN", n=514) == (["b"], "k", "k")
    assert found("NN", m=64, n=512, k=4096) == ([], "k", "mn")
    shared, own = Config(128, 64, stages=4), Config(128, 64, stages=4, schedule="pingpong")
    assert found("TT", config=shared) == ([], "mn", "k") and found("TT", config=own) == (["a"], "k", "k")
    assert found("NN", config=shared) == (["b"], "k", "k")
    assert found("NN", config=replace(shared, swap_ab=True)) == ([], "k", "mn")


def test_a_configuration_that_does_not_fit_is_refused():
    given = {"a": Matrix(nv.f16, (64, 64), (64, 1)), "b": Matrix(nv.f16, (64, 64), (64, 1))}
    with pytest.raises(nv.ArgumentError, match=r"(?s)bytes of shared memory.*leave config= out"):
        find(GemmProblem.of(given, None, None), LinearCombination(), Config(stages=9), "sim")


IN_PLACE = [
    (10, 7, 31, "nn"),
    (4, 74, 25, "tt"),
    (39, 9, 32, "tt"),
    (33, 24, 64, "nn"),
    (70, 130, 8, "nt"),
    (5, 9, 200, "tn"),
]


@pytest.mark.parametrize(("m", "n", "k", "layout"), IN_PLACE)
def test_adding_to_c_in_place(m, n, k, layout):
    """Threads of tiles that lie beyond the result's edge read nothing of what others store there."""
    rng = np.random.default_rng((m, n, k))
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n), (m, n)))
    a, b = (np.asfortranarray(x) if major == "t" else x for x, major in zip((a, b), layout, strict=True))
    expected = c + a.astype(np.float32) @ b.astype(np.float32)
    found = nv.matmul(a, b, c=c, out=c, target="sim")
    np.testing.assert_array_equal(found, expected.astype(np.float16))
