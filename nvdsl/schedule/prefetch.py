"""A step that keeps tensor cores busy while a turn begins."""

from __future__ import annotations

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, scf
from nvdsl.schedule.latency import k_loop
from nvdsl.schedule.rewrite import clone, is_shared, key, slice_of
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work

_LOADS = ("nvgpu.ldmatrix", "gpu.subgroup_mma_load_matrix")
_BARRIER = "gpu.barrier"
_PRODUCTS = ("nvgpu.mma.sync", "gpu.subgroup_mma_compute")


@step
def prefetch(work: Work) -> None:
    """Loads the first tiles of tensor cores of a turn in the turn before: the wait and the barrier stand before the
    last products of a turn, and these run while the next tiles come from shared memory. Behind copy_async()."""
    loop = k_loop(work)
    if loop is None:
        return
    body = loop.regions[0].blocks[0]
    *ops, end = [op.operation for op in body.operations]
    waits = [op for op in ops if op.name in ("nvgpu.device_async_wait", _BARRIER)]
    products = [op for op in ops if op.name in _PRODUCTS]
    variable, *carried = body.arguments
    lower, upper, width, *starts = loop.operands
    sums = len(starts)
    names = [op.name for op in waits]
    if names not in ([_BARRIER], ["nvgpu.device_async_wait", _BARRIER]) or not 0 < sums <= len(products):
        work.refuse("a turn without one barrier behind a wait, and a product for each sum",
                    "the last products run while the first tiles of the next turn are loaded",
                    "hoist_sums(), mma_sync() or wmma(), and copy_async() before")  # fmt: skip
    if not all(any(use.operand_number == 2 and use.owner in products for use in value.uses) for value in carried):
        work.refuse("a loop that carries more than sums", "tiles are loaded one turn ahead", "prefetch() once")
    first = [op for op in ops if op.name in _LOADS and op in slice_of(products[:sums], ops)]
    if any(not is_shared(op.operands[0]) for op in first) or any(op in first for op in slice_of(waits, ops)):
        work.refuse("tiles of tensor cores that are not in shared memory", "others need no barrier", "stage() before")
    address = slice_of(first, ops)
    late = products[-sums:]
    early = [op for op in ops if op not in waits and op not in late and op not in first]
    with ir.InsertionPoint(loop), loop.location:
        for op in waits:
            op.clone()
        loaded = clone([op for op in ops if op in address], {key(variable): lower})
        last = arith.subi(upper, width)
        results = [op.results[0] for op in first]
        made = scf.ForOp(*list(loop.operands)[:3], [*starts, *(loaded[key(v)] for v in results)])
        with ir.InsertionPoint(made.body):
            here = made.induction_variable
            inner = list(made.inner_iter_args)
            now = {key(variable): here} | {key(a): b for a, b in zip([*carried, *results], inner, strict=True)}
            now = clone(early, now)
            for op in waits:
                op.clone()
            following = arith.minsi(arith.addi(here, width), last)  # the last turn loads what nobody uses
            ahead = clone([op for op in ops if op in address], {key(variable): following})
            now = clone(late, now)
            scf.YieldOp([*(now.get(key(v), v) for v in end.operands), *(ahead[key(v)] for v in results)])
    for old, new in zip(loop.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    loop.erase()
    work.clean()
