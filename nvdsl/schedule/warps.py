"""Steps within a block: tiles for warps and threads, tiles of a tensor core, the order of loops, unrolling."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import constant
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import transform
from nvdsl.mlir.dialects.transform import loop as transform_loop
from nvdsl.mlir.dialects.transform import structured
from nvdsl.schedule.elementwise import pull_out
from nvdsl.schedule.shared import COPY_LOOP, into_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work, mapping

FRAGMENT_LOOP = "nvdsl.fragments"
"""Marks the loops over the tiles of a tensor core."""

_BLOCKWIDE = ("linalg.matmul", "linalg.fill", "linalg.generic")


def _in_place(work: Work) -> list[Any]:
    """The product and what is computed with it. Refuses what is still on tensors."""
    product = work.one("linalg.matmul", made_by="tile_blocks() and bufferize() before")
    if len(product.results):
        work.refuse("the product is still on tensors", "it works on memrefs", "bufferize() before")
    filling = into_shared(work)
    return [op for op in work.find(*_BLOCKWIDE) if op not in filling]


def _check_tile(work: Work, op: Any, tile: tuple[int, int], what: str) -> None:
    shape = tuple(op.operands[len(op.operands) - 1].type.shape)
    if any(t < 1 or s % t for s, t in zip(shape, tile, strict=True)):
        work.refuse(
            f"tiles of {tile[0]} x {tile[1]} for {what}, of {shape[0]} x {shape[1]}",
            "tiles are whole: there is no code for a part of one",
            "choose tiles that divide it",
        )


@step
def tile_warps(work: Work, m: int, n: int) -> None:
    """Splits the block's tile of C into tiles of m x n, one for each warp (an scf.forall for the product, and for each
    elementwise operation)."""
    for op in _in_place(work):
        _check_tile(work, op, (m, n), "warps")
    _tile_all(work, mapping(["warp<linear_dim_1>", "warp<linear_dim_0>"]), tile_sizes=[m, n])


@step
def tile_threads(work: Work, m: int, n: int) -> None:
    """Splits the block's tile of C among m x n threads, and makes loops over single elements of what each has to do:
    without tensor cores."""
    for op in _in_place(work):
        _check_tile(work, op, (m, n), "threads")
    _tile_all(work, mapping(["thread<linear_dim_1>", "thread<linear_dim_0>"]), num_threads=[m, n])
    for mark in [work.mark(op) for op in _in_place(work)]:
        with work.transform() as script:
            structured.ConvertToLoopsOp(script.any_op, script.match(*_BLOCKWIDE, marked=mark))


@step
def spread(work: Work, m: int, n: int) -> None:
    """Splits each tile of `tile_fragments` among m x n threads, side by side: what a thread has of one tile is next to
    what its neighbours have, and far from what it has of the next tile."""
    for op in _in_place(work):
        _check_tile(work, op, (m, n), "threads")
    _tile_all(work, mapping(["thread<linear_dim_1>", "thread<linear_dim_0>"]), num_threads=[m, n])


def _tile_all(work: Work, where: Any, **sizes: Any) -> None:
    parent = work.one("linalg.matmul", made_by="").operation.parent
    while parent.name != "func.func":
        if parent.name == "scf.forall" and "#gpu.block" not in str(parent.attributes["mapping"]):
            work.refuse("a product that is divided among warps or threads already", "each has one part of a tile",
                        "one of tile_warps(), tile_threads() and spread()")  # fmt: skip
        parent = parent.parent
    for mark in [work.mark(op) for op in _in_place(work)]:
        with work.transform() as script:
            structured.TileUsingForallOp(script.match(*_BLOCKWIDE, marked=mark), mapping=where, **sizes)
    work.clean()


@step
def tile_fragments(work: Work, m: int = 16, n: int = 16, k: int = 16) -> None:
    """Splits each warp's tile into tiles of one instruction of the tensor cores: loops over m, n and k, in this order.
    The elementwise operations become loops over tiles of m x n."""
    for op in _in_place(work):
        _check_tile(work, op, (m, n), "tensor cores")
        if op.name == "linalg.matmul" and (k < 1 or _depth(op) % k):
            work.refuse(f"steps of {k} in sums of {_depth(op)}", "steps are whole", "choose one that divides it")
    for mark, name in [(work.mark(op), op.name) for op in _in_place(work)]:
        sizes = [m, n, k] if name == "linalg.matmul" else [m, n]
        with work.transform() as script:
            tiled = structured.TileUsingForOp(script.match(*_BLOCKWIDE, marked=mark), sizes=sizes)
            for one in tiled.results[1:]:
                transform.AnnotateOp(one, FRAGMENT_LOOP)
    work.run("cse")


def _depth(product: Any) -> int:
    a, c = product.operands[0].type.shape, product.operands[2].type.shape
    return a[0] * a[1] // c[0]


@step
def permute(work: Work, order: str = "kij") -> None:
    """Changes the order of the three loops over tensor core tiles from i, j, k: with k outermost, the tiles of A and B
    of one k are used by the whole i, j plane, and one sum is not waited for by the next."""
    if sorted(order) != ["i", "j", "k"]:
        work.refuse(f"the order {order!r}", "it names each of i, j and k once", "'kij' for example")
    nest = _nest(work)
    bounds = [list(loop.operands)[:3] for loop in nest]
    variables = [loop.regions[0].blocks[0].arguments[0] for loop in nest]
    uses = [[(use.owner.operation, use.operand_number) for use in v.uses] for v in variables]
    for place, name in enumerate(order):
        old = "ijk".index(name)
        for number in range(3):
            nest[place].operands[number] = bounds[old][number]
        for user, number in uses[old]:
            user.operands[number] = variables[place]


def _nest(work: Work) -> list[Any]:
    """The three loops around the product, with nothing else between them."""
    product = work.one("linalg.matmul", made_by="tile_fragments() before, and vectorize() behind")
    nest: list[Any] = []
    inner = product.operation
    while len(nest) < 3 and inner.parent.name == "scf.for" and FRAGMENT_LOOP in inner.parent.attributes:
        inner = inner.parent.operation
        nest.insert(0, inner)
    for loop, within in zip(nest, nest[1:], strict=False):
        if [op.operation.name for op in loop.regions[0].blocks[0].operations] != [within.name, "scf.yield"]:
            nest = []
    if len(nest) != 3:
        work.refuse("no three loops directly in each other around the product", "it exchanges loops of a perfect nest",
                    "tile_fragments() directly before")  # fmt: skip
    return nest


@step
def vectorize(work: Work) -> None:
    """Makes vectors of the tiles of a tensor core: vector.transfer_read of each operand, a vector.contract, a
    vector.transfer_write of the sum. The elementwise operation behind the product is set behind the loop over
    blocks, until sums are in registers, where it is computed."""
    if not any(FRAGMENT_LOOP in op.attributes for op in work.find("scf.for")):
        work.refuse("no tiles of a tensor core", "whole tiles would be one vector", "tile_fragments() before")
    for op in work.find("linalg.matmul"):
        left, right = (v.type.element_type for v in list(op.operands)[:2])
        if left != right:
            work.refuse(f"a product of {left} with {right}", "vector.contract multiplies vectors of one type",
                        "tile_threads() instead, or convert A or B in the payload")  # fmt: skip
    pull_out(work)
    with work.transform() as script:
        made = structured.VectorizeOp(script.match("linalg.matmul", "linalg.fill"))
        made.attributes["create_named_contraction"] = ir.UnitAttr.get()
    work.clean()


@step
def unroll(work: Work, *loops: str) -> None:
    """Unrolls the loops over tensor core tiles ("fragments") and over the parts of a copy ("copies") in full, both if
    none is named, and drops what is then computed twice: loads of the same tile above all."""
    marks = {"fragments": FRAGMENT_LOOP, "copies": COPY_LOOP}
    if unknown := [one for one in loops if one not in marks]:
        work.refuse(f"loops called {unknown[0]!r}", f"it unrolls {' and '.join(marks)}")
    for mark in (marks[one] for one in loops or marks):
        for loop in [op for op in work.find("scf.for") if mark in op.attributes]:  # inner ones first
            del loop.attributes[mark]
            name = work.mark(loop)
            turns = trips(loop)
            if turns is None:
                work.refuse("a loop whose bounds are not constants", "it unrolls loops in full")
            with work.transform() as script:
                transform_loop.LoopUnrollOp(script.match("scf.for", marked=name), factor=turns)
    work.clean()


def trips(loop: Any) -> int | None:
    """How many turns a loop makes, where its bounds are constants."""
    bounds = [constant(value) for value in list(loop.operands)[:3]]
    if None in bounds:
        return None
    lower, upper, width = bounds
    return -(-(upper - lower) // width)  # type: ignore[operator]
