"""`print` of traced values: gpu.printf."""

import pytest

from nvdsl.mlir import ir
from nvdsl.values import dtypes as nv
from tests.unit.trace.tracing import fails, trace


def formats(traced):
    return [op.attributes["format"].value for op in traced.ops("gpu.printf")]


def test_arguments():
    def f(a, x):
        print(a)
        print("a =", a, "x =", x, 3, None, 50, "%")
        print(a, x, sep=", ", end=";")
        print(a, sep=None, end=None)

    assert formats(trace(f, nv.i32, nv.f32)) == ["%d\n", "a = %d x = %g 3 None 50 %%\n", "%d, %g;", "%d\n"]


@pytest.mark.parametrize(
    "type, form, printed",
    [
        (nv.i8, "%d", "i32"), (nv.u8, "%u", "i32"), (nv.i32, "%d", "i32"), (nv.u32, "%u", "i32"),
        (nv.i64, "%lld", "i64"), (nv.u64, "%llu", "i64"), (nv.index, "%lld", "i64"), (nv.bool_, "%d", "i32"),
        (nv.f16, "%g", "f32"), (nv.bf16, "%g", "f32"), (nv.f32, "%g", "f32"), (nv.f64, "%g", "f64"),
        (nv.e4m3, "%g", "f32"),
    ],
)  # fmt: skip
def test_types(type, form, printed):
    def f(x):
        print(x)

    (op,) = trace(f, type).ops("gpu.printf")
    assert op.attributes["format"].value == form + "\n"
    assert str(op.operands[0].type) == printed


def test_small_numbers_keep_their_sign():
    def f(a, b):
        print(a, b, a > b)

    traced = trace(f, nv.i8, nv.u8)
    assert [op.name for op in traced.ops("arith.extsi")] and len(traced.ops("arith.extui")) >= 2


def test_f_strings():
    def f(a, x):
        n = 7
        print(f"{a} of {n:03d}: {x:.3f} 100% {n!r:>4}")
        print(f"{a:5d}|{a:#x}|{x:8g}|{'text':>6}", f"{n}")
        print(f"plain {n}", a)
        width = 6
        print(f"{a:{width}d}")

    assert formats(trace(f, nv.u32, nv.f32)) == [
        "%u of 007: %.3f 100%%    7\n",
        "%5d|%#x|%8g|  text 7\n",
        "plain 7 %u\n",
        "%6d\n",
    ]


def test_vectors():
    def f(x):
        type = ir.VectorType.get([2], x.type)
        print(ir.Operation.create("vector.broadcast", results=[type], operands=[x]).result)

    traced = trace(f, nv.f32)
    assert formats(traced) == ["[%g, %g]\n"]
    assert len(traced.ops("gpu.printf")[0].operands) == 2


def test_containers():
    def f(a, x):
        print([a, "50%", [x]], (a,), {"x": x, 1: 2})
        print(f"{[a, x]} {(1, 2)}")

    traced = trace(f, nv.i32, nv.f32)
    assert formats(traced) == ["[%d, '50%%', [%g]] (%d,) {'x': %g, 1: 2}\n", "[%d, %g] (1, 2)\n"]
    assert [len(op.operands) for op in traced.ops("gpu.printf")] == [4, 2]


def test_plain_arguments_are_pythons(capsys):
    def f(a):
        print("plain", 3, sep="-", end="!")
        print(f"{3:>4}|{'x'!r}")
        print()

    traced = trace(f, nv.i32)
    assert capsys.readouterr().out == "plain-3!   3|'x'\n\n"
    assert not traced.ops("gpu.printf")


def test_in_a_branch():
    def f(a):
        if a > 0:
            print("positive", a)
        else:
            print(f"{a} is not")

    traced = trace(f, nv.i32)
    assert traced.printed(2) == ["positive 2\n"] and traced.printed(-2) == ["-2 is not\n"]


def test_errors():
    def f(a):
        print(f"{a:>5}")  # <-

    fails(f, nv.i32, match="print of a traced i32 with the format '>5'")

    def g(a):
        print(f"{a:d}")  # <-

    assert "f, F, e" in fails(g, nv.f32, match="print of a traced f32 with the format 'd'").fix

    def h(a):
        print(a, file=None, flush=True)  # <-

    fails(h, nv.i32, match="print\\(..., file, flush=...\\) of traced values")

    def k(a):
        from nvdsl.mlir.dialects import llvm

        print(llvm.mlir_zero(llvm.PointerType.get()))  # <-

    fails(k, nv.i32, match="print of a value of type !llvm.ptr")

    def many(a):
        print([a] * 32)
        print(*[a] * 33)  # <-

    fails(many, nv.i32, match="33 traced values in one print")
