"""nv.grouped_matmul in the simulator: groups of any size, of rows and along K; and the tiles that warps find."""

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.group_tiles import GroupTiles
from nvdsl.kernels.gemm import grouped, grouped_k
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.grouped_dispatch import TILES, choose
from nvdsl.kernels.gemm.model import Shape
from tests.exhaustive import exhaustive, sample
from tests.sim.simulate import run
from tests.unit.kernels.sizes import by_groups, integers, parts

SMALL = Config(64, 64, stages=2, consumers=1)
CONFIGS = [
    SMALL,
    Config(128, 64, stages=3, consumers=2, store_buffers=1),
    Config(64, 32, stages=3, schedule="pingpong"),
    Config(64, 64, stages=2, consumers=1, cluster_m=2),
]
SIZES = st.lists(st.sampled_from([0, 0, 1, 7, 64, 65, 130]), min_size=1, max_size=5)


def name(config):
    return f"{config.schedule}-{config.tile_m}-{config.cluster}"


@pytest.mark.parametrize("config", sample(CONFIGS[::-1], 1), ids=name)
@hypothesis.settings(max_examples=3, derandomize=True)
@hypothesis.given(SIZES, st.sampled_from([0, 3, 70]), st.sampled_from([8, 72, 160]), st.sampled_from([8, 64, 200]))
def test_groups_of_rows(config, counts, behind, n, k):
    offsets = np.cumsum(counts, dtype=np.int32)
    m = max(offsets[-1] + behind, 1)
    a, b = integers(m, k), integers(len(counts), n, k).mT
    out = np.full((m, n), np.nan, np.float32)
    assert nv.grouped_matmul(a, b, out, offsets=offsets, config=config, target="sim") is out
    np.testing.assert_array_equal(out, by_groups(a, b, offsets))


@pytest.mark.parametrize("config", sample([*CONFIGS[:0:-1], Config(128, 64, stages=3, cluster_n=2)], 1), ids=name)
@hypothesis.settings(max_examples=3, derandomize=True)
@hypothesis.given(SIZES, st.sampled_from([0, 3, 70]), st.sampled_from([8, 72]), st.sampled_from([8, 136]))
def test_groups_along_k(config, counts, behind, m, n):
    offsets = np.cumsum(counts, dtype=np.int32)
    k = max(offsets[-1] + behind, 1)
    x, dy = integers(k, m), integers(k, n)
    x[offsets[-1] :] = np.nan  # nobody's
    out = np.full((len(counts), m, n), np.nan, np.float32)
    nv.grouped_matmul(x.T, dy, out, offsets=offsets, config=config, target="sim")
    expected = [x[start:end].astype(float).T @ dy[start:end].astype(float) for start, end in parts(offsets)]
    np.testing.assert_array_equal(out, expected)


def test_one_row_along_k_that_ends_anywhere():
    """There is no second row, but windows of the first one have a step, and tensor maps take multiples of 16 bytes."""
    x, dy = integers(1, 3), integers(1, 9)
    found = nv.grouped_matmul(x.T, dy, offsets=np.array([1], np.int32), config=SMALL, target="sim")
    np.testing.assert_array_equal(found, (x.T @ dy)[None])


def test_a_consumer_ahead_of_its_turn_leaves_the_slots_of_the_other():
    """A tile of more slices than the ring has slots, twice over, while the next tile's consumer waits."""
    config, offsets = Config(64, 32, stages=3, schedule="pingpong"), np.cumsum([650, 3, 460], dtype=np.int32)
    x, dy = integers(offsets[-1], 64), integers(offsets[-1], 64)
    out = np.full((3, 64, 64), np.nan, np.float32)
    run(grouped_k.matmul, x, dy, offsets, out, config=config, blocks=1)
    expected = [x[start:end].astype(float).T @ dy[start:end].astype(float) for start, end in parts(offsets)]
    np.testing.assert_array_equal(out, expected)


def test_what_one_group_has_says_nothing_of_the_next():
    """Tiles and slices reach over: infinity and NaN of a neighbour stay its own."""
    offsets = np.array([5, 70, 75], np.int32)
    x, w, dy = integers(80, 64), integers(3, 64, 16), integers(80, 16)
    x[5:70], dy[5:70] = np.nan, np.inf
    y = nv.grouped_matmul(x, w, offsets=offsets, config=SMALL, target="sim")
    dw = nv.grouped_matmul(x.T, dy, offsets=offsets, config=SMALL, target="sim")
    assert np.isnan(y[5:70]).all() and np.isfinite(np.delete(y, slice(5, 70), 0)).all()
    assert np.isnan(dw[1]).all() and np.isfinite(dw[[0, 2]]).all()


