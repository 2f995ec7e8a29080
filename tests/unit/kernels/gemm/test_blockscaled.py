"""Block scales: each slice of K is scaled before it is added."""

from dataclasses import replace

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import nvdsl as nv
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.blocks.linear_combination import LinearCombination, gelu
from nvdsl.kernels.gemm.blockscaled import DEFAULT, TILES, choose, matmul
from nvdsl.kernels.gemm.config import Config
from tests.exhaustive import exhaustive, sample

SMALL = Config(64, 64, 128, stages=3, consumers=1)
WIDE = Config(128, 192, 128, stages=3, store_buffers=1)
"""Its tiles have columns of two or three blocks."""


@pytest.mark.parametrize(
    ("m", "n", "k", "config"),
    sample([
        (70, 200, 400, SMALL), (64, 64, 128, SMALL), (70, 456, 272, WIDE), (1, 8, 16, SMALL),
        (70, 200, 400, replace(SMALL, cluster_m=2)), (130, 136, 272, SMALL),
    ], 3),
)
def test_the_sum_of_scaled_slices(m, n, k, config):
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((m, k), (n, k)))
    slices, columns = -(-k // 128), -(-n // 128)
    sa, sb = (2.0 ** rng.integers(-2, 3, shape) for shape in ((m, slices), (slices, columns)))
    expected = np.zeros((m, n))
    for i in range(slices):
        part = a[:, i * 128 : (i + 1) * 128].astype(float) @ b[:, i * 128 : (i + 1) * 128].astype(float).T
        expected += sa[:, i : i + 1] * np.repeat(sb[i], 128)[:n] * part
    out = np.full((m, n), np.nan, np.float32)
    matmul(a, b, *(s.astype(np.float32) for s in (sa, sb)), out, config=config, blocks=2, target="sim")
    np.testing.assert_array_equal(out, expected)


@exhaustive
@hypothesis.settings(max_examples=20, derandomize=True, deadline=None)
@hypothesis.given(
    st.sampled_from([1, 63, 130, 260]), st.sampled_from([1, 8, 129, 200]), st.sampled_from([1, 16, 129, 700]),
    st.sampled_from([SMALL, WIDE, DEFAULT]),
)  # fmt: skip
def test_any_sizes(m, n, k, config):
    hypothesis.assume(max(n, k) > 128)  # else they are scales of rows and of the tensor
    rng = np.random.default_rng((m, n, k))
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    sa, sb = 2.0 ** rng.integers(-2, 3, (m, -(-k // 128))), 2.0 ** rng.integers(-2, 3, (-(-k // 128), -(-n // 128)))
    exact = (a * np.repeat(sa, 128, 1)[:, :k]) @ (b * np.repeat(np.repeat(sb, 128, 0), 128, 1)[:k, :n])
    x, y = a.astype(ml_dtypes.float8_e4m3fn), np.asfortranarray(b.astype(ml_dtypes.float8_e4m3fn))
    scales = {"scale_a": sa.astype(np.float32), "scale_b": sb.astype(np.float32)}
    found = nv.matmul(x, y, **scales, out_dtype=nv.f32, config=config, target="sim")
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("shape", [(70, 200, 256), (33, 130, 300)], ids=["as they lie", "copied"])
def test_matmul_knows_them_by_their_shapes(shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    sa, sb = 2.0 ** rng.integers(-2, 3, (m, -(-k // 128))), 2.0 ** rng.integers(-2, 3, (-(-k // 128), -(-n // 128)))
    scales = {"scale_a": sa.astype(np.float32), "scale_b": sb.astype(np.float32)}
    exact = (a * np.repeat(sa, 128, 1)[:, :k]) @ (b * np.repeat(np.repeat(sb, 128, 0), 128, 1)[:k, :n])
    x, y = a.astype(ml_dtypes.float8_e4m3fn), np.asfortranarray(b.astype(ml_dtypes.float8_e4m3fn))
    got = nv.matmul(x, y, **scales, out_dtype=nv.f32, config=SMALL, target="sim")
    np.testing.assert_array_equal(got, exact)
    c, bias = rng.integers(-3, 4, (m, n)).astype(np.float32), rng.integers(-3, 4, n).astype(np.float16)
    options = {"alpha": 2.0, "c": c, "beta": 0.5, "bias": bias, "activation": "relu", "out_dtype": nv.f32}
    np.testing.assert_array_equal(
        nv.matmul(x, y, **scales, **options, target="sim"), np.maximum(2 * exact + 0.5 * c + bias, 0)
    )


def scaled(m, n, k, dtype=ml_dtypes.float8_e4m3fn, batch=(), **options):
    """A product with scales of 2 and 1/4, all other elements ones."""
    a, b = np.ones((*batch, m, k), dtype), np.ones((*batch, k, n), dtype)
    slices, columns = -(-k // 128), -(-n // 128)
    scales = {"scale_a": np.full((m, slices), 2, np.float32), "scale_b": np.full((slices, columns), 0.25, np.float32)}
    return nv.matmul(a, b, **scales, target="sim", **options)


@pytest.mark.parametrize(("m", "n", "k"), [(24, 200, 0), (0, 64, 256), (16, 0, 256), (8, 144, 64)])
def test_sizes_of_zero_and_of_one_block_along_k(m, n, k):
    np.testing.assert_array_equal(scaled(m, n, k, out_dtype=nv.f32), np.full((m, n), k / 2, np.float32))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": np.int8}, "scale rows and columns"),
        ({"dtype": np.float16}, "scale rows and columns"),
        ({"batch": (2,)}, "without batches"),
        ({"acc_dtype": nv.f16}, "leave acc_dtype out"),
        ({"config": Config(128, 208)}, "64 rows and up to 192 columns"),
        ({"config": Config(128, 64, stages=2)}, "three|third"),
        ({"config": Config(256, 64)}, "64 rows and up to 192 columns"),
        ({"config": Config(128, 128, schedule="pingpong")}, "64 rows and up to 192 columns"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_block_scales_can_not_do_is_said_at_the_callers_line(options, said):
    with pytest.raises(nv.ArgumentError, match=said) as caught:
        scaled(64, 64, 256, **options)
    assert caught.value.where.file == __file__


def test_rounds_decide_which_tile_is_taken():
    assert choose(3584, 3584, 132) == TILES[1]  # 6 rounds of 128 columns, not 5 of 192
    assert choose(4096, 4096, 132) == choose(8192, 8192, 132) == TILES[0]
    assert choose(64, 8192, 132).tile_m == 64


@pytest.mark.parametrize("config", sample([*TILES, choose(1, 128, 132)], 1))
def test_its_registers(config):
    arrays = [nv.ShapeDtype(shape, nv.e4m3) for shape in ((4096, 2048), (1024, 2048))]
    scales = [nv.ShapeDtype(shape, nv.f32) for shape in ((4096, 16), (16, 8))]
    strict = nv.jit(matmul.__wrapped__, strict=True)
    compiled = strict.compile(*arrays, *scales, nv.ShapeDtype((4096, 1024), nv.bf16), blocks=132, config=config)
    (kernel,) = compiled.kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
    assert config.problems(nv.e4m3, nv.bf16, nv.f32) == []


@exhaustive
@pytest.mark.parametrize(
    "finish", [LinearCombination(bias=True, activation=gelu), LinearCombination(True, c=True, bias=True)], ids=repr
)
@pytest.mark.parametrize("config", [*TILES, choose(1, 128, 132)])
@pytest.mark.parametrize("direct", [False, True])
def test_its_registers_beside_an_epilogue(finish, config, direct):
    shape = nv.ShapeDtype
    factors = [shape(("m", "k % 16"), nv.e4m3), shape(("n % 16", "k % 16"), nv.e4m3)]
    scales = [shape(("m", "s"), nv.f32), shape(("s", "t"), nv.f32)]
    more = [1.5, 0.5, shape((1, "m", "n % 16"), nv.bf16)] if finish.c else []
    operands = [*more, shape((1, "m", "n"), nv.bf16, (0, 0, 1))]
    compiled = nv.jit(matmul.__wrapped__, strict=True).compile(
        *factors, *scales, shape(("m", "n % 16"), nv.bf16), *operands,
        config=config, blocks=132, epilogue_op=Elementwise(finish, True), direct_store=direct,
    )  # fmt: skip
    (kernel,) = compiled.kernels.values()
    assert (kernel.resources.stack, kernel.resources.spill_stores) == (0, 0)
