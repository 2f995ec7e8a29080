"""nvdsl/values/math.py: each function against Python's, over a NumPy interpreter of the ops that it is traced to,
and the instructions it becomes. (How far the instructions themselves are off was measured on the GPU.)"""

import math
from typing import Any

import numpy as np
import pytest

from nvdsl import math as m
from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Value
from tests.unit.traced import evaluate, one_of_each, ptx, tracing

FUNCTIONS = "exp2 exp log2 log sqrt rsqrt sin cos tanh erf floor ceil trunc round".split()
APPROXIMATE = "exp2_approx exp_approx log2_approx rcp_approx sqrt_approx rsqrt_approx sin_approx cos_approx".split()
PREDICATES = "isnan isinf isfinite".split()
EXACT = "sqrt floor ceil trunc round".split()


def reference(name: str) -> Any:
    """The function in double precision, on NumPy arrays."""
    own = {"rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "round": np.rint}
    own["erf"] = np.vectorize(math.erf, otypes=[float])
    name = name.removesuffix("_approx")
    return own.get(name) or getattr(np, name)


UNARY = {
    "arith.negf": np.negative,
    "nvvm.ex2": np.exp2,
    "nvvm.log2": np.log2,
    "nvvm.sin": np.sin,
    "nvvm.cos": np.cos,
    "nvvm.rcp.approx.ftz.f": np.reciprocal,
    "llvm.fabs.f32": np.abs,
    "llvm.sqrt.f32": np.sqrt,
    "llvm.floor.f32": np.floor,
    "llvm.ceil.f32": np.ceil,
    "llvm.trunc.f32": np.trunc,
    "llvm.roundeven.f32": np.rint,
    "llvm.tanh.f32": np.tanh,
    "llvm.nvvm.rsqrt.approx.f": lambda x: 1 / np.sqrt(x),
    "llvm.nvvm.rsqrt.approx.ftz.f": lambda x: 1 / np.sqrt(x),
    "llvm.nvvm.sqrt.approx.ftz.f": np.sqrt,
}
BINARY = {"arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide}
COMPARE = {1: np.equal, 2: np.greater, 4: np.less, 14: lambda a, b: np.isnan(a) | np.isnan(b)}


def interpret(name: str, x: np.ndarray) -> np.ndarray:
    """Trace the function for an f32, and run its ops on ``x`` in single precision (exact but for rounding)."""
    with tracing(nv.f32) as trace:
        (argument,) = trace
        result = getattr(m, name)(argument)
        (function,) = trace.module.body.operations
        values = {argument.get_name(): x}
        for op in function.regions[0].blocks[0].operations:
            operands = [values[operand.get_name()] for operand in op.operands]
            values[op.results[0].get_name()] = _run(op.operation, operands)
        return values[result.get_name()]


def _run(op: Any, operands: list[np.ndarray]) -> np.ndarray:
    name = op.attributes["intrin"].value if op.name == "llvm.call_intrinsic" else op.name
    with np.errstate(all="ignore"):
        if name == "arith.constant":
            return np.float32(op.attributes["value"].value)
        if name == "arith.cmpf":
            return COMPARE[op.attributes["predicate"].value](*operands)
        if name == "arith.select":
            return np.where(*operands)
        if name == "llvm.intr.fma":
            a, b, c = (operand.astype(np.float64) for operand in operands)
            return (a * b + c).astype(np.float32)
        if name in BINARY:
            return BINARY[name](*operands)
        return UNARY[name](operands[0].astype(np.float64)).astype(np.float32)


def floats(name: str) -> np.ndarray:
    """f32 numbers on which to compare, small ones and large ones."""
    span = {"exp": 85.0, "exp2": 120.0, "sin": 500.0, "cos": 500.0}.get(name.removesuffix("_approx"), 1e6)
    tiny = np.exp2(np.linspace(-60, math.log2(span), 4001))
    x = np.concatenate([-tiny[::-1], tiny]).astype(np.float32)
    if name.startswith(("log", "sqrt", "rsqrt")):
        return x[x > 0]
    return x[np.abs(x) < 3.1] if name in ("sin_approx", "cos_approx") else x


TOLERANCE = {  # relative and absolute; of single precision's 2**-24, and of what the algorithm loses
    "exp": (2**-22 + 85 * 2**-24, 0),
    "exp_approx": (2**-22 + 85 * 2**-24, 0),
    "sin": (0, 2**-22),
    "cos": (0, 2**-22),
    "log": (2**-22, 0),
    "tanh": (2**-22, 0),
    "erf": (2**-22, 0),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *APPROXIMATE, "tanh_approx"])
def test_against_numpy(name: str) -> None:
    x = floats(name)
    found, expected = interpret(name, x), reference(name)(x.astype(np.float64))
    relative, absolute = TOLERANCE.get(name, (2**-23, 0))
    np.testing.assert_allclose(found, expected, rtol=relative, atol=absolute)
    if name in EXACT:
        np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("name", [*FUNCTIONS, *APPROXIMATE, "tanh_approx"])
def test_special_numbers(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)
    with np.errstate(all="ignore"):
        expected = reference(name)(x.astype(np.float64))
    np.testing.assert_allclose(interpret(name, x), expected, rtol=2**-22)


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0, 3e38], np.float32)
    np.testing.assert_array_equal(interpret(name, x), reference(name)(x))


