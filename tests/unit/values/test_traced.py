"""nvdsl/values/traced.py: the classes, how numbers become values, bitcast, vectors."""

import operator
import subprocess
import sys

import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, vector
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Unsigned, Value, as_value, bitcast, const
from tests.unit.traced import evaluate, ptx, tracing


def test_ops_of_the_dialects_give_values() -> None:
    with tracing(nv.i32) as (x,):
        tid = gpu.thread_id(gpu.Dimension.x)
        assert type(tid) is Value and tid.dtype is nv.index
        assert (tid * 4 + x).dtype is nv.index
        assert type(arith.addi(x, x)) is Value
        assert type(arith.addi(x, x).owner.operands[0]) is Value
        assert type(vector.broadcast(ir.VectorType.get([4], nv.f32.ir), const(1.0))) is Value


def test_rebuilding_keeps_the_class() -> None:
    with tracing(nv.i32) as (x,):
        u = nv.u32(x)
        for old in (x, u):
            new = type(old)(arith.addi(x, x))
            assert type(new) is type(old) and new.dtype is old.dtype
        with pytest.raises(TraceError, match="f32 has no unsigned reading"):
            _ = Unsigned(const(1.0)).dtype


def test_hash_and_identity() -> None:
    with tracing(nv.i32, nv.i32) as trace:
        x, y = trace
        assert ir.Value.__eq__(x, Value(x)) and not ir.Value.__eq__(x, y)
        assert (x == None, x != None) == (False, True)  # noqa: E711
        assert x in [None, x] and not trace.ops
        for other in ("x", [0], (0,), nv.i32):  # Python would say that it differs
            with pytest.raises(TraceError, match="== of a traced number"):
                other == x  # noqa: B015
        for lookup in (lambda: {x: 1}, lambda: x in {0, 1}, lambda: {0: 1}.get(x), lambda: {0: 1}[x]):
            with pytest.raises(TraceError, match="the hash of a traced value is not known"):
                lookup()  # they would compare objects, not numbers
    assert hash(x) == hash(Value(x))


def test_other_classes_get_their_turn() -> None:
    class Other:
        def __radd__(self, x):
            return "other"

    with tracing(nv.i32) as (x,):
        assert x + Other() == "other"
        for bad in (None, "a", [1], object()):
            for fn in (operator.add, operator.lshift, operator.lt):
                with pytest.raises(TypeError):
                    fn(x, bad)
                with pytest.raises(TypeError):
                    fn(bad, x)


def test_numpys_functions() -> None:
    with tracing(nv.f32) as (x,):
        for number in (np.float32(2), np.float16(0.5)):
            assert {(number * x).dtype, (x + number).dtype, np.multiply(number, x).dtype} == {nv.f32}
        ops = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
        assert {op(np.float32(2), x).dtype for op in ops} == {nv.bool_}
        assert "predicate = 2" in str((np.float32(2) < x).owner)  # ogt: x > 2
        for call, name, fix in (
            (lambda: np.exp(x), "np.exp", "nv.math.exp(x)"),
            (lambda: np.maximum(x, 0.0), "np.maximum", "nv.max(x)"),
            (lambda: np.add.reduce(x), "np.add.reduce", "nv.math"),
            (lambda: np.zeros(3) + x, "np.add", "lists hold traced values"),
            (lambda: x < np.zeros(3), "np.", "nv.math"),
        ):
            with pytest.raises(TraceError) as caught:
                call()
            assert name in caught.value.message and fix in caught.value.fix


def test_import_needs_no_context() -> None:
    code = "import nvdsl.values, nvdsl.mlir.ir as ir; print(ir.Context.current)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "None\n", done.stderr


def test_const() -> None:
    with tracing(nv.i32) as (x,):
        assert const(3).dtype is nv.index and const(3.0).dtype is nv.f32 and const(True).dtype is nv.bool_
        assert const(3, nv.u8).dtype is nv.u8 and type(const(3, nv.u8)) is Unsigned
        assert const(3, nv.f16.ir).dtype is nv.f16
        assert const(3, nv.u32(x)).dtype is nv.u32
        assert const(x) is x and const(x, nv.i32) is x
        assert const(x, nv.f32).dtype is nv.f32 and const(x, nv.index.ir).dtype is nv.index
        splat = const(1.5, ir.VectorType.get([4], nv.f32.ir))
        assert splat.shape == (4,) and splat.dtype is nv.f32
        with pytest.raises(TraceError, match="'a' is not a number"):
            const("a")
    assert evaluate(lambda: [const(2**32 - 1, nv.u32), const(2**64 - 1, nv.u64), const(-5)]) == [
        2**32 - 1,
        2**64 - 1,
        -5,
    ]


