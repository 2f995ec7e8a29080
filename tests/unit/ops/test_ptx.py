"""The registry of inline PTX: nothing is emitted that it does not name."""

import ast
from pathlib import Path

import pytest

import nvdsl as nv
from nvdsl.ir.walk import defining, find
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import ptx
from tests.unit.kernels import trace


def test_every_inline_text_in_the_package_has_a_name_in_the_registry():
    package = Path(nv.__file__).parent
    emitted = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called == "ptx.emit":
                emitted.append(ast.literal_eval(node.args[0]))
            elif called.endswith(("InlineAsmOp", "inline_asm")):
                # debug_ptx: steps of debug mode, after tracing; order and st_async: no results; inline_ptx: the user's
                known = ("ptx.py", "debug_ptx.py", "order.py", "st_async.py", "inline_ptx.py")
                assert path.name in known, f"{path}:{node.lineno}"
    named_elsewhere = {"touch", "try_wait", "st_async", ptx.ORDER}  # the second is lower.cluster_waits's
    assert set(emitted) | named_elsewhere == set(ptx.REGISTRY)
    assert emitted


def test_a_name_that_is_not_registered_is_a_bug():
    with pytest.raises(AssertionError, match=r"made\.up"):
        ptx.emit("made.up", "nop;", [], [], None)


def test_packing_and_unpacking_are_inverse():
    def body():
        values = [nv.f32(1.0), nv.f32(2.0), nv.f32(3.0)]
        struct = ptx.pack(values)
        assert [str(t) for t in llvm.StructType(struct.type).body] == ["f32"] * 3
        for i, field in enumerate(ptx.unpack(struct)):
            assert list(defining(field).attributes["position"]) == [i]

    trace(body)


@pytest.mark.parametrize(
    ("dtype", "register"),
    [(nv.f32, "f"), (nv.i32, "r"), (nv.i64, "l"), (nv.f64, "d"), (nv.f16, "h"), (nv.i16, "h")],
    ids=str,
)
def test_touch_ties_each_result_to_its_operand(dtype, register):
    def body():
        ptx.touch(ptx.pack([dtype(1), dtype(2)]))

    (op,) = find(trace(body), "llvm.inline_asm")
    assert op.attributes["constraints"].value == f"={register},={register},0,1"
    assert op.attributes["asm_string"].value == ""
    assert "has_side_effects" in op.attributes, "or LLVM may drop or move it"
    assert ir.StringAttr(op.attributes["nvdsl.ptx"]).value == "touch"


def test_one_register_is_touched_as_itself():
    """LLVM: inline assembly with one output returns no struct."""

    def body():
        ptx.touch(ptx.pack([nv.i32(1)]))

    (op,) = find(trace(body), "llvm.inline_asm")
    assert str(op.results[0].type) == "i32" and op.attributes["constraints"].value == "=r,0"
