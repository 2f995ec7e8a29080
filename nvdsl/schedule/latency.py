"""A step that overlaps copies with products."""

from __future__ import annotations

from typing import Any

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, scf
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.rewrite import clone, is_shared, key, slice_of
from nvdsl.schedule.step import step
from nvdsl.schedule.warps import trips
from nvdsl.schedule.work import Work

_STORES = {"vector.transfer_write": 1, "vector.store": 1, "memref.store": 1}
"""Stores, and which operand is the array."""


@step
def hide_latency(work: Work) -> None:
    """Peels the first copy and the last product off the loop over K: a turn loads the tiles of the next one into
    registers, multiplies, and stores them behind a barrier. Global memory's latency passes while tensor cores work."""
    if k_loop(work) is None:
        return
    fold_views(work)
    loop = k_loop(work)
    body = loop.regions[0].blocks[0]
    *ops, end = [op.operation for op in body.operations]
    stores = [op for op in ops if op.name in _STORES and is_shared(op.operands[_STORES[op.name]])]
    barriers = [op for op in ops if op.name == "gpu.barrier"]
    of_loads = slice_of([op.operands[0].owner for op in stores], ops)
    of_stores = slice_of(stores, ops)
    of_products = slice_of([op for op in ops if op not in of_stores and op not in barriers], ops)
    loads, late, products = (
        [op for op in ops if op in part] for part in (of_loads, of_stores - of_loads, of_products)
    )
    if not stores or any(is_shared(v) for op in loads for v in op.operands) or any(op in of_products for op in stores):
        work.refuse("copies that are not loads followed by stores", "it works on unrolled copies into shared memory",
                    "stage(), copies() and unroll('copies') before")  # fmt: skip
    variable, *carried = body.arguments
    lower, upper, width, *starts = loop.operands
    with ir.InsertionPoint(loop), loop.location:
        last = arith.subi(upper, width)
        first = clone(loads, {key(variable): lower})
        clone(late, first)
        gpu.barrier()
        made = scf.ForOp(lower, last, width, starts)
        with ir.InsertionPoint(made.body):
            here = made.induction_variable
            ahead = clone(loads, {key(variable): arith.addi(here, width)})
            now = {key(variable): here, **{key(a): b for a, b in zip(carried, made.inner_iter_args, strict=True)}}
            now = clone(products, now)
            gpu.barrier()
            clone(late, ahead)
            gpu.barrier()
            scf.YieldOp([now.get(key(v), v) for v in end.operands])
        final = {key(variable): last, **{key(a): b for a, b in zip(carried, made.results, strict=True)}}
        final = clone(products, final)
    for old, value in zip(loop.results, end.operands, strict=True):
        old.replace_all_uses_with(final.get(key(value), value))
    loop.erase()
    work.clean()


def k_loop(work: Work) -> Any:
    """The loop over K: the one in the launch that has barriers in it. None where there is one turn, which is no
    loop."""
    loops = work.find("scf.for")
    found = [op for op in loops if _has_barrier(op)]
    if not found and any(map(_has_barrier, work.find("gpu.launch"))):
        return None
    if len(found) != 1 or not work.find("gpu.launch"):
        work.refuse("no loop over K in a launch", "it works on one loop with copies and barriers",
                    "stage() and launch() before")  # fmt: skip
    loop = found[0]
    if any(one.operation.regions for one in loop.regions[0].blocks[0].operations):
        work.refuse("loops or branches within the loop over K", "it works on straight-line code",
                    "unroll() before, and copies in which all threads have a part")  # fmt: skip
    turns = trips(loop)
    if turns is None or turns < 1:
        work.refuse("a loop over K whose bounds are not constants", "the last turn is peeled off")
    return loop


def _has_barrier(op: Any) -> bool:
    return any(one.operation.name == "gpu.barrier" for one in op.regions[0].blocks[0].operations)
