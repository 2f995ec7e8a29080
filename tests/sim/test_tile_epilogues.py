"""Epilogues of whole tiles, in the simulator: gated products, reductions beside the result, dropout, scales of rows."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config, gemm
from nvdsl.kernels.blocks import tile_ops
from nvdsl.kernels.blocks.linear_combination import GATES as FUNCTIONS
from nvdsl.kernels.blocks.linear_combination import silu
from nvdsl.kernels.blocks.philox import philox
from nvdsl.kernels.blocks.tile_op import TileOp
from nvdsl.kernels.gemm import cooperative, gated, pingpong, streamk
from nvdsl.kernels.gemm.model import Shape
from tests.exhaustive import sample
from tests.sim.simulate import SCHEDULES, traced
from tests.sim.tiles import GATES, gated_of, kept_of, philox_of
from tests.unit.kernels import array

SMALL = Config(128, 128, stages=2, store_buffers=1)
SCHEDULED = [
    (cooperative, Config(128, 128, stages=3)), (pingpong, Config(64, 128, stages=3, schedule="pingpong")),
    (cooperative, Config(64, 64, stages=2, consumers=1)), (cooperative, Config(128, 128, stages=2, cluster_m=2)),
    (streamk, Config(128, 128, stages=3, schedule="streamk")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def in_the_simulator(monkeypatch):
    monkeypatch.setenv("NVDSL_TARGET", "sim")


def _random(*shape, dtype=np.float16):
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def _gemm(a, b, out, *operands, op, config=SMALL, **options):
    cooperative.matmul(a, b, out, *operands, config=config, blocks=2, epilogue_op=op, **options)


CASES = [(module, config, major) for module, config in SCHEDULED for major in ("k", "mn")
         if major == "k" or config.tile_n > 64]  # fmt: skip


@pytest.mark.parametrize(("module", "config", "major"), sample(CASES, 1))
def test_a_gated_product_by_every_schedule(module, config, major):
    """Tiles at both edges, of which the gate's reach over into the other half."""
    m, n, k = 150, 72, 96
    a, b, out = _random(m, k), _random(2 * n, k), np.empty((m, n), np.float32)
    given = b if major == "k" else np.ascontiguousarray(b.T)
    op = TileOp(tile_ops.Gated(silu), halves=2, pieces=major == "k")
    program = traced(module.matmul, a, given, out, config=config, blocks=2, b_major=major, epilogue_op=op)
    for options in SCHEDULES[:: len(SCHEDULES) // 2]:
        out.fill(np.nan)
        program.run(options)
        np.testing.assert_allclose(out, gated_of(a, b.T, "swiglu"), rtol=1e-2, atol=1e-2)


PRODUCTS = [
    ((9,), 64, 24, "swiglu", np.float16, True), ((2, 3), 32, 8, "geglu", ml_dtypes.bfloat16, False),
    ((5,), 0, 8, "reglu", np.float16, True), ((70,), 33, 17, "geglu_tanh", np.float16, False),
    ((), 48, 24, "swiglu", np.float16, True), ((9,), 64, 23, "reglu", np.float16, False),
    ((0,), 8, 8, "swiglu", np.float16, True), ((9,), 64, 0, "swiglu", np.float16, True),
    ((9,), 128, 24, "swiglu", ml_dtypes.float8_e4m3fn, True), ((9,), 64, 24, "geglu", np.float32, False),
]  # fmt: skip


@pytest.mark.parametrize(("lead", "k", "n", "gate", "dtype", "bias"), sample(PRODUCTS, 1))
def test_gated_matmul(lead, k, n, gate, dtype, bias):
    a, b = _random(*lead, k, dtype=dtype), _random(k, 2 * n, dtype=dtype)
    added = _random(2 * n, dtype=np.float32) if bias else None
    found = nv.matmul(a, b, activation=gate, alpha=0.5, bias=added, out_dtype=nv.f32)
    expected = gated_of(a.astype(np.float64) / 2, b, gate, 0.0 if added is None else added)
    assert found.shape == (*lead, n)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2 * max(1, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"c": np.zeros((4, 8), np.float16)}, "activation='swiglu' beside c"),
        ({"b": np.zeros((16, 15), np.float16)}, "activation='swiglu' and b of shape (16, 15)"),
        ({"b": np.zeros((2, 16, 16), np.float16)}, "activation='swiglu' and b of shape (2, 16, 16)"),
        ({"bias": np.zeros(8, np.float16)}, "activation='swiglu' and bias of shape (8,)"),
        ({"a": np.zeros((4, 16)), "b": np.zeros((16, 16))}, "activation='swiglu' of f64"),
        ({"out": np.zeros((4, 16), np.float16)}, "out of shape (4, 16)"),
    ],
)
def test_what_is_no_gated_product(options, says):
    given = {"a": np.zeros((4, 16), np.float16), "b": np.zeros((16, 16), np.float16)} | options
    with pytest.raises(nv.ArgumentError) as caught:
        nv.matmul(**given, activation="swiglu")
    assert says in caught.value.message and caught.value.fix


