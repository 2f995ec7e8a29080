"""Steps for the grid: tiles for blocks, buffers, and the launch."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.operands import integers
from nvdsl.ir.walk import defining, walk
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import linalg
from nvdsl.mlir.dialects.transform import gpu as transform_gpu
from nvdsl.mlir.dialects.transform import structured
from nvdsl.mlir.dialects.transform import tensor as transform_tensor
from nvdsl.schedule.persistent import tile_loop
from nvdsl.schedule.ragged import round_up
from nvdsl.schedule.rewrite import clone, key, whole_view
from nvdsl.schedule.step import step
from nvdsl.schedule.work import CONTRACTIONS, Work, mapping


@step
def tile_blocks(work: Work, m: int, n: int, k: int) -> None:
    """Splits C into tiles of m x n, one for each block (an scf.forall), and the sum of each into steps of k (an
    scf.for). On tensors the fill before the product and the elementwise operation behind it move into the block, and an
    elementwise operation that makes A or B into the loop.

    Where an extent is no multiple of its tile, arrays become larger, and `mask` is needed in the end.
    """
    _generalize(work)
    if work.find("scf.forall", "gpu.launch"):
        work.refuse("there are tiles for blocks already", "a schedule begins with them", "tile_blocks() once")
    product = work.one(*CONTRACTIONS, made_by="write one linalg.matmul or linalg.batch_matmul in the payload")
    _check(work, product)
    extents = _extents(product)
    if min(m, n, k) < 1:
        work.refuse(f"tiles of {m} x {n} x {k}", "a tile has one element or more", "tile_blocks(128, 128, 64)")
    whole = [-(-extent // tile) * tile for extent, tile in zip(extents, (m, n, k), strict=True)]
    if whole != extents:
        round_up(work, whole)
    if _is_tensor(product):
        work.run("linalg-fuse-elementwise-ops")
    batch = [1] * (product.name == "linalg.batch_matmul")
    axes = mapping([f"block<{axis}>" for axis in ("zyx" if batch else "yx")])
    _update_product(work, work.one(*CONTRACTIONS, made_by=""))
    before, behind = _around(work, work.one(*CONTRACTIONS, made_by=""))
    if work.find("linalg.fill") and not _is_tensor(product):
        work.refuse("a linalg.fill on memrefs", "what is fused into the blocks is on tensors",
                    "the product alone, which adds to C, or a payload on tensors")  # fmt: skip
    with work.transform() as script:
        anchor = script.match("linalg.generic", marked=behind) if behind else script.match(*CONTRACTIONS)
        tiled = structured.TileUsingForallOp(anchor, tile_sizes=[*batch, m, n], mapping=axes)
        inner, around = tiled.tiled_op, tiled.forall_op
        if behind:
            fused = structured.FuseIntoContainingOp(script.any_op, script.any_op, script.match(*CONTRACTIONS), around)
            inner, around = fused.fused_op, fused.new_containing_op
        if work.find("linalg.fill"):
            structured.FuseIntoContainingOp(script.any_op, script.any_op, script.match("linalg.fill"), around)
        _, loop = structured.TileUsingForOp(inner, sizes=[0] * len(batch) + [0, 0, k]).results
        for mark in before:
            maker = script.match("linalg.generic", marked=mark)
            for outer in (around, loop):
                maker = structured.FuseIntoContainingOp(script.any_op, script.any_op, maker, outer).fused_op
        script.patterns(transform_tensor.ApplyFoldTensorEmptyPatternsOp)  # what they write is a tile
    work.clean()


def _check(work: Work, product: Any) -> None:
    maps = [ir.AffineMapAttr(one).value for one in ir.ArrayAttr(product.attributes["indexing_maps"])]
    if any(one.n_dims - 1 != len({str(place) for place in one.results}) for one in maps):
        work.refuse(f"{product.name} with an operand that is repeated along an axis", "A, B and C are matrices",
                    "an operand with all of its elements")  # fmt: skip
    for op in work.find("linalg.generic"):
        kinds = {str(one) for one in ir.ArrayAttr(op.attributes["iterator_types"])}
        if kinds != {"#linalg.iterator_type<parallel>"} or "linalg.index" in {inner.name for inner in walk(op)}:
            work.refuse("an operation that sums up elements, or asks for their places",
                        "what is fused with the product computes each element of its own",
                        "a kernel of its own for it")  # fmt: skip


def _generalize(work: Work) -> None:
    """linalg.generic in the place of operations that have a name, linalg.add for instance."""
    kept = (*CONTRACTIONS, "linalg.fill", "linalg.generic", "linalg.yield", "linalg.index", "linalg.copy")
    names = {op.name for op in walk(work.module) if op.name.startswith("linalg.")} - {*kept}
    if names:
        with work.transform() as script:
            structured.GeneralizeOp(script.match(*sorted(names)))


def _update_product(work: Work, product: Any) -> None:
    """An elementwise operation that reads the product and writes anew becomes one that updates it."""
    if not _is_tensor(product):
        return
    for op in work.find("linalg.generic"):
        *inputs, out = op.operands
        numbers = [i for i, v in enumerate(inputs) if key(v) == key(product.results[0])]
        maps = list(ir.ArrayAttr(op.attributes["indexing_maps"]))
        body = op.regions[0].blocks[0]
        anew = len(numbers) == 1 and maps[numbers[0]] == maps[-1] and not list(body.arguments[len(inputs)].uses)
        if not anew or out.type != product.results[0].type:
            continue
        (number,) = numbers
        kept = [i for i in range(len(inputs)) if i != number]
        with ir.InsertionPoint(op), op.location:
            made = linalg.GenericOp(
                [out.type], [inputs[i] for i in kept], [product.results[0]],
                ir.ArrayAttr.get([*(maps[i] for i in kept), maps[-1]]), op.attributes["iterator_types"],
            )  # fmt: skip
        order = [*kept, number]
        types = [body.arguments[i].type for i in order]
        block = made.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
        values = {key(body.arguments[i]): argument for i, argument in zip(order, block.arguments, strict=True)}
        with ir.InsertionPoint(block):
            clone([one.operation for one in body.operations], values)
        op.results[0].replace_all_uses_with(made.results[0])
        op.erase()


def _is_tensor(product: Any) -> bool:
    return bool(len(product.results))


def _around(work: Work, product: Any) -> tuple[list[str], str]:
    """The marks of the elementwise operations that make A and B, and of the one that uses the product, "" if none."""
    others = work.find("linalg.generic")
    makers = [made for v in list(product.operands)[:2] if (made := defining(v)) is not None and made in others]
    users = [use.owner.operation for result in product.results for use in result.uses]
    behind = [op for op in others if op in users and op not in makers]
    if others and not _is_tensor(product) or set(others) != {*makers, *behind} or len(behind) > 1:
        work.refuse(
            f"{len(others)} elementwise operations that are not all around the product",
            "what is fused is a linalg.generic on tensors that makes A or B, or uses the product",
            "write the payload on tensors, with elementwise operations on the product's operands and on its result",
        )
    return [work.mark(op) for op in makers], work.mark(behind[0]) if behind else ""


def _extents(product: Any) -> list[int]:
    """m, n and k."""
    a, _, c = (list(value.type.shape) for value in list(product.operands)[:3])
    return [c[-2], c[-1], math.prod(a[-2:]) // c[-2]]


@step
def bufferize(work: Work) -> None:
    """Makes memrefs of tensors (one-shot bufferization, in place): the result becomes what is written to the last
    argument. A payload on memrefs stays as it is."""
    if not work.find("scf.forall"):
        work.refuse("no loop over blocks", "a block's buffers are parts of the arrays", "tile_blocks() before")
    if any("tensor<" in str(v.type) for op in work.find("func.func") for v in op.regions[0].blocks[0].arguments):
        work.run(
            "one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map}",
            "drop-equivalent-buffer-results",
            "canonicalize",
            "cse",
        )
        _drop_results(work)
    for op in work.find("memref.copy"):
        if op.operands[0].owner == op.operands[1].owner and str(op.operands[0]) == str(op.operands[1]):
            op.erase()
    allocated = [op for op in work.find("memref.alloc") if not _is_operand(op)]
    if allocated:
        work.refuse(
            f"{allocated[0].results[0].type} would be a buffer in global memory",
            "the product, what is before it and what is behind it are computed in place, in C",
            "give C the type of the sums",
        )
    _drop_unit_batch(work)


def _is_operand(buffer: Any) -> bool:
    """Whether a buffer is a tile of A or B that an elementwise operation makes: `stage` gives it a place."""
    names = {use.owner.operation.name for use in buffer.results[0].uses}
    return names <= {"linalg.generic", *CONTRACTIONS} and buffer.operation.parent.name in ("scf.for", "scf.forall")


def _drop_results(work: Work) -> None:
    (function,) = work.find("func.func")
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, []))
    for end in work.find("func.return"):
        with ir.InsertionPoint(end), end.location:
            ir.Operation.create("func.return")
        end.erase()


def _drop_unit_batch(work: Work) -> None:
    """What a block does with one matrix of a batch becomes the same on views without that axis."""
    if not work.find("linalg.batch_matmul"):
        return
    for op in work.find("linalg.batch_matmul", "linalg.fill", "linalg.generic"):
        rank = op.operands[len(op.operands) - 1].type.rank
        with ir.InsertionPoint(op), op.location:
            values = [whole_view(v, 1) if _has_rank(v, rank) else v for v in op.operands]
            if op.name == "linalg.fill":
                linalg.fill(values[0], outs=values[1:])
                op.erase()
                continue
            dims = rank + (op.name == "linalg.batch_matmul")
            maps = [_drop_first(one, dims) for one in ir.ArrayAttr(op.attributes["indexing_maps"])]
            if op.name == "linalg.batch_matmul":
                linalg.matmul(*values[:2], outs=values[2:], indexing_maps=maps)
            else:
                iterators = ir.ArrayAttr.get(list(ir.ArrayAttr(op.attributes["iterator_types"]))[1:])
                given = ir.ArrayAttr.get([ir.AffineMapAttr.get(one) for one in maps])
                made = linalg.GenericOp([], values[:-1], values[-1:], given, iterators)
                op.regions[0].blocks[0].append_to(made.regions[0])
        op.erase()
    work.clean()


def _has_rank(value: Any, rank: int) -> bool:
    return isinstance(value.type, ir.MemRefType) and value.type.rank == rank


def _drop_first(map: Any, dims: int) -> Any:
    """An affine map of (b, m, ...), ``dims`` in all, as one of (m, ...)."""
    places = [ir.AffineDimExpr(one).position - 1 for one in ir.AffineMapAttr(map).value.results]
    return ir.AffineMap.get(dims - 1, 0, [ir.AffineDimExpr.get(place) for place in places if place >= 0])


@step
def launch(work: Work) -> None:
    """Makes a gpu.launch of the loops over blocks, warps and threads: their indices become arithmetic on block and
    thread ids. The block has as many threads as the tiles of `tile_warps` or `tile_threads` need."""
    threads = thread_count(work)
    if tile_loop(work):
        work.refuse("persistent blocks", "a tile's copies wait for the products of the tile before: wgmma() has a ring "
                    "that says so", "wgmma(), or leave persistent() out")  # fmt: skip
    blocks = [op for op in work.find("scf.forall") if "#gpu.block" in str(op.attributes["mapping"])]
    if len(blocks) != 1:
        work.refuse(f"{len(blocks)} loops over blocks", "it maps one scf.forall to blocks", "tile_blocks() before")
    mark = work.mark(blocks[0])
    with work.transform() as script:
        found = script.match("scf.forall", marked=mark)
        made = transform_gpu.MapForallToBlocks(found, generate_gpu_launch=True).result
        transform_gpu.MapNestedForallToThreads(made, block_dims=[threads, 1, 1], sync_after_distribute=False)
    work.clean()


def thread_count(work: Work) -> int:
    """Threads of a block: what the loops over warps and threads have iterations for."""
    counts = {0}
    for op in work.find("scf.forall"):
        text = str(op.attributes["mapping"])
        if "#gpu.block" not in text:
            size = math.prod(integers(op, "staticUpperBound"))
            counts.add(size * arch.WARP_SIZE if "#gpu.warp" in text else size)
    threads = max(counts)
    if not threads:
        work.refuse("no loop over warps or threads", "it needs to know how many there are", "tile_warps() before")
    if threads > arch.MAX_THREADS_PER_BLOCK:
        work.refuse(
            f"{threads:,} threads", f"a block has at most {arch.MAX_THREADS_PER_BLOCK:,}", "larger tiles for each warp"
        )
    return threads
