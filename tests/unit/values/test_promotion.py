"""nvdsl/values/promotion.py: the type in which operands meet, the ops that are built, and the errors."""

import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Unsigned, Value, bitcast
from tests.unit.traced import evaluate, one_of_each, tracing

TYPES = [  # the operands, and the type and class of a sum and of a product
    (lambda v: v.i32 + v.i64, nv.i64),
    (lambda v: v.u32 + v.i64, nv.i64),
    (lambda v: v.u32 + v.i32, nv.u32),
    (lambda v: v.i32 + v.u32, nv.u32),
    (lambda v: v.i32 * v.u64, nv.u64),
    (lambda v: v.index + v.i32, nv.index),
    (lambda v: v.u32 + v.index, nv.index),
    (lambda v: v.i32 + v.f16, nv.f16),
    (lambda v: v.f16 * v.bf16, nv.f32),
    (lambda v: v.f16 * v.f32, nv.f32),
    (lambda v: v.f64 * v.bf16, nv.f64),
    (lambda v: v.i8 + v.i8, nv.i8),
    (lambda v: v.bool_ + v.bool_, nv.i32),
    (lambda v: -v.bool_, nv.i32),
    (lambda v: v.bool_ * v.f16, nv.f16),
    (lambda v: v.bool_ & v.bool_, nv.bool_),
    (lambda v: v.bool_ | True, nv.bool_),
    (lambda v: v.bool_ & 1, nv.i32),
    (lambda v: ~v.bool_, nv.bool_),
    (lambda v: v.u8 + 1, nv.u8),
    (lambda v: 1 - v.u32, nv.u32),
    (lambda v: ~v.u32, nv.u32),
    (lambda v: -v.u32, nv.u32),
    (lambda v: v.u32 // 3, nv.u32),
    (lambda v: v.u32 % 3, nv.u32),
    (lambda v: v.u32 << 3, nv.u32),
    (lambda v: v.u32**3, nv.u32),
    (lambda v: abs(v.u32), nv.u32),
    (lambda v: v.u32 + 0, nv.u32),
    (lambda v: v.u32 + True, nv.u32),
    (lambda v: v.f16 * 2, nv.f16),
    (lambda v: v.bf16 / 3.0, nv.bf16),
    (lambda v: v.i32 * 0.5, nv.f32),
    (lambda v: 2.0 - v.index, nv.f32),
    (lambda v: v.i32 + np.int64(3), nv.i64),
    (lambda v: np.float32(2) * v.f16, nv.f32),
    (lambda v: v.f16 * np.float64(0.5), nv.f16),  # np.float64 is a Python float: a literal
    (lambda v: v.i32 + np.bool_(True), nv.i32),
    (lambda v: v.u32 < v.u32, nv.bool_),
    (lambda v: v.f16 == v.i32, nv.bool_),
]


@pytest.mark.parametrize("case", range(len(TYPES)))
def test_types(case: int) -> None:
    fn, expected = TYPES[case]
    with one_of_each() as values:
        result = fn(values)
        assert result.dtype is expected
        assert type(result) is (Unsigned if expected.is_unsigned else Value)
        assert result.type == expected.ir  # what was built agrees with what is claimed


MIXED = [
    (lambda: nv.u8(255) + nv.i32(1), 256),
    (lambda: nv.i8(-1) + nv.i32(1), 0),
    (lambda: nv.i8(-1) + nv.u32(0), 2**32 - 1),  # C: -1 becomes the largest unsigned
    (lambda: nv.u32(2**32 - 1) + nv.index(1), 2**32),
    (lambda: nv.i32(-1) + nv.index(0), -1),
    (lambda: nv.i32(-1) < nv.u32(1), False),
    (lambda: nv.i64(-1) < nv.u32(1), True),
    (lambda: nv.bool_(True) + nv.bool_(True), 2),
    (lambda: nv.bool_(True) + 1, 2),
    (lambda: nv.bool_(True) == 1, True),
    (lambda: nv.bool_(True) * nv.f32(2.5), 2.5),
    (lambda: nv.u8(200) * nv.f32(2.0), 400.0),
    (lambda: nv.i32(3) * 0.5, 1.5),
    (lambda: ~nv.bool_(True), False),
    (lambda: nv.bool_(True) ^ True, False),
    (lambda: nv.u32(0xDEADBEEF) & -16, 0xDEADBEE0),
    (lambda: nv.i32(-1) & 0xFFFF0000, -65536),
    (lambda: nv.i32(0) | 0x80000000, -(2**31)),
    (lambda: np.int64(2**40) + nv.i32(1), 2**40 + 1),
    (lambda: np.uint8(1) - nv.i8(2), 255),
]


def test_mixed_types() -> None:
    results = evaluate(lambda: [build() for build, _ in MIXED])
    assert [x.item() for x in results] == [expected for _, expected in MIXED]


OPS = [
    (lambda x, u, f, i: x + 0, []),
    (lambda x, u, f, i: 0 + x, []),
    (lambda x, u, f, i: x - 0, []),
    (lambda x, u, f, i: 1 * x, []),
    (lambda x, u, f, i: x // 1, []),
    (lambda x, u, f, i: x << 0, []),
    (lambda x, u, f, i: 0 | u, []),
    (lambda x, u, f, i: f * 1, []),
    (lambda x, u, f, i: f / 1, []),
    (lambda x, u, f, i: i / 1, []),
    (lambda x, u, f, i: f + 0, ["constant", "addf"]),  # -0.0 + 0 is +0.0
    (lambda x, u, f, i: 0 - x, ["constant", "subi"]),
    (lambda x, u, f, i: x + 1, ["constant", "addi"]),
    (lambda x, u, f, i: x + x, ["addi"]),
    (lambda x, u, f, i: x + i, ["index_cast", "addi"]),
    (lambda x, u, f, i: u + i, ["index_castui", "addi"]),
    (lambda x, u, f, i: u // 3, ["constant", "divui"]),
    (lambda x, u, f, i: u % u, ["remui"]),
    (lambda x, u, f, i: u >> 1, ["constant", "shrui"]),
    (lambda x, u, f, i: x >> 1, ["constant", "shrsi"]),
    (lambda x, u, f, i: f * x, ["sitofp", "mulf"]),
    (lambda x, u, f, i: f * u, ["uitofp", "mulf"]),
    (lambda x, u, f, i: f * i, ["index_cast", "sitofp", "mulf"]),
    (lambda x, u, f, i: f < 1, ["constant", "cmpf"]),
    (lambda x, u, f, i: -f, ["negf"]),
]


@pytest.mark.parametrize("case", range(len(OPS)))
def test_ops(case: int) -> None:
    fn, expected = OPS[case]
    with tracing(nv.i32, nv.i32, nv.f32, nv.index) as trace:
        x, u, f, i = trace
        result = fn(x, Unsigned(u), f, i)
        assert trace.ops == expected
        if not expected:
            assert any(result is operand or ir.Value.__eq__(result, operand) for operand in trace)


def test_two_python_numbers_stay_in_python() -> None:
    with tracing() as trace:
        assert 3 + 4 == 7 and not trace.ops


ERRORS = [
    (lambda v: v.i32 / 2, "/ on i32", "x // y"),
    (lambda v: v.u8 / v.i32, "/ on i32", "nv.f32(x) / y"),
    (lambda v: v.bool_ / 1, "/ on i32", "x // y"),
    (lambda v: v.i32 / 1, "/ on i32", "x // y"),
    (lambda v: v.f32 // 2, "// on f32", "nv.math.floor"),
    (lambda v: v.f32 // 1, "// on f32", "nv.math.floor"),
    (lambda v: v.f32 % 2.0, "% on f32", "nv.math.floor"),
    (lambda v: v.f32 & 1, "& on f32", "nv.bitcast"),
    (lambda v: v.i32 ^ 1.0, "^ on f32", "nv.bitcast"),
    (lambda v: v.f32 << 1, "<< on f32", "nv.bitcast"),
    (lambda v: v.i32 << 1.5, "<< on f32", "nv.bitcast"),
    (lambda v: ~v.f32, "~ on f32", "nv.bitcast"),
    (lambda v: v.i32 // 0, "// by zero", ""),
    (lambda v: v.i32 % 0, "% by zero", ""),
    (lambda v: v.u32 // np.int32(0), "// by zero", ""),
    (lambda v: v.e4m3 + 1, "+ on e4m3", "nv.f32(x)"),
    (lambda v: v.e4m3 * v.f32, "* on e4m3", "nv.f32(x)"),
    (lambda v: v.f32 < v.e5m2, "< on e5m2", "nv.f32(x)"),
    (lambda v: -v.e5m2, "- on e5m2", "nv.f32(x)"),
    (lambda v: v.tf32 + v.tf32, "+ on tf32", "load it as f32"),
    (lambda v: nv.f32(v.tf32), "a conversion on tf32", "load it as f32"),
    (lambda v: v.i32**-1, "i32 ** -1", ""),
    (lambda v: v.f32**0.5, "** with the exponent 0.5", "nv.math.sqrt"),
    (lambda v: v.f32**v.i32, "** with a traced exponent", "nv.math.exp2"),
    (lambda v: 2**v.i32, "** with a traced exponent", "1 << n"),
    (lambda v: 1 if v.i32 else 2, "truth value", "nv.select"),
    (lambda v: 0 < v.i32 < 5, "truth value", "nv.select"),
    (lambda v: int(v.f32), "int()", "nv.i32(x)"),
    (lambda v: float(v.i32), "float()", "nv.f32(x)"),
    (lambda v: range(v.i32), "as a Python int", "nv.range"),
    (lambda v: [1, 2][v.i32], "as a Python int", "nv.range"),
    (lambda v: list(v.i32), "loop over a traced number", "nv.range"),
    (lambda v: len(v.f32), "len()", "vector"),
    (lambda v: v.f32[0], "[] on a traced number", ""),
    (lambda v: bitcast(v.f32, nv.f16), "bitcast from f32 to f16", "nv.f16(x)"),
    (lambda v: bitcast(v.index, nv.i64), "bitcast from index to i64", "nv.i64(x)"),
    (lambda v: bitcast(1.0, nv.i32), "bitcast of 1.0", "nv.f32(x) first"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_say_where_why_and_what_to_write(case: int) -> None:
    fn, message, fix = ERRORS[case]
    with one_of_each() as values:
        with pytest.raises(TraceError) as caught:
            fn(values)
    error = caught.value
    assert message in error.message and fix in error.fix
    assert (error.where.file, error.where.line) == (__file__, fn.__code__.co_firstlineno)


def test_a_type_that_nvdsl_does_not_know() -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            wide = arith.constant(ir.IntegerType.get_signless(128), 3)
            with pytest.raises(TraceError, match="i128"):
                wide + 1