REDUCTIONS = [
    (tile_ops.row_maxima, (3, 150), lambda x: x.max(1)), (tile_ops.column_squares, (3, 296), lambda x: (x**2).sum(0)),
    (tile_ops.row_squares, (3, 150), lambda x: (x**2).sum(1)), (tile_ops.column_maxima, (3, 296), lambda x: x.max(0)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "expected"), sample(REDUCTIONS, 2))
@pytest.mark.parametrize("direct", sample([False, True], 1))
def test_reductions_beside_a_result(op, shape, expected, direct):
    """All sums are negative: what lies beyond the edges does not count."""
    a, b = np.abs(_random(150, 32)), -np.abs(_random(32, 296))
    out, parts = np.full((150, 296), np.nan, np.float32), np.full(shape, np.nan, np.float32)
    _gemm(a, b, out, parts, op=op, direct_store=direct)
    exact = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(out, exact, rtol=1e-3)
    found = parts.max(0) if "maxima" in repr(op) else parts.sum(0)
    np.testing.assert_allclose(found, expected(exact), rtol=1e-3)


@pytest.mark.parametrize(
    ("op", "many"), sample([(tile_ops.column_squares, np.sum), (tile_ops.column_maxima, np.max)], 1)
)
def test_columns_of_tiles_of_any_width(op, many):
    """72 columns: a slice of 64, and one of 8."""
    a, b = _random(64, 16), _random(16, 72)
    out, parts = np.full((64, 72), np.nan, np.float32), np.full((1, 72), np.nan, np.float32)
    _gemm(a, b, out, parts, op=op, config=Config(64, 72, stages=2, consumers=1))
    np.testing.assert_allclose(parts[0], many(out if many is np.max else out**2, axis=0), rtol=1e-3)


def test_a_cluster_writes_nothing_for_a_tile_beyond_the_edge():
    a, b = _random(64, 32), _random(32, 72)
    out, parts = np.full((64, 72), np.nan, np.float32), np.full((1, 64), np.nan, np.float32)
    config = Config(64, 128, stages=2, consumers=1, cluster_n=2)
    _gemm(a, b, out, parts, op=tile_ops.row_squares, config=config)
    np.testing.assert_allclose(parts[0], (out**2).sum(1), rtol=1e-3)


def test_a_scale_for_each_row_of_128_columns():
    a, b = _random(70, 32), _random(32, 304)
    b[:, 128:256] = 0  # a scale of nothing is 1
    a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    a[3] *= ml_dtypes.bfloat16(1e-38)  # 1 over such a scale is no f32
    out, scales = np.zeros((70, 304), ml_dtypes.float8_e4m3fn), np.full((3, 70), np.nan, np.float32)
    _gemm(a, b, out, scales, op=tile_ops.quantized, config=Config(64, 256, stages=2, consumers=1))
    exact = a.astype(np.float32) @ b.astype(np.float32)
    each = np.repeat(scales.T, 128, axis=1)[:, :304]
    assert (scales[1] == 1).all()
    assert (np.abs(out.astype(np.float32) * each - exact) <= np.abs(exact) / 16 + each / 64).all()
    np.testing.assert_allclose(scales[2], np.maximum(np.abs(exact[:, 256:]).max(1) / 448, 2.0**-126), rtol=1e-3)


