"""nvdsl/values/select.py: min, max, clamp, abs and select, traced and in Python."""

import math

import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.values import dtypes as nv
from nvdsl.values.select import abs, clamp, max, min, select
from nvdsl.values.traced import const
from tests.unit.traced import evaluate, ptx, tracing

NAN = math.nan

EXTREMES = [
    (lambda: min(nv.i32(3), nv.i32(-5)), -5),
    (lambda: max(nv.i32(3), nv.i32(-5)), 3),
    (lambda: min(nv.u32(3), nv.u32(2**32 - 1)), 3),
    (lambda: max(nv.u8(3), nv.i8(-1)), 255),  # i8 and u8 meet in u8
    (lambda: min(nv.index(4), 2, nv.i32(3)), 2),
    (lambda: max(1, 7, nv.i32(4)), 7),
    (lambda: min([nv.i32(4), 9, 5]), 4),
    (lambda: max(nv.f32(1.5), 1), 1.5),
    (lambda: max(nv.i32(1), 1.5), 1.5),
    (lambda: min(nv.f32(NAN), nv.f32(2.0)), 2.0),  # beside a NaN, the number
    (lambda: max(nv.f32(2.0), NAN), 2.0),
    (lambda: min(nv.bool_(True), nv.bool_(False)), False),
    (lambda: max(nv.bool_(True), nv.bool_(False)), True),
    (lambda: clamp(nv.i32(12), 0, 10), 10),
    (lambda: clamp(nv.i32(-12), 0, 10), 0),
    (lambda: clamp(nv.f32(0.25), 0, 1), 0.25),
    (lambda: clamp(nv.f32(NAN), -1.0, 1.0), -1.0),
    (lambda: clamp(5, nv.i32(6), nv.i32(8)), 6),
    (lambda: abs(nv.i32(-3)), 3),
    (lambda: abs(nv.i8(-128)), -128),
    (lambda: select(nv.bool_(True), nv.i32(1), nv.i32(2)), 1),
    (lambda: select(nv.bool_(False), nv.i32(1), 2), 2),
    (lambda: select(nv.i32(4), 1, 2), 1),  # true if not 0
    (lambda: select(nv.f32(0.0), 1, 2.5), 2.5),
    (lambda: select(nv.bool_(True), 1, 2.5), 1.0),
    (lambda: select(nv.bool_(True), True, False), True),
    (lambda: select(nv.bool_(False), nv.i8(1), nv.i64(2**40)), 2**40),
    (lambda: select(nv.bool_(False), np.int64(1), 2), 2),
]


def test_extremes() -> None:
    results = evaluate(lambda: [build() for build, _ in EXTREMES])
    assert [x.item() for x in results] == [expected for _, expected in EXTREMES]


def test_types() -> None:
    with tracing(nv.f16, nv.u32, nv.bool_) as (h, u, flag):
        assert min(h, 2).dtype is nv.f16
        assert min(u, 2, 3).dtype is nv.u32
        assert select(flag, u, 0).dtype is nv.u32
        assert select(flag, True, False).dtype is nv.bool_
        assert select(flag, flag, flag).dtype is nv.bool_
        assert select(flag, 1, 0).dtype is nv.i32
        assert select(flag, 1, 0.5).dtype is nv.f32
        assert select(flag, h, u).dtype is nv.f16
        assert select(flag, 1.0, np.float16(2)).dtype is nv.f32


def test_ops() -> None:
    with tracing(nv.i32, nv.u32, nv.f32) as trace:
        x, u, f = trace
        _ = min(x, x), max(x, x), min(u, u), max(u, u), min(f, f), max(f, f)
        assert trace.ops == ["minsi", "maxsi", "minui", "maxui", "minnumf", "maxnumf"]


def test_instructions() -> None:
    def build(x, u, f, h, b):
        return [max(x, 3), min(u, 3), max(f, 0.0), min(h, h * 2), max(b, 1), abs(x)]

    text = ptx(build, nv.i32, nv.u32, nv.f32, nv.f16, nv.bf16)
    for instruction in ("max.s32", "min.u32", "max.f32", "min.f16", "max.bf16", "abs.s32"):
        assert instruction in text


def test_numbers_stay_in_python() -> None:
    assert (min(3, 1, 2), max(3, 1, 2), min([3, 1]), max("ab"), abs(-2), clamp(9, 0, 5)) == (1, 3, 1, "b", 2, 5)
    assert (select(True, "a", None), select(0, 1, 2.0)) == ("a", 2.0)
    with tracing(nv.i32) as trace:
        assert select(True, trace[0], 1) is trace[0] and not trace.ops


def test_values_without_arithmetic() -> None:
    with tracing(nv.bool_, nv.e4m3, nv.e4m3) as (flag, a, b):
        assert select(flag, a, b).dtype is nv.e4m3
        null = llvm.mlir_zero(ir.Type.parse("!llvm.ptr"))
        assert str(select(flag, null, null).type) == "!llvm.ptr"
        for other in ((null, 1), (1, null), (a, "x"), (a, null)):
            with pytest.raises(TraceError, match="select between|e4m3"):
                select(flag, *other)
        with pytest.raises(TraceError, match="select on e4m3"):
            select(flag, a, 1.0)
        with pytest.raises(TraceError, match="min of"):
            min(flag, "a")


def test_vectors() -> None:
    def build():
        v = const(3, ir.VectorType.get([2], nv.i32.ir))
        return [max(v, 5), select(v > 2, v, 0), select(v > 2, 1.5, 0.0), select(nv.bool_(False), v, v + 1)]

    for result, expected in zip(evaluate(build), [5, 3, 1.5, 4], strict=True):
        assert result.tolist() == [expected] * 2
