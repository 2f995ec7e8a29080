"""A step that makes multiply-adds of a thread of vectors: the end of a schedule without tensor cores."""

from __future__ import annotations

from typing import Any

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, math, vector
from nvdsl.mlir.dialects.transform import vector as transform_vector
from nvdsl.schedule.elementwise import finish_stores
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work


@step
def fma(work: Work) -> None:
    """Makes fused multiply-adds of the vectors: a row of a sum is a vector, to which an element of A times a row of B
    is added. Loads and stores of several rows become one for each. An element is finished in its register by the
    elementwise operation behind the product."""
    contractions = work.find("vector.contract")
    if not contractions:
        work.refuse("no products of vectors", "it works on vector.contract", "vectorize() before")
    fold_views(work)
    for op in work.find("vector.contract"):
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_product(work, op))
        op.erase()
    with work.transform() as script:
        script.patterns(
            lambda: transform_vector.ApplyTransferToScfPatternsOp(max_transfer_rank=1, full_unroll=True),
            transform_vector.ApplyTransferPermutationPatternsOp,
            transform_vector.ApplyDropUnitDimWithShapeCastPatternsOp,  # rows that the loop over K carries
        )
    finish_stores(work)
    work.clean()


def _product(work: Work, contract: Any) -> Any:
    a, b, c = list(contract.operands)
    maps = [str(one) for one in ir.ArrayAttr(contract.attributes["indexing_maps"])]
    rows, columns = c.type.shape
    depth = a.type.shape[0] * a.type.shape[1] // rows
    turned_a, turned_b = "(d2, d0)" in maps[0], "(d1, d2)" in maps[1]
    element = c.type.element_type
    wide = ir.VectorType.get([columns], element)

    def of(value: Any, *place: int) -> Any:
        found = vector.extract(value, [], list(place))
        return found if found.type == element else arith.extf(element, found)

    right = []
    for k in range(depth):
        if turned_b:
            right.append(vector.from_elements(wide, [of(b, j, k) for j in range(columns)]))
        else:
            row = vector.extract(b, [], [k])
            right.append(row if row.type == wide else arith.extf(wide, row))
    made = c
    for i in range(rows):
        total = vector.extract(c, [], [i])
        for k in range(depth):
            left = of(a, k, i) if turned_a else of(a, i, k)
            total = math.fma(vector.broadcast(wide, left), right[k], total)
        made = vector.insert(total, made, [], [i])
    return made
