import sys

import pytest

import nvdsl as nv
from nvdsl.ir.walk import ancestors, constant, defining, find, find_outside, walk
from nvdsl.mlir import ir
from tests.unit.kernels import array, trace


def nested(x):
    if nv.thread_id.x < 4:
        for i in nv.range(8):
            x[i] = 1.0
    else:
        x[9] = 2.0


def test_ops_are_found_in_program_order_at_any_depth():
    module = trace(nested, array(nv.f32, 16))
    stores = find(module, "memref.store")
    assert [constant(op.operands[2]) for op in stores] == [None, 9]
    names = [op.name for op in find(module, "gpu.launch", "scf.if", "scf.for", "memref.store")]
    assert sorted(names) == ["gpu.launch", "memref.store", "memref.store", "scf.for", "scf.if"]
    assert find(module, "memref.stor") == []
    assert [op.name for op in find(find(module, "scf.for")[0], "memref.store")] == ["memref.store"]


def test_ancestors_are_told_from_the_inside_out_with_their_region():
    first, second = find(trace(nested, array(nv.f32, 16)), "memref.store")
    assert [(op.name, region) for op, region in ancestors(first)] == [
        ("scf.for", 0),
        ("scf.if", 0),
        ("gpu.launch", 0),
        ("func.func", 0),
    ]
    assert [(op.name, region) for op, region in ancestors(second)][:2] == [("scf.if", 1), ("gpu.launch", 0)]


def test_constants_and_definitions():
    module = trace(nested, array(nv.f32, 16))
    first, second = find(module, "memref.store")
    assert constant(second.operands[2]) == 9
    assert constant(second.operands[0]) is None, "a float"
    assert constant(first.operands[2]) is None, "the loop's variable"
    assert defining(second.operands[2]).name == "arith.constant"
    assert defining(first.operands[1]) is None, "an argument of the function"


def test_inner_ops_come_before_the_one_that_holds_them_as_in_mlir():
    module, expected = trace(nested, array(nv.f32, 16)), []

    def visit(op):
        expected.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    assert walk(module) == expected


def test_what_stands_in_a_closed_op_is_not_found():
    module = trace(nested, array(nv.f32, 16))
    assert [op.name for op in find_outside(module, "gpu.launch", ("gpu.launch",))] == ["gpu.launch"]
    assert find_outside(module, "memref.store", ("gpu.launch",)) == []
    assert find_outside(module, "memref.store", ()) == find(module, "memref.store")


@pytest.mark.parametrize("after", [3, 4, 9])
def test_an_interrupt_in_the_middle_of_a_walk_is_one(after):
    """And no RuntimeError, which the bindings' own walk makes of it."""
    module, lines = trace(nested, array(nv.f32, 16)), []

    def interrupt(frame, event, _):
        if frame.f_code.co_name == "_note" and event == "line":
            lines.append(event)
            if len(lines) == after:
                raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            walk(module)
    finally:
        sys.settrace(before)
    assert len(lines) <= after + 6 and walk(module)
