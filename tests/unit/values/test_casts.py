"""nvdsl/values/casts.py: what a conversion gives, and the instruction it becomes."""

import itertools

import numpy as np
import pytest

from nvdsl.values import dtypes as nv
from tests.unit.traced import evaluate, ptx, tracing

SCALARS = [t for t in nv.ALL if t.arithmetic]
FLOAT8 = [nv.e4m3, nv.e5m2]


def samples(t: nv.DType, target: nv.DType) -> list:
    """Numbers of type ``t`` whose conversion to ``target`` is defined."""
    if t is nv.bool_:
        return [False, True]
    if not t.is_float:
        numbers = [t.min, t.min + 1, 0, 1, 2, 3, 77, t.max - 1, t.max] + ([-1, -77] if t.signed else [])
        return [n for n in numbers if not target.is_float or abs(n) <= 60000]
    numbers = [-65000.0, -2.75, -1.0, -0.5, -0.0, 0.0, 0.1, 0.5, 1.0, 1.5, 2.5, 100.7, 65000.0]
    if target.is_float:  # MLIR folds exact conversions only; test_instructions shows the rounding
        numbers = [t.numpy.type(x) for x in [*numbers, np.inf, -np.inf, 6e-8]]
        middle = [x.astype(nv.f32.numpy) for x in numbers] if t.bits == target.bits else numbers
        return [n for n, m in zip(numbers, middle, strict=True) if m.astype(target.numpy) == m]
    if target is nv.bool_:
        return [*numbers, np.nan, np.inf]
    return [x for x in numbers if target.min <= int(t.numpy.type(x)) <= target.max and abs(x) < 60000]


@pytest.mark.parametrize("source", SCALARS, ids=repr)
def test_as_numpy_converts(source: nv.DType) -> None:
    """Integers wrap, floats are cut toward zero."""
    cases = [(n, target) for target in SCALARS for n in samples(source, target)]
    results = evaluate(lambda: [target(source(n)) for n, target in cases])
    with np.errstate(all="ignore"):
        for (n, target), found in zip(cases, results, strict=True):
            expected = source.numpy.type(n).astype(target.numpy)
            assert found.dtype == target.numpy
            np.testing.assert_array_equal(found, expected, err_msg=f"{source}({n}) -> {target}")


OPS = [
    ("i8 i32", ["extsi"]),
    ("u8 i32", ["extui"]),
    ("u8 u32", ["extui"]),
    ("i8 u32", ["extsi"]),  # the sign of the source decides, as in C
    ("bool_ i32", ["extui"]),
    ("i32 i8", ["trunci"]),
    ("i32 u32", []),
    ("u32 i32", []),
    ("i32 index", ["index_cast"]),
    ("u32 index", ["index_castui"]),
    ("bool_ index", ["index_castui"]),
    ("index i32", ["index_cast"]),
    ("index f32", ["index_cast", "sitofp"]),
    ("f32 index", ["fptosi", "index_cast"]),
    ("i32 f32", ["sitofp"]),
    ("u32 f32", ["uitofp"]),
    ("bool_ f16", ["uitofp"]),
    ("f32 i32", ["fptosi"]),
    ("f32 u8", ["fptoui"]),
    ("f16 f32", ["extf"]),
    ("f64 bf16", ["truncf"]),
    ("f16 bf16", ["extf", "truncf"]),
    ("f32 bool_", ["constant", "cmpf"]),
    ("i32 bool_", ["constant", "cmpi"]),
    ("f32 tf32", ["nvvm.convert.float.to.tf32", "bitcast"]),
    ("f32 e4m3", ["constant", "nvvm.convert.f32x2.to.f8x2", "trunci", "bitcast"]),
    ("f16 e5m2", ["extf", "constant", "nvvm.convert.f32x2.to.f8x2", "trunci", "bitcast"]),
]


