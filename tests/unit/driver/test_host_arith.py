"""arith on the host: the same numbers as MLIR's semantics, whether folded or computed in a call."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from nvdsl.errors import ArgumentError, LowerError
from tests.unit.driver.fake_cuda import fake
from tests.unit.driver.host_program import build, function


def compute(op: str, operands: list[tuple[str, object]], result: str, attribute: str = "") -> object:
    """``%r = arith.<op>`` of arguments, through a call."""
    arguments = ", ".join(f"%a{i}: {ty}" for i, (ty, _) in enumerate(operands))
    names = ", ".join(f"%a{i}" for i in range(len(operands)))
    generic = (
        f'%r = "arith.{op}"({names}) {attribute} : ({", ".join(ty for ty, _ in operands)}) -> {result}\n'
        f"return %r : {result}"
    )
    executable = build(function(arguments, generic, f"-> {result}"), devices=fake()[1])
    return executable.call(*(value for _, value in operands))


INTEGERS = [
    ("addi", "i32", 2**31 - 1, 1, -(2**31)),
    ("addi", "i8", 127, 127, -2),
    ("addi", "i1", 1, 1, 0),
    ("subi", "index", -(2**63), 1, 2**63 - 1),
    ("muli", "i32", 65536, 65536, 0),
    ("muli", "i64", 2**62, 3, -(2**62)),
    ("divsi", "i32", -7, 2, -3),
    ("remsi", "i32", -7, 2, -1),
    ("floordivsi", "i32", -7, 2, -4),
    ("ceildivsi", "i32", -7, 2, -3),
    ("ceildivsi", "index", 7, 2, 4),
    ("divui", "i32", -1, 2, 2**31 - 1),
    ("remui", "i8", -1, 16, 15),
    ("ceildivui", "i8", -1, 2, -128),
    ("andi", "i32", -1, 12, 12),
    ("ori", "i32", -8, 1, -7),
    ("xori", "i1", 1, 1, 0),
    ("shli", "i32", 1, 31, -(2**31)),
    ("shrsi", "i32", -8, 1, -4),
    ("shrui", "i32", -8, 1, 2**31 - 4),
    ("minsi", "i32", -1, 1, -1),
    ("maxsi", "i32", -1, 1, 1),
    ("minui", "i32", -1, 1, 1),
    ("maxui", "i32", -1, 1, -1),
]


@pytest.mark.parametrize(("op", "ty", "a", "b", "expected"), INTEGERS)
def test_integers_wrap_at_their_width(op, ty, a, b, expected):
    assert compute(op, [(ty, a), (ty, b)], ty) == expected


@pytest.mark.parametrize(
    ("predicate", "expected"), list(enumerate([0, 1, 1, 1, 0, 0, 0, 0, 1, 1]))
)  # eq ne slt sle sgt sge ult ule ugt uge of -1 and 1
def test_integer_comparisons(predicate, expected):
    assert compute("cmpi", [("i32", -1), ("i32", 1)], "i1", f"{{predicate = {predicate} : i64}}") == expected


def test_i1_true_is_minus_one_where_it_is_read_as_signed():
    assert compute("cmpi", [("i1", 1), ("i1", 0)], "i1", "{predicate = 2 : i64}") == 1  # slt
    assert compute("extsi", [("i1", True)], "i32") == -1
    assert compute("extui", [("i1", True)], "i32") == 1


NAN = math.nan
#            oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno, as (a, b, results)
COMPARISONS = [
    (1.0, 2.0, "0 0 0 0 1 1 1 1 0 0 0 1 1 1 0 1"),
    (2.0, 2.0, "0 1 0 1 0 1 0 1 1 0 1 0 1 0 0 1"),
    (3.0, 2.0, "0 0 1 1 0 0 1 1 0 1 1 0 0 1 0 1"),
    (NAN, 2.0, "0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1"),
]


@pytest.mark.parametrize(("a", "b", "expected"), COMPARISONS)
def test_float_comparisons(a, b, expected):
    got = [compute("cmpf", [("f32", a), ("f32", b)], "i1", f"{{predicate = {p} : i64}}") for p in range(16)]
    assert got == [int(e) for e in expected.split()]


@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf"])
@pytest.mark.parametrize(
    ("ty", "numpy_type"),
    [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32), ("f64", np.float64)],
)
def test_floats_round_to_their_type(name, ty, numpy_type):
    a, b = 1.2345678901234, 3.3333333333333
    function_ = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide}[name]
    expected = float(function_(numpy_type(a), numpy_type(b)))
    assert compute(name, [(ty, a), (ty, b)], ty) == expected


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("divf", 1.0, 0.0, math.inf),
        ("divf", -1.0, 0.0, -math.inf),
        ("divf", 1.0, -0.0, -math.inf),
        ("divf", 0.0, 0.0, NAN),
        ("divf", NAN, 0.0, NAN),
        ("remf", 5.5, 2.0, 1.5),
        ("remf", -5.5, 2.0, -1.5),
        ("remf", math.inf, 2.0, NAN),
        ("remf", 1.0, 0.0, NAN),
        ("maximumf", NAN, 1.0, NAN),
        ("maxnumf", NAN, 1.0, 1.0),
        ("maxnumf", 1.0, NAN, 1.0),
        ("minnumf", 2.0, 1.0, 1.0),
        ("minimumf", 1.0, 2.0, 1.0),
        ("addf", 3e38, 3e38, math.inf),
    ],
)
def test_float_corners(op, a, b, expected):
    got = compute(op, [("f32", a), ("f32", b)], "f32")
    assert got == expected or (math.isnan(got) and math.isnan(expected))


def test_minimum_orders_the_zeros():
    assert math.copysign(1, compute("minimumf", [("f32", 0.0), ("f32", -0.0)], "f32")) == -1
    assert math.copysign(1, compute("maximumf", [("f32", -0.0), ("f32", 0.0)], "f32")) == 1


CASTS = [
    ("index_cast", "i32", -1, "index", -1),
    ("index_castui", "i32", -1, "index", 2**32 - 1),
    ("extsi", "i8", -1, "i32", -1),
    ("extui", "i8", -1, "i32", 255),
    ("trunci", "i32", 0x1FF, "i8", -1),
    ("trunci", "i32", 3, "i1", 1),
    ("sitofp", "i32", -3, "f32", -3.0),
    ("uitofp", "i32", -1, "f64", float(2**32 - 1)),
    ("sitofp", "i32", 2049, "f16", 2048.0),
    ("fptosi", "f32", -2.9, "i32", -2),
    ("fptoui", "f32", 2.9, "i32", 2),
    ("fptosi", "f32", math.inf, "i32", 2**31 - 1),
    ("extf", "f16", 1.5, "f64", 1.5),
    ("truncf", "f64", 0.1, "f32", float(np.float32(0.1))),
    ("negf", "f32", 1.5, "f32", -1.5),
    ("bitcast", "f32", 1.0, "i32", 0x3F800000),
    ("bitcast", "i32", -(2**31), "f32", -0.0),
    ("bitcast", "i16", 0x3F80, "bf16", 1.0),
    ("bitcast", "f16", -1.0, "i16", 0xBC00 - 65536),
]


@pytest.mark.parametrize(("op", "source", "value", "target", "expected"), CASTS)
def test_casts(op, source, value, target, expected):
    assert compute(op, [(source, value)], target) == expected


@pytest.mark.parametrize(("condition", "expected"), [(True, 5), (False, 6)])
def test_select(condition, expected):
    assert compute("select", [("i1", condition), ("i32", 5), ("i32", 6)], "i32") == expected


def test_constants_are_folded():
    body = """
      %a = arith.constant 6 : index
      %b = arith.constant 7 : index
      %c = arith.muli %a, %b : index
      %d = arith.index_cast %c : index to i8
      return %d : i8"""
    executable = build(function("", body, "-> i8"), devices=fake()[1])
    assert executable._steps == ()
    assert executable.call() == 42


def test_division_by_zero_names_the_line():
    body = "%r = arith.divsi %a, %b : i32\nreturn %r : i32"
    executable = build(function("%a: i32, %b: i32", body, "-> i32"), devices=fake()[1])
    assert executable.call(6, 3) == 2
    with pytest.raises(ArgumentError, match="arith.divsi: 6 divided by zero") as caught:
        executable.call(6, 0)
    assert caught.value.where is not None
    assert caught.value.where.line == 2


def test_a_constant_division_by_zero_fails_only_where_it_runs():
    body = """
      %zero = arith.constant 0 : i32
      %r = scf.if %c -> i32 {
        %q = arith.divsi %zero, %zero : i32
        scf.yield %q : i32
      } else {
        scf.yield %zero : i32
      }
      return %r : i32"""
    executable = build(function("%c: i1", body, "-> i32"), devices=fake()[1])
    assert executable.call(False) == 0
    with pytest.raises(ArgumentError, match="divided by zero"):
        executable.call(True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("%r = math.sqrt %x : f32", "math.sqrt in a host function"),
        ("%v = vector.broadcast %x : f32 to vector<4xf32>", "vector.broadcast"),
        ("%v = arith.constant dense<1> : vector<4xi32>", "arith.constant on vector<4xi32>"),
    ],
)
def test_unknown_operations_name_themselves_and_the_line(body, text):
    with pytest.raises(LowerError, match=text) as caught:
        build(function("%x: f32", body + "\nreturn"))
    assert caught.value.where.line == 2
    assert caught.value.fix