@pytest.mark.parametrize("n", [40, *sample([33, 136], 0)])
def test_gradients_that_are_added_up_in_tiles_wider_than_they_are(n):
    """Of columns beyond the edge nothing is read: the last ones are on their way out."""
    offsets, x, dy = np.array([10, 30], np.int32), integers(30, 24), integers(30, n)
    sums, config = np.ones((2, 24, n), np.float32), Config(64, 256, stages=2, consumers=1)
    nv.grouped_matmul(x.T, dy, sums, c=sums, offsets=offsets, config=config, target="sim")
    expected = [x[s:e].astype(float).T @ dy[s:e].astype(float) + 1 for s, e in parts(offsets)]
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize(("k", "n"), [(24, 13), *sample([(24, 40), (0, 8), (72, 64)], 0)])
def test_gated_groups(k, n):
    """Halves that start off 16 bytes, a row of the bias for each group, rows that nobody has."""
    offsets, bias = np.array([10, 10, 60], np.int32), integers(3, 2 * n)
    a, b = integers(70, k), integers(3, k, 2 * n)
    given = {"bias": bias, "alpha": 0.5, "activation": "reglu", "out_dtype": nv.f32}
    y = nv.grouped_matmul(a, b, offsets=offsets, **given, target="sim")
    sums = by_groups(a, b, offsets) * 0.5 + np.repeat(bias, [10, 0, 60], axis=0)
    np.testing.assert_array_equal(y[:60], (np.maximum(sums[:, :n], 0) * sums[:, n:])[:60])
    assert not y[60:].any()
    assert nv.grouped_matmul(a, b[:0], offsets=offsets[:0], activation="swiglu", target="sim").shape == (70, n)


def test_offsets_of_64_bits_are_clamped_before_they_are_cut():
    offsets, a, b = np.array([10, 2**32 + 5], np.int64), integers(16, 16), integers(2, 16, 16)
    out, sums = np.full((16, 16), np.nan, np.float32), np.full((2, 16, 16), np.nan, np.float32)
    run(grouped.matmul, a, b, offsets, out, config=SMALL, blocks=1)
    np.testing.assert_array_equal(out, by_groups(a, b, [10, 16]))
    run(grouped_k.matmul, a, a, offsets, sums, config=SMALL, blocks=1)
    np.testing.assert_array_equal(sums, [a[s:e].astype(float).T @ a[s:e].astype(float) for s, e in parts([10, 16])])


@exhaustive
@pytest.mark.parametrize("groups", [70, 31, 32, 33, 64, 65])
def test_more_groups_than_a_warp_has_lanes(groups):
    rng = np.random.default_rng(groups)
    offsets = np.cumsum(rng.integers(0, 4, groups))  # i64
    a, b = integers(int(offsets[-1]), 16), integers(groups, 16, 8)
    found = nv.grouped_matmul(a, b, offsets=offsets, config=SMALL, out_dtype=nv.f32, target="sim")
    np.testing.assert_array_equal(found, by_groups(a, b, offsets))


def test_epilogues():
    offsets, m, n, k = np.array([0, 40, 90], np.int32), 100, 24, 32
    a, b, c = integers(m, k), integers(3, k, n), integers(m, n, dtype=np.float32)
    bias = integers(3, n)
    rows, cols = (2.0 ** integers(*shape, dtype=np.float32) for shape in ((m, 1), (3, 1, n)))
    options = {"offsets": offsets, "config": SMALL, "out_dtype": nv.f32, "target": "sim"}
    found = nv.grouped_matmul(a, b, bias=bias, activation="relu", **options)
    np.testing.assert_array_equal(found, by_groups(a, b, offsets, lambda x, g, _: np.maximum(x + bias[g], 0)))
    found = nv.grouped_matmul(a, b, c=c, alpha=2.0, beta=0.5, scale_a=rows, scale_b=cols, **options)
    scaled = by_groups(a, b, offsets, lambda x, g, at: 2 * rows[at] * cols[g] * x + 0.5 * c[at])
    np.testing.assert_array_equal(found, scaled)
    dy = integers(m, n)
    first = nv.grouped_matmul(a.T, dy, **options)
    again = first.copy()
    nv.grouped_matmul(a.T, dy, again, c=again, **options)
    np.testing.assert_array_equal(again, 2 * first)
    with pytest.raises(nv.ArgumentError, match="out and c"):
        nv.grouped_matmul(a, b, c, c=c, **options)


