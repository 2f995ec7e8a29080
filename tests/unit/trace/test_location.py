"""Which line of the user's an op, an error or a frame belongs to."""

import contextlib
import dataclasses
import os

import pytest

import nvdsl
from nvdsl.errors import Where, frames
from nvdsl.ir import location
from nvdsl.mlir import ir
from nvdsl.trace.control import Range
from nvdsl.trace.rewrite import convert
from nvdsl.values import dtypes as nv
from tests.unit.trace.tracing import trace


def test_the_caller_is_the_innermost_user_frame():
    here = frames.caller()
    assert here == Where(__file__, test_the_caller_is_the_innermost_user_frame.__code__.co_firstlineno + 1)

    def inner():
        return frames.caller()

    assert inner() == Where(__file__, inner.__code__.co_firstlineno + 1)


def test_the_caller_inside_of_nvdsl_is_its_user():
    def visit(where):
        found.append(where())

    found = []
    package = os.path.dirname(nvdsl.__file__)
    for name, code in (("ops.py", "f"), ("kernels/matmul.py", "f")):
        module = {"caller": frames.caller}
        exec(compile("def f():\n    return caller()\n", os.path.join(package, name), "exec"), module)
        visit(module[code])
    line = visit.__code__.co_firstlineno + 1
    assert found == [Where(__file__, line), Where(os.path.join(package, "kernels/matmul.py"), 2)]


def test_frames_between_are_skipped():
    @contextlib.contextmanager
    def managed():
        yield

    assert not frames.is_user(contextlib.__file__)
    assert not frames.is_user("<string>")
    assert not frames.is_user(ir.__file__)
    assert not frames.is_user(location.__file__)
    assert frames.is_user(__file__)
    assert frames.is_user("<ipython-input-3-abc>")


def test_no_user_frame(monkeypatch):
    monkeypatch.setattr(frames, "is_user", lambda filename: False)
    assert frames.caller() is None


def test_where_of_locations():
    with ir.Context():
        plain = ir.Location.file("a.py", 3, 4)
        named = ir.Location.name("f", plain)
        unknown = ir.Location.unknown()
        assert location.where(plain) == Where("a.py", 3)
        assert location.where(named) == Where("a.py", 3)
        assert location.where(ir.Location.callsite(named, [ir.Location.file("b.py", 1, 1)])) == Where("a.py", 3)
        assert location.where(ir.Location.callsite(unknown, [plain])) == Where("a.py", 3)
        assert location.where(ir.Location.fused([unknown, named])) == Where("a.py", 3)
        assert location.where(unknown) is None


def test_where_of_ops_and_values():
    def f(a):
        b = a + 1
        print(b)
        return b

    traced = trace(f, nv.i32)
    line = f.__code__.co_firstlineno
    (op,) = traced.ops("arith.addi")
    assert location.where(op) == location.where(traced.result) == Where(__file__, line + 1)
    assert location.where(traced.ops("gpu.printf")[0]) == Where(__file__, line + 2)


def helper(x):
    return x * 3


@dataclasses.dataclass
class Doubled:
    x: object

    def __post_init__(self):
        self.x = self.x * 2


def test_every_op_of_a_function_has_its_line():
    # fmt: off
    def f(a, n):
        total = 0
        for i in Range(n):
            if i > 2 and (
                a
                < i
            ):
                total += helper(i)
            else:
                total -= 1
        while total > 10:
            total = total - (4 if a > 0 else 5)
        d = Doubled(a)
        if a == 7:
            return total
        return d.x
    # fmt: on

    traced = trace(f, nv.i32, nv.i32)
    first = f.__code__.co_firstlineno
    lines = {}

    def visit(op):
        where = location.where(op)
        if where.line >= first:
            assert where.file == __file__
            lines.setdefault(op.name, set()).add(where.line - first)
        return ir.WalkResult.ADVANCE

    traced.function.walk(visit)
    assert lines["scf.for"] == {2} and lines["scf.while"] == {10} and lines["scf.condition"] == {10}
    assert lines["scf.if"] == {3, 13}
    assert lines["arith.subi"] == {9, 11}
    assert lines["arith.cmpi"] >= {3, 10, 11, 13} and lines["arith.cmpi"] & {4, 5}
    in_helper, in_post_init = (location.where(op) for op in traced.ops("arith.muli"))
    assert in_helper == Where(__file__, helper.__code__.co_firstlineno + 1)
    assert in_post_init == Where(__file__, Doubled.__post_init__.__code__.co_firstlineno + 1)


class Chain:
    def __init__(self, x):
        self.x = x

    def then(self, x):
        if x is None:
            raise ArithmeticError
        return Chain(self.x + x)


def test_a_chain_of_calls_is_reported_line_by_line():
    # fmt: off
    def f(a):
        return (Chain(a)
                .then(1)
                .then(nv.f32(a
                             ))
                .then(
                    None
                ))
    # fmt: on

    with ir.Context(), location.tracebacks():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            converted = convert(f)
            with pytest.raises(ArithmeticError) as caught:
                converted(nv.i32(1))
            names = [entry for entry in caught.traceback if entry.name == "f"]
            assert [entry.lineno + 1 - f.__code__.co_firstlineno for entry in names] == [5]


def test_a_location_names_as_many_frames_as_asked_for():
    def f(a):
        return helper(a)

    converted = convert(f)
    for depth in (1, 2):
        with ir.Context(), location.tracebacks(depth=depth):
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                x = converted(nv.i32(1))
            text = str(x.location)
            assert text.count("callsite") == depth - 1
            assert f'"{__file__}":{helper.__code__.co_firstlineno + 1}' in text
            assert ("f.py" in text or f":{f.__code__.co_firstlineno + 1}:" in text) is (depth == 2)


def test_block_arguments_have_a_place():
    def f(n):
        x = 0
        for i in Range(n):
            x = x + i
        while x > 3:
            x = x - 1
        return x

    traced = trace(f, nv.i32)
    first = f.__code__.co_firstlineno
    for name, line in (("scf.for", 2), ("scf.while", 4)):
        (op,) = traced.ops(name)
        for region in op.regions:
            for argument in region.blocks[0].arguments:
                assert location.where(argument) == Where(__file__, first + line)
