"""Steps for shared memory: tiles in it, padding, barriers, copies."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, linalg, memref, transform, vector
from nvdsl.mlir.dialects.transform import structured
from nvdsl.schedule.blocks import thread_count
from nvdsl.schedule.ragged import real_shape
from nvdsl.schedule.rewrite import apply, is_shared, whole_view
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work, mapping

COPY_LOOP = "nvdsl.copies"
"""Marks the loops over the parts of a copy."""


@step
def stage(work: Work) -> None:
    """Gives the block's tiles of A and B buffers in shared memory, with a copy into each in every step of K, and
    barriers before and after each copy. An elementwise operation that makes A or B writes there, and is the copy."""
    product = work.one("linalg.matmul", made_by="tile_blocks() and bufferize() before")
    if len(product.results):
        work.refuse("the product is still on tensors", "buffers have a memory space", "bufferize() before")
    if _around(product) not in (["scf.for", "scf.forall"], ["scf.forall"]):
        work.refuse("a product that is not a block's", "all warps share a tile, and all wait for it",
                    "tile_blocks(), bufferize() and stage(), and other tiles behind them")  # fmt: skip
    if is_shared(product.operands[0]):
        work.refuse("operands that are in shared memory", "each has one buffer there", "stage() once")
    for number, operand in enumerate(list(product.operands)[:2]):
        made = defining(operand)
        if made is None or made.name != "memref.subview":  # a tile that is the whole array: promotion takes views
            with ir.InsertionPoint(product), product.location:
                product.operands[number] = whole_view(operand)
    with work.transform() as script:
        structured.PromoteOp(
            script.any_op, script.match("linalg.matmul"), operands_to_promote=[0, 1], use_full_tiles_by_default=True,
            mapping=mapping(["memory_space<workgroup>"]),
        )  # fmt: skip
    for op in work.find("memref.copy"):  # the transforms that map copies to threads know only linalg.copy
        with ir.InsertionPoint(op), op.location:
            linalg.copy(op.operands[0], outs=[op.operands[1]])
        op.erase()
    for op in work.find("linalg.copy"):
        _write_there(op)
    work.clean()


def _around(op: Any) -> list[str]:
    """The names of the loops around an operation."""
    found = []
    while (op := op.operation.parent).name != "func.func":
        found.append(op.name)
    return found


def _write_there(copy: Any) -> None:
    """Of a copy of what an elementwise operation has written to a buffer: the operation in its place."""
    views, made = [], defining(copy.operands[0])
    while made is not None and made.name == "memref.subview":
        views.append(made)
        made = defining(made.operands[0])
    if made is None or made.name != "memref.alloc":
        return
    users = [use.owner.operation for value in (*made.results, *(v for op in views for v in op.results))
             for use in value.uses]  # fmt: skip
    (maker,) = {op for op in users if op.name == "linalg.generic"}
    maker.operands[len(maker.operands) - 1] = copy.operands[1]
    maker.move_before(copy)
    copy.erase()


def into_shared(work: Work) -> list[Any]:
    """What fills tiles in shared memory: copies, and elementwise operations that write there."""
    found = work.find("linalg.copy", "linalg.generic")
    return [op for op in found if is_shared(op.operands[len(op.operands) - 1])]


@step
def merge_barriers(work: Work) -> None:
    """Drops barriers that order nothing: one directly behind another, and one between two copies into different
    buffers."""
    filling = into_shared(work)
    for barrier in work.find("gpu.barrier"):
        before, after = _neighbours(barrier)
        both = before is not None and after is not None and before in filling and after in filling
        if both and _apart(before, after):
            barrier.erase()
        elif before is not None and before.name == "gpu.barrier":
            barrier.erase()


def _apart(first: Any, second: Any) -> bool:
    """Whether neither copy touches a buffer that the other one writes: each reads global memory."""
    (*one, target), (*other, second_target) = first.operands, second.operands
    return not any(map(is_shared, (*one, *other))) and defining(target) != defining(second_target)


def _neighbours(op: Any) -> tuple[Any, Any]:
    ops = [one.operation for one in op.operation.block]
    i = ops.index(op.operation)
    return (ops[i - 1] if i else None), (ops[i + 1] if i + 1 < len(ops) else None)


@step
def pad(work: Work, elements: int = 8) -> None:
    """Makes the rows of each tile in shared memory longer by some elements, so that rows start in different banks. The
    tile becomes a view of the longer buffer."""
    tiles = [op for op in work.find("memref.alloc") if is_shared(op.results[0])]
    if not tiles:
        work.refuse("no tile in shared memory", "it pads what stage() makes", "stage() before")
    for tile in tiles:
        plain = ir.MemRefType(tile.results[0].type)
        size = _element_bytes(plain.element_type)
        if elements < 0 or elements * size % 16:
            work.refuse(
                f"rows of {plain} longer by {elements} elements",
                "rows start at multiples of 16 bytes, for wide copies and for tensor cores",
                f"pad by a multiple of {16 // size}",
            )
        for use in tile.results[0].uses:
            if use.owner.operation.name not in ("linalg.copy", "linalg.generic", "linalg.matmul", "memref.dealloc"):
                work.refuse(
                    f"{plain} is in parts already ({use.owner.operation.name})",
                    "it works on whole tiles",
                    "pad() directly behind stage()",
                )
        shape = [*plain.shape[:-1], plain.shape[-1] + elements]
        with ir.InsertionPoint(tile), tile.location:
            wide = memref.alloc(ir.MemRefType.get(shape, plain.element_type, None, plain.memory_space), [], [])
            strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
            layout = ir.StridedLayoutAttr.get(0, strides)
            part = ir.MemRefType.get(plain.shape, plain.element_type, layout, plain.memory_space)
            zeros, ones = [0] * len(shape), [1] * len(shape)
            view = memref.SubViewOp(part, wide, [], [], [], zeros, list(plain.shape), ones).result
        for use in list(tile.results[0].uses):
            user = use.owner.operation
            if user.name == "memref.dealloc":
                user.erase()
            else:
                user.operands[use.operand_number] = view
        tile.erase()


def _grid(rows: int, parts: int, threads: int) -> tuple[int, int]:
    """How many threads copy side by side, down and across, so that whole turns make a tile: as many as can, and of as
    many the widest. Threads that are left over do nothing."""
    places = [(d, a) for a in _divisors(parts) for d in _divisors(rows) if a * d <= threads]
    return max(places, key=lambda place: (place[0] * place[1], place[1]))


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _fitting(width: int, extent: int) -> int:
    """The largest part of ``width`` that an array's rows of ``extent`` elements are a whole number of."""
    while extent % width:
        width //= 2
    return width