@pytest.mark.parametrize("stored", sample(["odd rows", "columns of a", "gaps", "columns of out"], 1))
def test_any_strides(stored):
    offsets = np.array([30, 70], np.int32)
    a, b, out = integers(72, 24), integers(2, 24, 40), np.full((72, 40), np.nan, np.float32)
    if stored == "columns of a":
        a = np.asfortranarray(a)
    elif stored == "gaps":
        a, b = integers(72, 48)[:, ::2], integers(2, 48, 80)[:, ::2, ::2]
    elif stored == "columns of out":
        out = np.full((40, 72), np.nan, np.float32).T
    else:
        a, b, out = integers(72, 25)[:, 1:], integers(2, 24, 41)[..., 1:], np.full((72, 41), np.nan, np.float32)[:, 1:]
    nv.grouped_matmul(a, b, out, offsets=offsets, config=SMALL, target="sim")
    np.testing.assert_array_equal(out, by_groups(a, b, offsets))


def test_empty_arrays():
    options = {"offsets": (o := np.array([2, 5], np.int32)), "out_dtype": nv.f32, "target": "sim"}
    bias = integers(2, 8)
    found = nv.grouped_matmul(integers(7, 0), integers(2, 0, 8), bias=bias, **options)
    np.testing.assert_array_equal(found, by_groups(integers(7, 0), integers(2, 0, 8), o, lambda x, g, _: x + bias[g]))
    assert not nv.grouped_matmul(integers(7, 8), integers(0, 8, 8), offsets=o[:0], target="sim").any()
    none = np.zeros(2, np.int32)
    assert nv.grouped_matmul(integers(0, 8), integers(2, 8, 8), offsets=none, target="sim").shape == (0, 8)
    assert not nv.grouped_matmul(integers(0, 8).T, integers(0, 16), offsets=none, target="sim").any()


@exhaustive
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float32, np.int8])
def test_types(dtype):
    offsets = np.array([10, 33], np.int32)
    a, b = integers(40, 32, dtype=dtype), integers(2, 32, 16, dtype=dtype)
    found = nv.grouped_matmul(a, b, offsets=offsets, target="sim")
    np.testing.assert_array_equal(found.astype(float), by_groups(a, b, offsets))


def test_block_scales():
    rng = np.random.default_rng(0)
    offsets, m, n, k = np.array([10, 10, 133], np.int32), 140, 136, 272
    a, b = integers(m, k, dtype=ml_dtypes.float8_e4m3fn), integers(3, n, k, dtype=ml_dtypes.float8_e4m3fn).mT
    rows, cols = (2.0 ** rng.integers(-1, 2, shape).astype(np.float32) for shape in ((m, 3), (3, 3, 2)))
    wide = np.repeat(np.repeat(cols, 128, 1)[:, :k], 128, 2)[..., :n]
    expected = by_groups(a.astype(float) * np.repeat(rows, 128, 1)[:, :k], b.astype(float) * wide, offsets)
    options = {"offsets": offsets, "scale_a": rows, "scale_b": cols, "target": "sim"}
    config = Config(128, 64, stages=3, store_buffers=1)
    found = nv.grouped_matmul(a, b, out_dtype=nv.f32, config=config, **options)
    np.testing.assert_array_equal(found, expected)
    bias, c = integers(3, n, dtype=np.float32), integers(m, n)
    found = nv.grouped_matmul(a, b, bias=bias, c=c, alpha=2.0, activation="relu", out_dtype=nv.f32, **options)
    expected = 2 * expected + c
    for group, (start, end) in enumerate(parts(offsets)):
        expected[start:end] += bias[group]
    np.testing.assert_array_equal(found[:133], np.maximum(expected, 0)[:133])
    assert not found[133:].any()
    with pytest.raises(nv.ArgumentError, match="scales for blocks of f16"):
        nv.grouped_matmul(a.astype(np.float16), b.astype(np.float16), **options)


A, B = np.ones((20, 16), np.float16), np.ones((2, 16, 8), np.float16)


@pytest.mark.parametrize(
    ("a", "b", "offsets", "options", "said"),
    [
        (A, B, np.array([10, 5]), {}, r"offsets\[1\] = 5 after 10"),
        (A, B, np.array([10, 21]), {}, r"offsets\[1\] = 21"),
        (A, B, np.array([-1, 20]), {}, r"offsets\[0\] = -1"),
        (A, B, np.array([10.0, 20.0]), {}, "f64"),
        (A, B, np.array([0, 10, 20]), {}, "leave out the 0 at the start"),
        (A, B, [10, 20], {}, "offsets is a list"),
        (A, B[:, :8], np.array([10, 20]), {}, "K is a's last axis"),
        (A[0], B, np.array([10, 20]), {}, "groups of rows"),
        (A, B, np.array([10, 20]), {"out": np.ones((2, 20, 8), np.float16)}, "out of shape"),
        (A, B, np.array([10, 20]), {"bias": np.ones((3, 8), np.float16)}, "one row for all groups"),
        (A, B, np.array([10, 20]), {"config": Config(64, 64, consumers=1, schedule="splitk", split=2)}, "config= out"),
        (A.T.astype(np.float32), np.ones((20, 8), np.float32), np.array([10, 20]), {}, "convert both to f16"),
        (A.astype(np.float64), B.astype(np.float64), np.array([10, 20]), {}, "f64"),
    ],
)
def test_what_is_wrong_is_said(a, b, offsets, options, said):
    with pytest.raises(nv.ArgumentError, match=said) as caught:
        nv.grouped_matmul(a, b, offsets=offsets, target="sim", **options)
    assert "test_grouped.py" in str(caught.value)