@pytest.mark.parametrize("bound", [0.625, 1.0, 4.0])
def test_the_pieces_of_tanh_and_erf_meet(bound: float) -> None:
    x = np.float32(bound) + np.arange(-200, 200, dtype=np.float32) * np.float32(2**-22)
    for name in ("tanh", "erf"):
        error = np.abs(interpret(name, x) - reference(name)(x.astype(np.float64)))
        assert error.max() < 1.5e-7


INSTRUCTIONS = {
    "exp2": "ex2.approx.f32",
    "exp": "ex2.approx.f32",
    "log2": "lg2.approx.f32",
    "log": "lg2.approx.f32",
    "sqrt": "sqrt.rn.f32",
    "rsqrt": "rsqrt.approx.f32",
    "sin": "sin.approx.f32",
    "cos": "cos.approx.f32",
    "tanh": "rcp.approx.ftz.f32",
    "erf": "ex2.approx.f32",
    "floor": "cvt.rmi.f32.f32",
    "ceil": "cvt.rpi.f32.f32",
    "trunc": "cvt.rzi.f32.f32",
    "round": "cvt.rni.f32.f32",
    "isnan": "setp.nan.f32",
    "isinf": "abs.f32",
    "isfinite": "abs.f32",
    "exp2_approx": "ex2.approx.ftz.f32",
    "exp_approx": "ex2.approx.ftz.f32",
    "log2_approx": "lg2.approx.ftz.f32",
    "rcp_approx": "rcp.approx.ftz.f32",
    "sqrt_approx": "sqrt.approx.ftz.f32",
    "rsqrt_approx": "rsqrt.approx.ftz.f32",
    "sin_approx": "sin.approx.ftz.f32",
    "cos_approx": "cos.approx.ftz.f32",
    "tanh_approx": "tanh.approx.f32",
}


def test_the_table_names_every_function() -> None:
    public = {n for n, f in vars(m).items() if n[0] != "_" and getattr(f, "__module__", "") == m.__name__}
    assert public == {*INSTRUCTIONS, "fma"}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions(name: str) -> None:
    text = ptx(lambda x: [getattr(m, name)(x)], nv.f32)
    assert INSTRUCTIONS[name] in text
    assert ".extern" not in text and "call" not in text


def test_every_type_lowers() -> None:
    """f16, bf16 and vectors too, and f64 where the table has it: with no library."""
    half = ptx(lambda *xs: [getattr(m, n)(x) for n in INSTRUCTIONS for x in xs], nv.f16, nv.bf16)
    double = ptx(lambda x: [getattr(m, n)(x) for n in (*EXACT, "rsqrt", *PREDICATES)], nv.f64)
    vector = ptx(lambda v: [y for n in INSTRUCTIONS for y in getattr(m, n)(v)], nv.f32, vector=3)
    for text in (half, double, vector):
        assert ".extern" not in text and "call" not in text
    assert "sqrt.rn.f64" in double and "cvt.rmi.f64.f64" in double
    assert vector.count("tanh.approx.f32") == 3