def _element_bytes(type: Any) -> int:
    return int(type.width) // 8


@step
def copies(work: Work, width: int = 1) -> None:
    """Divides each copy into shared memory among all threads of the block: each moves ``width`` neighbouring elements
    in each turn of a loop, a row of threads a row of the tile. From 2 elements on these are vectors.

    Of an array whose rows are no multiple of ``width``, it is a half of it, a fourth, and so on.
    """
    found = into_shared(work)
    if not found:
        work.refuse("there is no copy", "it works on the copies of stage()", "stage() before")
    threads = thread_count(work)
    asked = width
    for op in found:
        width = asked
        *sources, target = op.operands
        rows, columns = target.type.shape
        size = _element_bytes(target.type.element_type)
        if width < 1 or columns % width or width * size not in (2, 4, 8, 16):
            work.refuse(
                f"{width} elements at once of rows of {columns} of {size} bytes",
                "a thread moves 2, 4, 8 or 16 bytes, and rows are whole numbers of that",
                "another width",
            )
        width = _fitting(width, real_shape(work, sources[0])[-1])
        down, across = _grid(rows, columns // width, threads)
        mark = work.mark(op)
        with work.transform() as script:
            copy = script.match(op.name, marked=mark)
            loops = structured.TileUsingForOp(copy, sizes=[down, across * width])
            for loop in loops.results[1:]:
                transform.AnnotateOp(loop, COPY_LOOP)
            each = structured.TileUsingForallOp(
                loops.results[0], tile_sizes=[1, width],
                mapping=mapping(["thread<linear_dim_1>", "thread<linear_dim_0>"]),
            )  # fmt: skip
            if op.name == "linalg.generic":
                continue
            if width > 1:
                structured.VectorizeOp(each.tiled_op)
            else:
                structured.ConvertToLoopsOp(script.any_op, each.tiled_op)
    for op in into_shared(work):
        _compute(work, op)
    work.clean()


def _compute(work: Work, op: Any) -> None:
    """An elementwise operation on a few neighbours in a row, as a load, a function of each element, and a store."""
    *sources, target = op.operands
    maps = [ir.AffineMapAttr(one).value for one in ir.ArrayAttr(op.attributes["indexing_maps"])]
    if len(sources) != 1 or maps[0] != maps[1]:
        work.refuse("an operation before the product that is not of one array, place by place",
                    "a thread copies an element and changes it",
                    "a linalg.generic with one input, of the shape of its output")  # fmt: skip
    width = target.type.shape[-1]
    with ir.InsertionPoint(op), op.location:
        zero = arith.constant(ir.IndexType.get(), 0)
        elements = []
        loaded = memref.load(sources[0], [zero, zero]) if width == 1 else _row(sources[0], width, zero)
        for i in range(width):
            x = loaded if width == 1 else vector.extract(loaded, [], [0, i])
            elements.append(apply(op, [x]))
        if width == 1:
            memref.store(elements[0], target, [zero, zero])
        else:
            made = vector.from_elements(ir.VectorType.get([1, width], target.type.element_type), elements)
            bounds = ir.ArrayAttr.get([ir.BoolAttr.get(True)] * 2)
            vector.transfer_write(None, made, target, [zero, zero], ir.AffineMap.get_identity(2), bounds)
    op.erase()


def _row(source: Any, width: int, zero: Any) -> Any:
    kind = ir.VectorType.get([1, width], source.type.element_type)
    bounds = ir.ArrayAttr.get([ir.BoolAttr.get(True)] * 2)
    none = arith.constant(source.type.element_type, 0.0)
    return vector.transfer_read(kind, source, [zero, zero], ir.AffineMap.get_identity(2), none, bounds)