@nv.jit
def listed(offsets: nv.Array["g"], out: nv.Array, m: int, n: int, *, tile, cluster, step):  # noqa: F821
    """What each of ``step`` clusters finds: group, row, column and end of one tile after the other."""
    tiles = GroupTiles(offsets, (m, n), tile, (cluster, 1), band=3)

    @nv.kernel(grid=step, block=32)
    def kernel():
        found = tiles.first(nv.block_id.x)
        while found.valid:
            for i, x in enumerate((found.group, found.row, found.col, found.end)):
                out[found.number, i] = x
            found = found.next(step)

    kernel()


@hypothesis.settings(max_examples=6, derandomize=True)
@hypothesis.given(st.lists(st.integers(0, 9), min_size=1, max_size=70), st.integers(1, 5), st.sampled_from([1, 5]))
def test_the_tiles_are_those_of_all_groups(counts, cols, step):
    offsets, n = np.cumsum(counts, dtype=np.int32), cols * 2
    expected = {
        (g, row, col, end)
        for g, (start, end) in enumerate(parts(offsets))
        for row in range(start, end, 4)
        for col in range(0, n, 2)
    }
    out = np.full((len(expected) + 1, 4), -1, np.int32)
    listed(offsets, out, int(offsets[-1]), n, tile=(2, 2), cluster=2, step=step, target="sim")
    assert {tuple(row) for row in out[:-1].tolist()} == expected and (out[-1] == -1).all()
    assert (np.diff(out[:-1, 0]) >= 0).all()


MANY = [Shape(m, n, 4096, nv.bf16, nv.bf16, nv.f32, 8, "k", "k") for m in (1, 100, 1000, 10_000) for n in (512, 14_336)]


def test_few_configurations_serve_all_sizes():
    assert 2 <= len({choose(shape, False) for shape in MANY}) <= sum(map(len, TILES.values()))


@exhaustive
@pytest.mark.parametrize("along_k", [False, True])
@pytest.mark.parametrize("config", sorted({choose(shape, False) for shape in MANY}, key=repr), ids=name)
def test_registers(config, along_k):
    shape = lambda *axes: nv.ShapeDtype(axes, nv.bf16)  # noqa: E731
    kernel = nv.jit((grouped_k if along_k else grouped).matmul.__wrapped__, strict=True)
    a, b = shape("m", "k % 8"), shape("g", "n % 8", "k % 8")
    out, more = shape("m", "n % 8"), {"b_major": "k"}
    if along_k:
        a, b, out, more = shape("k", "m % 8"), shape("k", "n % 8"), shape("g", "m", "n % 8"), {}
    found = kernel.compile(a, b, nv.ShapeDtype(("g",), nv.i32), out, config=config, blocks=132, **more)
    for one in found.kernels.values():
        assert (one.resources.stack, one.resources.spill_stores, one.resources.spill_loads) == (0, 0, 0)


@pytest.mark.parametrize(("m", "k", "groups"), [(0, 130, 2), (5, 0, 2), (5, 130, 0)])
def test_block_scales_of_no_tokens_no_factors_and_no_groups(m, k, groups):
    a, b = np.ones((m, k), ml_dtypes.float8_e4m3fn), np.ones((groups, k, 200), ml_dtypes.float8_e4m3fn)
    slices = -(-k // 128)
    scales = {"scale_a": np.ones((m, slices), np.float32), "scale_b": np.ones((groups, slices, 2), np.float32)}
    found = nv.grouped_matmul(a, b, offsets=np.full(groups, m, np.int32), out_dtype=nv.f32, **scales, target="sim")
    np.testing.assert_array_equal(found, np.zeros((m, 200), np.float32))


def test_consumers_that_leave_out_rows_count_in_the_choice():
    """A last tile takes two consumers of 64 rows each less than one of 128 rows."""
    of = {"dtype": nv.bf16, "out": nv.bf16, "acc": nv.f32, "batches": 8, "b_major": "k"}
    assert choose(Shape(1024, 4096, 14336, **of), False).schedule == "cooperative"
    assert choose(Shape(1024, 14336, 4096, **of), False).schedule == "pingpong"
