"""A step that lets a block compute tile after tile."""

from __future__ import annotations

from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.walk import constant
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, scf
from nvdsl.mlir.dialects.transform import gpu as transform_gpu
from nvdsl.schedule.rewrite import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work

TILE_LOOP = "nvdsl.tiles"
"""Marks the loop over a persistent block's tiles."""


@step
def persistent(work: Work, blocks: int = arch.SMS, rows: int = 8) -> None:
    """Makes a gpu.launch of as many blocks as there are SMs, each of which goes from tile to tile of C: an scf.for. The
    tiles are numbered by groups of ``rows`` rows of tiles, so that those that are computed together share what they
    read in the L2 cache. In front of wgmma(), whose loads then run ahead into the next tile.
    """
    if blocks < 1 or rows < 1:
        work.refuse(f"{blocks} blocks, groups of {rows} rows", "there is one of each or more", "persistent(132, 8)")
    product = work.one("linalg.matmul", made_by="tile_blocks(), bufferize() and stage() before")
    if not is_shared(product.operands[0]):
        work.refuse("operands that are not in shared memory", "a block's buffers serve all its tiles", "stage() before")
    launch = launch_blocks(work)
    sizes = [constant(size) for size in list(launch.operands)[:3]]
    block = launch.regions[0].blocks[0]
    *body, _ = [op.operation for op in block.operations]
    across, down, batch = (size or 1 for size in sizes)
    tiles = across * down * batch
    with ir.InsertionPoint(launch), launch.location:
        for number, size in enumerate((min(blocks, tiles), 1, 1)):
            launch.operands[number] = _number(size)
    with ir.InsertionPoint.at_block_begin(block), launch.location:
        first = gpu.block_id(gpu.Dimension.x)
        loop = scf.ForOp(first, _number(tiles), _number(min(blocks, tiles)))
        loop.operation.attributes[TILE_LOOP] = ir.UnitAttr.get()
        with ir.InsertionPoint(loop.body):
            places = _place(loop.induction_variable, across, down, rows)
            scf.YieldOp([])
    end = list(loop.body.operations)[-1]
    for op in body:
        if op.name == "gpu.block_id":
            axis = "xyz".index(str(op.attributes["dimension"])[-2])
            op.results[0].replace_all_uses_with(places[axis])
            op.erase()
        else:
            op.move_before(end)
    work.run("cse")


def _place(tile: Any, across: int, down: int, rows: int) -> list[Any]:
    """The column, the row and the matrix of a batch of a tile's number; the last group may have fewer rows."""
    whole = across * down
    matrix, tile = arith.divui(tile, _number(whole)), arith.remui(tile, _number(whole))
    first = arith.muli(arith.divui(tile, _number(rows * across)), _number(rows))
    within = arith.remui(tile, _number(rows * across))
    height = arith.minsi(_number(rows), arith.subi(_number(down), first)) if down % rows else _number(rows)
    return [arith.divui(within, height), arith.addi(first, arith.remui(within, height)), matrix]


def launch_blocks(work: Work) -> Any:
    """Make a gpu.launch of the loop over blocks, with one thread a block so far."""
    forall = work.one("scf.forall", made_by="tile_blocks() before, and no tile_warps()")
    mark = work.mark(forall)
    with work.transform() as script:
        transform_gpu.MapForallToBlocks(script.match("scf.forall", marked=mark), generate_gpu_launch=True)
    return work.one("gpu.launch", made_by="")


def tile_loop(work: Work) -> Any:
    """The loop over a persistent block's tiles, if there is one."""
    found = [op for op in work.find("scf.for") if TILE_LOOP in op.attributes]
    return found[0] if found else None


def _number(n: int) -> Any:
    return arith.constant(ir.IndexType.get(), n)