@pytest.mark.parametrize("seed", sample([2**40 + 3, 5], 1))
def test_dropout_has_the_mask_of_its_seed_in_any_configuration(seed):
    a, b, c = _random(80, 32), _random(32, 72), _random(80, 72)
    exact = a.astype(np.float32) @ b.astype(np.float32)
    expected = np.where(kept_of(seed, 80, 72, 0.25), exact / 0.75, 0) + c
    for config in (SMALL, Config(64, 64, stages=2, consumers=1)):
        out = np.empty((80, 72), np.float32)
        _gemm(a, b, out, np.int64(seed), c, op=TileOp(tile_ops.Dropout(0.25), pieces=True), config=config)
        np.testing.assert_allclose(out, expected, atol=1e-2)


def test_philox_gives_what_its_authors_publish():
    """The known answers of Random123: all zeros, all ones, and digits of pi."""
    ones = 0xFFFFFFFF
    known = [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((ones,) * 4, (ones, ones), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]  # fmt: skip

    @nv.jit
    def run(x: nv.Array, y: nv.Array) -> None:
        @nv.kernel(grid=1, block=32)
        def kernel():
            if nv.thread_id.x == 0:
                found = philox((x[0], x[1], x[2], x[3]), (x[4], x[5]))
                for i in range(4):
                    y[i] = found[i]

        kernel()

    for counter, key, answer in known:
        words, found = [int(word, 16) for word in answer.split()], np.zeros(4, np.uint32)
        run(np.array([*counter, *key], np.uint32), found)
        assert found.tolist() == words == [int(x) for x in philox_of(counter, key)]


def test_b_has_two_halves():
    op = TileOp(tile_ops.Gated(silu), halves=2)
    with pytest.raises(nv.errors.NvdslError, match="the columns of B and of a gated result"):
        _gemm(_random(64, 32), _random(32, 128), np.empty((64, 128), np.float32), op=op)


def test_parts_of_k_have_no_whole_tiles():
    a, b = np.zeros((4, 16), np.float16), np.zeros((16, 16), np.float16)
    with pytest.raises(nv.errors.NvdslError, match="with a TileOp"):
        nv.matmul(a, b, activation="swiglu", config=Config(64, 64, consumers=1, parts=4))


def _two_rows(sums, at):
    return sums[:, :64]


@pytest.mark.parametrize(
    ("op", "says"),
    [
        (TileOp(_two_rows), "returned"),
        (TileOp(tile_ops.column_maxima.function, pieces=True), "scratch() in an epilogue of pieces"),
    ],
)
def test_what_an_epilogue_of_tiles_may_not_do(op, says):
    a, b, out = _random(64, 32), _random(32, 256), np.empty((64, 128), np.float32)
    operands = [np.empty((1, 128), np.float32)] if "column" in repr(op) else []
    b = b if op.halves == 2 else np.ascontiguousarray(b[:, :128])
    with pytest.raises(nv.errors.NvdslError) as caught:
        _gemm(a, b, out, *operands, op=op)
    assert says in caught.value.message and caught.value.rule and caught.value.fix


def test_blocks_that_share_a_gated_operand_load_whole_rows_of_the_swizzle():
    """Of 96 columns of B, half the gate's, four blocks would load 12 each."""
    a, b, out = _random(256, 64), _random(192, 64), np.empty((256, 96), np.float16)
    op, shared = TileOp(tile_ops.Gated(silu), halves=2, pieces=True), Config(64, 96, stages=2, consumers=1, cluster_m=4)
    shape = Shape(256, 192, 64, nv.f16, nv.f16, nv.f32, 1, "k", "k")
    assert not gated.fits(shared, shape, op.function) and gated.fits(replace(shared, tile_n=128), shape, op.function)
    with pytest.raises(nv.errors.NvdslError, match="that 4 blocks share"):
        cooperative.matmul(a, b, out, config=shared, blocks=4, b_major="k", epilogue_op=op)


@pytest.mark.parametrize("sizes", [(16, 2048, 8192), (64, 128, 4352), (512, 1024, 65536)])
def test_a_gated_product_of_few_tiles_and_a_long_k_sums_all_of_it(sizes):
    op = tile_ops.Gated(silu)
    assert gated.choose(Shape(*sizes, nv.bf16, nv.bf16, nv.f32, 1, "k", "k"), op, 132).parts == 1


CHOSEN = [(name, bias, rows) for bias in (False, True) for rows in (8192, 100) for name in GATES]


@pytest.mark.parametrize(("name", "bias", "rows"), sample(CHOSEN, 1))
def test_a_gated_kernel_does_not_spill(name, bias, rows):
    op = tile_ops.Gated(FUNCTIONS[name], alpha=bias, bias=bias)
    config = gated.choose(Shape(rows, 8192, 2048, nv.bf16, nv.bf16, nv.f32, 1, "k", "k"), op, 132)
    kernel = pingpong if config.schedule == "pingpong" else cooperative
    given = [array(nv.bf16, *axes) for axes in (("m", "k"), ("w", "k"), ("m", "n"))]
    operands = [2.0, array(nv.bf16, "u", "w")] if bias else []
    function = nv.jit(kernel.matmul.__wrapped__, strict=True)
    compiled = function.compile(
        *given, *operands, config=config, blocks=132, b_major="k", epilogue_op=TileOp(op, halves=2, pieces=True)
    )
    (found,) = compiled.kernels.values()
    assert (found.resources.stack, found.resources.spill_stores) == (0, 0)


PARTS = np.zeros((1, 70), np.float32)
WIDE, DROPOUT = Config(64, 128, stages=2, consumers=1), TileOp(tile_ops.Dropout(0.5), pieces=True)


@pytest.mark.parametrize(
    ("op", "operands", "config", "says"),
    [
        (tile_ops.row_maxima, [PARTS], Config(64, 64, stages=2, consumers=1), "it is (2, 70), f32"),
        (tile_ops.row_squares, [PARTS[:, 1:]], WIDE, "it is (1, 70), f32"),
        (tile_ops.row_maxima, [PARTS.astype(np.float16)], WIDE, "maxima of shape (1, 70), f16"),
        (tile_ops.column_squares, [PARTS], WIDE, "it is (2, 90), f32"),
        (tile_ops.column_maxima, [], WIDE, "it takes maxima"),
        (tile_ops.quantized, [PARTS], WIDE, "a result of f16 in tiles of 128"),
        (DROPOUT, [1.5], WIDE, "seed=1.5"),
        (DROPOUT, [1, np.zeros((60, 90), np.float16)], WIDE, "residual of shape (60, 90)"),
        (DROPOUT, [1, PARTS, PARTS], WIDE, "it takes seed, residual"),
    ],
)
def test_operands_that_have_no_room_for_all_are_refused(op, operands, config, says):
    """What lies beyond an array's rows would be left out, and parts beyond it would lie in other memory."""
    out = np.zeros((70, 90), np.float16)
    with pytest.raises(nv.ArgumentError) as caught:
        gemm(_random(70, 64), _random(90, 64).T, out, *operands, config=config, epilogue_op=op)
    assert says in str(caught.value)


@pytest.mark.parametrize("p", [1.0, -0.1, np.nan, "a", True, None])
def test_what_is_no_probability(p):
    with pytest.raises(nv.ArgumentError, match="p=|p is"):
        tile_ops.Dropout(p)
