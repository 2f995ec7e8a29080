"""`nvdsl.kernels.gemm`: what it refuses, and results that TMA can't store."""

import numpy as np
import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.kernels import Config, gemm

A, B, OUT = np.ones((64, 64), np.float16), np.ones((64, 128), np.float16), np.zeros((64, 128), np.float32)
SMALL = Config(64, 128, stages=2, consumers=1)


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ((A, B[:32], OUT), {}, r"a of shape \(64, 64\) times b of shape \(32, 128\)"),
        ((A, B, OUT[:32]), {}, r"into out of shape \(32, 128\)"),
        ((A[0], B, OUT), {}, r"a is an array of shape \(64,\)"),
        ((A, None, OUT), {}, "b is a NoneType"),
        ((A, B.astype(np.float32), OUT), {}, "a product of f16 and f32"),
        ((np.ones((64, 60), np.float16), np.ones((60, 128), np.float16), OUT), {}, r"a of shape \(64, 60\)"),
        ((A[:, :0], B[:0], OUT), {}, "K is 1 or more"),
        ((A, A, A), {}, "out and a overlap"),
        ((A, B, OUT, OUT), {}, "gemm with 1 more arrays"),
        ((A, B, OUT), {"config": "best"}, "gemm with 'best'"),
        ((A, B, OUT), {"config": Config(consumers=0)}, r"Config\(consumers=0\)"),
        ((A, B, OUT), {"blocks": 0}, "blocks=0"),
        ((A, B, OUT), {"epilogue_op": 3}, "epilogue_op=3"),
        ((A, B, OUT), {"epilogue_op": lambda value, *_: None}, "returned None"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_call(arrays, options, says):
    with pytest.raises(ArgumentError, match=says) as raised:
        gemm(*arrays, **{"config": SMALL, "target": "sim", **options})
    assert raised.value.where.file == __file__


def test_rows_of_a_result_that_end_anywhere_and_numbers_from_an_epilogue():
    b, out = np.asfortranarray(B[:, :99]), np.full((64, 99), np.nan, np.float32)
    gemm(A, b, out, config=SMALL, epilogue_op=lambda value, batch, row, col: 3, target="sim")
    assert (out == 3).all()
    gemm(A[:, :1].copy(), B[:1], OUT, config=SMALL, target="sim")
    assert (OUT == 1).all()
    gemm(A[:0], B, OUT[:0], config=SMALL, target="sim")
    with pytest.raises(ArgumentError, match=r"Config\(stages='4'\)"):
        nv.matmul(A, B, config=Config(stages="4"), target="sim")
