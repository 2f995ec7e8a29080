"""Epilogues of whole tiles on the device: gated products, reductions beside the result, dropout, scales of rows."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.kernels import Config, gemm
from nvdsl.kernels.blocks import tile_ops
from nvdsl.kernels.blocks.tile_op import TileOp
from nvdsl.testing import in_child
from tests.sim.tiles import GATES, gated_of, kept_of


@in_child(timeout=200)
def test_gated_products_of_any_size():
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.float16):
        sizes = [(1, 8, 64), (130, 1000, 200), (1000, 77, 129), (4096, 1536, 512), (300, 3000, 64)]
        for i, (m, n, k) in enumerate(sizes):
            a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(2 * n, k, device="cuda").to(dtype) / k**0.5
            bias = torch.randn(2 * n, device="cuda")
            for given in (b.T, b.T.contiguous()):
                gate = list(GATES)[i % len(GATES)]
                found = nv.matmul(a, given, activation=gate, bias=bias)
                host = [x.double().cpu().numpy() for x in (a, b.T, bias)]
                expected = gated_of(*host[:2], gate, host[2])
                scale = np.abs(expected).max()
                np.testing.assert_allclose(found.double().cpu().numpy(), expected, rtol=0, atol=1.6e-2 * scale)


@in_child(timeout=100)
def test_reductions_beside_the_result():
    rng = np.random.default_rng(0)
    m, n, k = 1000, 640, 256
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    out, exact = np.empty((m, n), np.float32), a.astype(np.float32) @ b.astype(np.float32)
    config = Config(128, 256, stages=4)
    parts = -(-n // 256)
    for op, shape, expected in (
        (tile_ops.row_maxima, (parts, m), exact.max(1)), (tile_ops.row_squares, (parts, m), (exact**2).sum(1)),
        (tile_ops.column_maxima, (-(-m // 64), n), exact.max(0)),
        (tile_ops.column_squares, (-(-m // 64), n), (exact**2).sum(0)),
    ):  # fmt: skip
        found = np.full(shape, np.nan, np.float32)
        gemm(a, b, out, found, config=config, epilogue_op=op)
        whole = found.max(0) if "maxima" in repr(op) else found.sum(0)
        np.testing.assert_allclose(whole, expected, rtol=1e-3)
        np.testing.assert_allclose(out, exact, atol=1e-3 * np.abs(exact).max())


@in_child(timeout=100)
def test_dropout_and_its_mask():
    rng = np.random.default_rng(0)
    m, n, k = 777, 1000, 64
    a, b, c = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n), (m, n)))
    exact, seed = a.astype(np.float32) @ b.astype(np.float32), 12345678901
    dropped = np.where(kept_of(seed, m, n, 0.3), exact / 0.7, 0)
    for config in (Config(128, 256), Config(64, 128, schedule="pingpong")):
        out = np.empty((m, n), np.float16)
        gemm(a, b, out, np.int64(seed), c, config=config, epilogue_op=TileOp(tile_ops.Dropout(0.3), pieces=True))
        np.testing.assert_allclose(out, dropped + c, atol=4e-3 * np.abs(exact).max())


@in_child(timeout=100)
def test_quantized_results_are_operands_of_the_next_product():
    torch = pytest.importorskip("torch")
    m, n, k = 1000, 512, 256
    a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(k, n, device="cuda").bfloat16()
    out, scales = torch.empty(m, n, device="cuda", dtype=torch.float8_e4m3fn), torch.empty(n // 128, m, device="cuda")
    gemm(a, b, out, scales, config=Config(128, 256), epilogue_op=tile_ops.quantized)
    exact = a.double() @ b.double()
    back = out.double() * scales.T.double().repeat_interleave(128, 1)
    assert ((back - exact).abs() <= exact.abs() / 16 + scales.T.double().repeat_interleave(128, 1) / 64).all()
    w = torch.randn(256, n, device="cuda").to(torch.float8_e4m3fn)
    ones = torch.ones(n // 128, 2, device="cuda")
    found = nv.matmul(out, w.T, scale_a=scales.T, scale_b=ones, out_dtype=nv.f32)
    expected = back @ w.double().T
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=4e-3 * expected.abs().max().item())