def test_types() -> None:
    with tracing(nv.f32, nv.f16, nv.bf16, nv.f64) as trace:
        for x in trace:
            for name in ("floor", "sqrt"):
                assert getattr(m, name)(x).dtype is x.dtype
            assert m.isnan(x).dtype is nv.bool_
        assert m.exp(trace[1]).dtype is nv.f16
    with tracing(nv.f32, vector=4) as (v,):
        for name in INSTRUCTIONS:
            result = getattr(m, name)(v)
            assert type(result) is Value and result.shape == (4,)


def test_numbers_stay_in_python() -> None:
    assert (m.sqrt(4), m.floor(-1.5), m.round(2.5), m.exp2(3), m.rsqrt(4.0)) == (2.0, -2, 2, 8.0, 0.5)
    assert m.isnan(math.nan) and m.fma(2, 3, 4) == 10 and m.rcp_approx(4) == 0.25


def test_fma() -> None:
    with tracing(nv.f32, nv.f16, nv.i32, nv.f64) as trace:
        x, h, i, d = trace
        assert m.fma(x, x, x) is not None and trace.ops == ["llvm.intr.fma"]
        for operands, t in (
            ((h, h, h), nv.f16),
            ((h, 2.0, x), nv.f32),
            ((2, 3.0, h), nv.f16),
            ((h, h, d), nv.f64),
            ((d, h, h), nv.f64),
            ((h, d, h), nv.f64),
            ((i, 0.5, h), nv.f32),  # as i * 0.5 + h
            ((i, 0.5, 1), nv.f32),
            ((i, i, 1), nv.i32),
        ):
            assert m.fma(*operands).dtype is t
        with pytest.raises(TraceError, match="is not a number"):
            m.fma(x, "a", 1)
    assert evaluate(lambda: [m.fma(nv.i32(3), 4, nv.i32(5))]) == [17]
    text = ptx(lambda x, h, b, d: [m.fma(y, y, 1) for y in (x, h, b, d)], nv.f32, nv.f16, nv.bf16, nv.f64)
    assert all(f"fma.rn.{t}" in text for t in ("f32", "f16", "bf16", "f64"))


ERRORS = [
    (lambda v: m.exp(v.i32), "exp of i32", "nv.f32(x)"),
    (lambda v: m.sqrt(v.u8), "sqrt of u8", "nv.f32(x)"),
    (lambda v: m.floor(v.index), "floor of index", "nv.f32(x)"),
    (lambda v: m.tanh(v.f64), "tanh of f64", "nv.f32(x)"),
    (lambda v: m.exp2_approx(v.f64), "exp2_approx of f64", "nv.f32(x)"),
    (lambda v: m.exp(v.e4m3), "exp on e4m3", "nv.f32(x)"),
    (lambda v: m.floor(v.tf32), "floor on tf32", "load it as f32"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case: int) -> None:
    fn, message, fix = ERRORS[case]
    with one_of_each() as values:
        with pytest.raises(TraceError) as caught:
            fn(values)
    error = caught.value
    assert message in error.message and fix in error.fix
    assert (error.where.file, error.where.line) == (__file__, fn.__code__.co_firstlineno)


@pytest.mark.parametrize("name", [*(f for f in FUNCTIONS if f != "erf"), *APPROXIMATE])
def test_numbers_at_the_edge_are_those_of_ieee(name: str) -> None:
    edges = [0.0, -0.0, -1.0, 1e5, math.inf, -math.inf, math.nan]
    with np.errstate(all="ignore"):
        expected = reference(name)(np.array(edges))
    np.testing.assert_allclose([getattr(m, name)(x) for x in edges], expected)


def test_vectors_of_higher_rank() -> None:
    from nvdsl.values.traced import const

    with tracing():
        grid = const(1.0, ir.VectorType.get([2, 2], nv.f32.ir))
        with pytest.raises(TraceError, match="rank 1|f32>"):
            m.exp2(grid)
