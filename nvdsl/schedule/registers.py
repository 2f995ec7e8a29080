"""A step for what stays in registers: the sums."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import walk
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import transform
from nvdsl.mlir.dialects.transform import structured
from nvdsl.schedule.rewrite import is_shared, key
from nvdsl.schedule.step import step
from nvdsl.schedule.warps import FRAGMENT_LOOP
from nvdsl.schedule.work import Work

_READ, _WRITE = "vector.transfer_read", "vector.transfer_write"


@step
def hoist_sums(work: Work) -> None:
    """Takes loads and stores of C out of the loop over K: the sums become values that the loop carries, in registers.
    What is stored and then loaded again, between elementwise operations for instance, stays in registers, too."""
    if not work.find("vector.contract"):
        work.refuse("no vectors", "it works on vectors of C", "vectorize() before")
    if any(FRAGMENT_LOOP in op.attributes for op in work.find("scf.for")):
        work.refuse("loops over tiles of a tensor core", "each sum is a value of its own", "unroll('fragments') before")
    if not work.find("gpu.launch"):
        work.refuse("no gpu.launch", "warps' tiles of C are known by their thread's ids", "launch() before")
    fold_views(work)
    _forward(work)
    with work.transform() as script:
        structured.HoistRedundantVectorTransfersOp(script.any_op, script.match("func.func"))
    work.clean()
    work.run("loop-invariant-code-motion")
    _forward(work)
    work.clean()


def fold_views(work: Work) -> None:
    """Let accesses name the whole array and not a view of it."""
    with work.transform() as script:
        transform.ApplyLoopInvariantCodeMotionOp(script.match("scf.for"))
    work.run("fold-memref-alias-ops", "canonicalize", "cse", "loop-invariant-code-motion")


def _forward(work: Work) -> None:
    """Reads of global memory of what the same thread has just written take the value, and of two writes to one place
    the last stays. Places are the same where array and indices are, and different arrays are different places; a write
    to the array at other indices is an end of what is known of it."""
    for block in dict.fromkeys(op.operation.block for op in work.find(_WRITE)):
        written: dict[Any, Any] = {}
        for op in [one.operation for one in block.operations]:
            if op.name == _READ and not is_shared(op.operands[0]):
                place = _place(op.operands[0], list(op.operands)[1:-1], op.results[0].type)
                if place in written:
                    op.results[0].replace_all_uses_with(written[place].operands[0])
                    op.erase()
            elif op.name == _WRITE and not is_shared(op.operands[1]):
                place = _place(op.operands[1], list(op.operands)[2:], op.operands[0].type)
                if place in written:
                    written[place].erase()
                written[place] = op
            elif any(_may_read(inner, written) for inner in walk(op)):
                written = {}


def _place(array: Any, indices: list[Any], type: Any) -> Any:
    return (key(array), tuple(map(key, indices)), str(type))


def _may_read(op: Any, written: dict[Any, Any]) -> bool:
    """Whether an operation may read or write an array in which something is known: not one that names only others."""
    arrays = {place[0] for place in written}
    return any(isinstance(v.type, ir.MemRefType) and key(v) in arrays for v in op.operands)
