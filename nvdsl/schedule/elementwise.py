"""An elementwise operation behind the product, computed in registers where sums are stored to C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nvdsl.ir.operands import named
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, linalg, memref, vector
from nvdsl.schedule.persistent import TILE_LOOP
from nvdsl.schedule.rewrite import clone, is_shared, key
from nvdsl.schedule.work import Work

_STORES = ("vector.store", "vector.transfer_write", "memref.store")

_OF_MATRICES = {
    "arith.addf": "addf", "arith.subf": "subf", "arith.mulf": "mulf", "arith.divf": "divf", "arith.maximumf": "maxf",
    "arith.minimumf": "minf", "arith.negf": "negatef",
}  # fmt: skip
"""Operations of elements that gpu.subgroup_mma_elementwise has for matrices of a warp."""


def pull_out(work: Work) -> None:
    """Make one operation on whole arrays, behind the loop over blocks, of those on tiles of C."""
    parts = _behind(work)
    if not parts:
        return
    one = parts[0]
    top = one
    while top.parent.name != "func.func":
        top = top.parent.operation
    arrays = [_array(value) for value in one.operands]
    rank = arrays[-1].type.rank
    maps = [ir.AffineMapAttr(map).value for map in ir.ArrayAttr(one.attributes["indexing_maps"])]
    more = rank - maps[-1].n_dims
    with ir.InsertionPoint.after(top), one.location:
        whole = [_with_batch(map, array.type.rank, more) for map, array in zip(maps, arrays, strict=True)]
        parallel = ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * rank)
        made = linalg.GenericOp([], arrays[:-1], arrays[-1:], ir.ArrayAttr.get(whole), parallel)
    one.regions[0].blocks[0].append_to(made.regions[0])
    for op in parts:
        op.erase()
    work.clean()


def _behind(work: Work) -> list[Any]:
    """The elementwise operations behind the product. Others fill tiles in shared memory."""
    return [op for op in work.find("linalg.generic") if not is_shared(op.operands[len(op.operands) - 1])]


@contextmanager
def set_aside(work: Work) -> Iterator[None]:
    """Take it out of the module for a pass that would take its operations for some of the product's. It takes its
    constants along, of which nobody else may need them."""
    found = _behind(work)
    for one in found:
        body = one.regions[0].blocks[0]
        inside = [op.operation for op in body.operations]
        for op in inside:
            for number, value in enumerate(op.operands):
                made = defining(value)
                if made is not None and made not in inside:
                    with ir.InsertionPoint.at_block_begin(body):
                        op.operands[number] = made.clone().results[0]
        one.detach_from_parent()
    yield
    (end,) = work.find("func.return")
    for op in found:
        ir.InsertionPoint(end).insert(op)


def _with_batch(map: Any, rank: int, more: int) -> Any:
    """A map of a tile's (m, n) as one of all of C's axes: an array of a higher rank has the batch in front."""
    places = [ir.AffineDimExpr(dim).position + more for dim in map.results]
    places = [*range(rank - len(places)), *places]
    dims = [ir.AffineDimExpr.get(place) for place in places]
    return ir.AffineMapAttr.get(ir.AffineMap.get(map.n_dims + more, 0, dims))


def _array(value: Any) -> Any:
    """The argument that a view is a part of."""
    while (made := defining(value)) is not None and made.name == "memref.subview":
        value = made.operands[0]
    return value


def finish_stores(work: Work) -> None:
    """Let each store of sums to C store what the elementwise operation makes of them, and drop the operation. Stores
    are of elements and of neighbours in a row, and name the whole array (`fold_views`)."""
    work.run("cse")
    for one in _behind(work):
        for store in _stores(work, one, _STORES):
            with ir.InsertionPoint(store), store.location:
                store.operands[0] = _finished(one, store.operands[0], list(named(store).indices))
        one.erase()


def _stores(work: Work, one: Any, names: tuple[str, ...]) -> list[Any]:
    c = one.operands[len(one.operands) - 1]
    found = [use.owner.operation for use in c.uses if use.owner.operation.name in names]
    in_loop = any(store.parent.name == "scf.for" and TILE_LOOP not in store.parent.attributes for store in found)
    places = {tuple(map(key, named(store).indices)) for store in found}
    if in_loop or len(places) < len(found):  # the same twice: steps of a K without a loop
        work.refuse("sums that are stored in each step of K", "elements are finished once", "hoist_sums() before")
    return found


def _finished(one: Any, value: Any, indices: list[Any]) -> Any:
    if not isinstance(value.type, ir.VectorType):
        return _element(one, value, indices)
    *outer, last = indices
    elements = []
    for i in range(value.type.shape[-1]):
        column = arith.addi(last, arith.constant(ir.IndexType.get(), i))
        place = [0] * (len(value.type.shape) - 1) + [i]
        elements.append(_element(one, vector.extract(value, [], place), [*outer, column]))
    return vector.from_elements(value.type, elements)


def _operands(one: Any, indices: list[Any]) -> list[tuple[Any, Any, list[Any], list[int]]]:
    """(argument of the body, array, indices in it, axes of C that these are) of each operand but C."""
    maps = [ir.AffineMapAttr(map).value for map in ir.ArrayAttr(one.attributes["indexing_maps"])]
    axes = [[ir.AffineDimExpr(dim).position for dim in map.results] for map in maps[:-1]]
    arguments = list(one.regions[0].blocks[0].arguments)
    operands = list(one.operands)
    return [(arguments[i], operands[i], [indices[axis] for axis in mine], mine) for i, mine in enumerate(axes)]


def _element(one: Any, x: Any, indices: list[Any]) -> Any:
    """What becomes of an element of the product at ``indices`` of C."""
    body = one.regions[0].blocks[0]
    *ops, end = [op.operation for op in body.operations]
    values = {key(body.arguments[len(body.arguments) - 1]): x}
    values |= {key(argument): memref.load(array, place) for argument, array, place, _ in _operands(one, indices)}
    values = clone(ops, values)
    return values.get(key(end.operands[0]), end.operands[0])


def finish_matrices(work: Work) -> None:
    """The same for stores of matrices of a warp: rows and columns are loaded as matrices that repeat them."""
    work.run("cse")
    for one in _behind(work):
        for store in _stores(work, one, ("gpu.subgroup_mma_store_matrix",)):
            with ir.InsertionPoint(store), store.location:
                store.operands[0] = _matrix(work, one, store.operands[0], list(named(store).indices))
        one.erase()


def _matrix(work: Work, one: Any, x: Any, indices: list[Any]) -> Any:
    body = one.regions[0].blocks[0]
    *ops, end = [op.operation for op in body.operations]
    values = {key(body.arguments[len(body.arguments) - 1]): x}
    for argument, array, place, axes in _operands(one, indices):
        rank = array.type.rank
        row_only = axes[-1] != len(indices) - 1  # one element a row: a column that is repeated
        lead = array.type.shape[-1] if len(axes) > 1 and rank > 1 else 0
        values[key(argument)] = gpu.subgroup_mma_load_matrix(x.type, array, place, lead, transpose=row_only or None)

    def of(value: Any) -> Any:
        if key(value) in values:
            return values[key(value)]
        return gpu.subgroup_mma_constant_matrix(x.type, value)  # a constant, or a number from outside

    for op in ops:
        if op.name == "arith.constant":
            values[key(op.results[0])] = gpu.subgroup_mma_constant_matrix(x.type, op.clone().results[0])
            continue
        if op.name not in _OF_MATRICES:
            work.refuse(
                f"{op.name} has no form on matrices of a warp",
                "which lane holds which element is not known: what there is are arith.addf, subf, mulf, divf, maximumf "
                "and minimumf of matrices, constants, and rows or columns (gpu.subgroup_mma_elementwise)",
                "leave it out of the payload, or use a schedule without wmma()",
            )
        kind = ir.Attribute.parse(f"#gpu<mma_element_wise {_OF_MATRICES[op.name]}>")
        made = gpu.subgroup_mma_elementwise(x.type, [of(v) for v in op.operands], kind)
        values[key(op.results[0])] = made
    return of(end.operands[0])