def test_as_value() -> None:
    with tracing(nv.f16, nv.u8, nv.bool_) as (h, u, flag):
        assert [as_value(x).dtype for x in (True, 1, 1.0)] == [nv.bool_, nv.i32, nv.f32]
        assert [as_value(x, h).dtype for x in (1, 1.0)] == [nv.f16, nv.f16]
        assert [as_value(x, nv.i64).dtype for x in (1, 1.5)] == [nv.i64, nv.f32]  # never 1.5 as 1
        assert as_value(1, u).dtype is nv.u8 and as_value(2, flag).dtype is nv.i32
        assert as_value(np.int16(3)).dtype is nv.i16 and as_value(np.int16(3), like=h).dtype is nv.i16
        assert as_value(np.array(2.0, np.float16)[()]).dtype is nv.f16
        assert as_value(h, like=nv.f32) is h
        with pytest.raises(TraceError, match="2147483648 does not fit i32"):
            as_value(2**31)
        with pytest.raises(TraceError, match="is not a number"):
            as_value([1])


def test_bitcast() -> None:
    with tracing(nv.f32, nv.u16, nv.i8) as trace:
        x, h, b = trace
        for value, t in ((x, nv.i32), (x, nv.u32), (h, nv.bf16), (b, nv.e4m3), (b, nv.u8)):
            result = bitcast(value, t)
            assert result.dtype is t and result.type == t.ir
            back = bitcast(result, value.dtype)
            assert back.dtype is value.dtype and type(back) is type(value)
        assert trace.ops == ["bitcast"] * 8  # i8 as u8 needs no op
    assert evaluate(lambda: [bitcast(nv.f32(-1.0), nv.u32), bitcast(nv.i8(-1), nv.u8)]) == [0xBF800000, 255]


def test_vector_operators() -> None:
    def build():
        v = const(3, ir.VectorType.get([4], nv.i32.ir))
        u = nv.u8(v)
        f = nv.f32(v)
        return [v + v, 10 - v, -v // 2, v < 4, f * 0.5, f + nv.f16(1.0), u - 4, nv.i32(5) % v, v << 2, v**2]

    expected = [6, 7, -2, True, 1.5, 4.0, 255, 2, 12, 9]
    for result, number in zip(evaluate(build), expected, strict=True):
        assert result.tolist() == [number] * 4


def test_vector_elements() -> None:
    with tracing(nv.f32, nv.u8, vector=4) as (v, u):
        assert (v.shape, v.dtype, len(v)) == ((4,), nv.f32, 4)
        assert [x.dtype for x in v] == [nv.f32] * 4 and len(list(v)) == 4
        assert type(u[0]) is Unsigned and u[-1].dtype is nv.u8
        assert list(v[-1].owner.attributes["static_position"]) == [3]
        assert v[gpu.thread_id(gpu.Dimension.x)].dtype is nv.f32
        assert (v[1:3].shape, v[::-2].dtype, type(u[:1])) == ((2,), nv.f32, Unsigned)
        assert list(v[::-2].owner.attributes["mask"]) == [3, 1]
        for empty in (slice(2, 2), slice(0, 4, 0), slice(v[0], 2)):
            with pytest.raises(TraceError, match="a vector of 4 f32"):
                v[empty]
        for bad in (4, -5, 1.0):
            with pytest.raises(TraceError, match="subscript"):
                v[bad]
        with pytest.raises(TraceError, match="2 subscripts"):
            v[0, 1]
    with tracing(nv.i32) as trace:
        grid = const(0, ir.VectorType.get([2, 3], nv.i32.ir))
        assert (grid[1, trace[0]] + 1).dtype is nv.i32
        with pytest.raises(TraceError, match="same shape"):
            grid + const(0, ir.VectorType.get([3, 2], nv.i32.ir))


def test_vectors_lower() -> None:
    text = ptx(lambda v, x: [(v * 2.0 + x[0])[i] for i in range(4)], nv.f32, nv.f32, vector=4)
    assert text.count("mul") + text.count("add.rn.f32") >= 8
