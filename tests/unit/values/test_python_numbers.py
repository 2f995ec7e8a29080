"""nvdsl/values/python_numbers.py: Python numbers fit their type, or the error names its range."""

import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import as_value, const
from tests.unit.traced import evaluate, tracing

RANGES = [
    (lambda: nv.i8(300), "300 does not fit i8", "-128 .. 127"),
    (lambda: nv.u8(-1), "-1 does not fit u8", "0 .. 255"),
    (lambda: nv.u32(2**32), "does not fit u32", "0 .. 4294967295"),
    (lambda: nv.i32(3e10), "does not fit i32", "-2147483648 .. 2147483647"),
    (lambda: nv.index(2**63), "does not fit index", "9223372036854775807"),
    (lambda: nv.f16(65520), "65520 does not fit f16", "-65504.0 .. 65504.0"),
    (lambda: nv.f32(1e39), "does not fit f32", "3.4028"),
    (lambda: nv.f64(10**309), "does not fit f64", "1.797"),
    (lambda: nv.e4m3(500), "500 does not fit e4m3", "-448.0 .. 448.0"),
    (lambda: nv.e4m3(float("inf")), "e4m3 has no infinity", "448"),
    (lambda: nv.tf32(nv.f32.max), "does not fit tf32", "3.401162"),
    (lambda: nv.i32(float("nan")), "nan as i32", "no NaN"),
    (lambda: nv.i32(0) + 2**31, "2147483648 does not fit i32", "2147483647"),
    (lambda: nv.u8(0) < -1, "-1 does not fit u8", "0 .. 255"),
    (lambda: nv.u8(0) & 256, "256 does not fit u8", "0 .. 255"),
    (lambda: nv.f16(0) * 1e6, "does not fit f16", "65504"),
]


@pytest.mark.parametrize("case", range(len(RANGES)))
def test_numbers_out_of_range(case: int) -> None:
    build, message, rule = RANGES[case]
    with tracing(), pytest.raises(TraceError) as caught:
        build()
    assert message in caught.value.message and rule in caught.value.rule


NUMBERS = [
    (lambda: nv.i32(2.7), 2),
    (lambda: nv.i32(-2.7), -2),
    (lambda: nv.u8(255.9), 255),
    (lambda: nv.i8(True), 1),
    (lambda: nv.bool_(7), True),
    (lambda: nv.bool_(0.0), False),
    (lambda: nv.f32(2**24 + 1), 2.0**24),
    (lambda: nv.f16(65519), 65504.0),  # rounds down to the largest
    (lambda: nv.f16(float("inf")), float("inf")),
    (lambda: nv.e5m2(float("inf")), float("inf")),
    (lambda: nv.e4m3(0.3), 0.3125),
    (lambda: nv.e4m3(464), 448.0),  # a tie goes to the even 448
    (lambda: nv.tf32(1 + 2**-11), 1 + 2**-10),  # ties away from zero
    (lambda: nv.tf32(1 + 2**-12), 1.0),
    (lambda: nv.i16(np.int64(-5)), -5),
    (lambda: nv.f16(np.float32(0.1)), 0.0999755859375),
]


def test_numbers_in_range() -> None:
    results = evaluate(lambda: [build() for build, _ in NUMBERS])
    assert [x.item() for x in results] == [expected for _, expected in NUMBERS]


def test_no_constants_outside_of_a_trace() -> None:
    for build in (lambda: nv.f32(1.0), lambda: const(3), lambda: as_value(True)):
        with pytest.raises(TraceError, match="no function is being traced"):
            build()
