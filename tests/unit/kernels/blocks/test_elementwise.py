"""Epilogues that read: every kind of operand, in every schedule, on and off the grid of tiles."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config, gemm
from nvdsl.kernels.blocks.elementwise import Elementwise
from nvdsl.kernels.gemm.tensor_core import matmul as product
from tests.exhaustive import sample

CONFIGS = [
    Config(128, 64, stages=2),
    Config(64, 208, stages=2, consumers=1, store_buffers=1),
    Config(128, 48, stages=2, schedule="pingpong"),
    Config(128, 64, stages=2, schedule="splitk", split=2),
]
SHAPES = [(136, 72), (192, 64), (1, 216), (70, 8)]
OPERANDS = {
    "rows": (("m", 1), np.float32),
    "rows of 16 bits": (("m", 1), np.float16),
    "columns": ((1, "n"), np.float32),
    "columns of 16 bits": (("n",), ml_dtypes.bfloat16),
    "columns of 8 bits": (("n",), ml_dtypes.float8_e4m3fn),
    "columns of 64 bits": (("n",), np.float64),
    "elements": (("m", "n"), np.float16),
    "elements of 32 bits": (("m", "n"), np.float32),
    "elements of 8 bits": ((1, "m", "n"), ml_dtypes.float8_e5m2),
    "one for all": ((1, 1), np.float32),
}


def made(shape, dtype=np.float16, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(dtype)


def weighted(value, *elements):
    return sum((nv.f32(x) * (i + 2) for i, x in enumerate(elements)), nv.f32(value))


@pytest.mark.parametrize(
    ("config", "shape", "names"),
    sample(list(itertools.product(CONFIGS, SHAPES, (list(OPERANDS)[:5], list(OPERANDS)[5:]))), 5),
    ids=lambda x: x.schedule + str(x.tile_n) if isinstance(x, Config) else x[0] if isinstance(x, list) else str(x),
)
def test_each_kind_of_operand(config, shape, names):
    m, n = shape
    a, b, out = made((m, 72)), made((72, n), seed=1), np.full((m, n), np.nan, np.float32)
    operands = []
    for name in names:
        extents, dtype = OPERANDS[name]
        operands.append(made([{"m": m, "n": n}.get(extent, extent) for extent in extents], dtype, seed=len(operands)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for i, x in enumerate(operands):
        expected += (i + 2) * x.astype(np.float32).reshape(x.shape[-2:])
    for aligned in (False, True) if "elements" in names else (True,):
        visit = Elementwise(weighted, aligned=aligned)
        gemm(a, b, out, *operands, config=config, epilogue_op=visit, target="sim")
        np.testing.assert_array_equal(out, expected)


def all_of_them(value, c, row, col, bias):
    return (nv.f32(value) + nv.f32(c)) * row * col + nv.f32(bias)


@pytest.mark.parametrize(
    ("schedule", "shape"),
    sample([(kind, shape) for shape in ((200, 328), (320, 400)) for kind in ("cooperative", "pingpong")], 1),
)
def test_many_operands_and_many_tiles(schedule, shape):
    """Two tiles a consumer at least; so much that not all columns are held in registers."""
    m, n = shape
    config = Config(128, 192, stages=2, schedule=schedule, store_buffers=1)
    a, b, out = made((m, 64)), made((64, n), seed=1), np.full((m, n), np.nan, np.float32)
    operands = made((m, n)), made((m, 1), np.float32), made((1, n), np.float32), made((n,), np.float32)
    gemm(a, b, out, *operands, config=config, epilogue_op=Elementwise(all_of_them), blocks=1, target="sim")
    c, row, col, bias = operands
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b.astype(np.float32) + c) * row * col + bias)


def test_an_operand_of_another_shape_is_refused():
    a, out = made((64, 64)), np.empty((64, 64), np.float16)
    with pytest.raises(nv.ArgumentError, match=r"of shape \(32, 64\) beside a result of \(64, 64\)"):
        plus = Elementwise(lambda value, x: value + x)
        gemm(a, a, out, made((32, 64)), config=CONFIGS[0], epilogue_op=plus, target="sim")


def ptx(*operands, config=CONFIGS[2]):
    arrays = [nv.ShapeDtype(shape, nv.f16) for shape in ((256, 512), (512, 256), (256, 256))]
    visit = Elementwise(weighted, aligned=True)
    options = {"a_major": "k", "b_major": "mn", "sms": 132, "config": config, "epilogue_op": visit}
    return nv.jit(product).compile(*arrays, *operands, **options).ptx


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[2], CONFIGS[3]], ids=lambda c: c.schedule)
def test_rows_and_columns_are_read_before_the_products(config):
    text = ptx(nv.ShapeDtype((256, 1), nv.f32), nv.ShapeDtype((256,), nv.f16), config=config)
    multiplied = text.index("wgmma.mma_async")
    assert "ld.global" in text[:multiplied] and "ld.global" not in text[multiplied:]


def test_elements_are_brought_into_l2_and_read_by_pairs():
    text = ptx(nv.ShapeDtype((256, 256), nv.f16), 1.0)
    multiplied = text.index("wgmma.mma_async")
    assert "prefetch.global.L2" in text[:multiplied] and "ld.global" not in text[:multiplied]
    loads = re.findall(r"ld\.global\.([\w.]+)", text[multiplied:])
    assert set(loads) <= {"b32", "v2.b16"} and len(loads) == 128 * 48 // 128 // 2