@pytest.mark.parametrize(("pair", "expected"), OPS)
def test_ops(pair: str, expected: list[str]) -> None:
    source, target = (nv.by_name(name) for name in pair.split())
    with tracing(source) as trace:
        result = target(trace[0])
        assert trace.ops == expected
        assert result.dtype is (nv.f32 if target is nv.tf32 else target)


def test_the_same_type_needs_no_op() -> None:
    with tracing(*(t for t in nv.ALL if t is not nv.tf32)) as trace:
        for x in trace:
            assert x.dtype(x) is x
        assert trace.ops == []


INSTRUCTIONS = [
    ("f32 f16", "cvt.rn.f16.f32"),
    ("f32 bf16", "cvt.rn.bf16.f32"),
    ("bf16 f32", "cvt.f32.bf16"),
    ("f32 tf32", "cvt.rna.tf32.f32"),
    ("f32 e4m3", "cvt.rn.satfinite.e4m3x2.f32"),
    ("f32 e5m2", "cvt.rn.satfinite.e5m2x2.f32"),
    ("e4m3 f16", "cvt.rn.f16x2.e4m3x2"),
    ("e5m2 f32", "cvt.rn.f16x2.e5m2x2"),
    ("i32 f32", "cvt.rn.f32.s32"),
    ("u32 f32", "cvt.rn.f32.u32"),
    ("f32 i32", "cvt.rzi.s32.f32"),
    ("f32 u32", "cvt.rzi.u32.f32"),
]


@pytest.mark.parametrize(("pair", "instruction"), INSTRUCTIONS)
def test_instructions(pair: str, instruction: str) -> None:
    source, target = (nv.by_name(name) for name in pair.split())
    assert instruction in ptx(lambda x: [target(x)], source)


def test_every_conversion_lowers() -> None:
    sources = [t for t in nv.ALL if t is not nv.tf32]
    pairs = list(itertools.product(range(len(sources)), nv.ALL))
    text = ptx(lambda *values: [target(values[i]) for i, target in pairs], *sources)
    assert text.count("st.volatile") >= len(pairs)
    assert ".extern" not in text and "call" not in text


@pytest.mark.parametrize("count", [3, 4])
def test_vectors(count: int) -> None:
    """Two elements a float8 instruction; the odd vector does them one by one."""
    for t in FLOAT8:
        with tracing(nv.f16, vector=count) as trace:
            small = t(trace[0])
            assert (small.dtype, small.shape) == (t, (count,))
            back = nv.f32(small)
            assert (back.dtype, back.shape) == (nv.f32, (count,))
            expected = count // 2 if count % 2 == 0 else count
            assert trace.ops.count("nvvm.convert.f32x2.to.f8x2") == expected
            assert trace.ops.count("nvvm.convert.f8x2.to.f16x2") == expected
            if count % 2 == 0:  # PTX: the first operand goes to the high byte
                high, low = _first(trace, "nvvm.convert.f32x2.to.f8x2").operands
                assert [list(x.owner.attributes["static_position"]) for x in (low, high)] == [[0], [1]]
    text = ptx(lambda v: list(nv.f32(nv.e4m3(v))) + list(nv.tf32(v)), nv.f32, vector=count)
    assert text.count("cvt.rn.f16x2.e4m3x2") == (2 if count == 4 else 3)
    assert text.count("cvt.rna.tf32.f32") == count


def _first(trace, name: str):
    (function,) = trace.module.body.operations
    return next(op for op in function.regions[0].blocks[0].operations if op.operation.name == name)


def test_vectors_convert_as_scalars_do() -> None:
    def build():
        v = nv.f32(const_vector(nv.i32, -3))
        return [nv.i8(v), nv.f16(v), nv.bool_(nv.i32(v)), nv.index(v), nv.u16(nv.i64(v))]

    for result, expected in zip(evaluate(build), [-3, -3.0, True, -3, 65533], strict=True):
        assert result.tolist() == [expected] * 2


def const_vector(t: nv.DType, number: int):
    from nvdsl.mlir import ir
    from nvdsl.values.traced import const

    return const(number, ir.VectorType.get([2], t.ir))
