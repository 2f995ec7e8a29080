"""The last step of each schedule: what the rest of nvdsl takes."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.hopper import arch
from nvdsl.ir.walk import constant
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, memref, transform
from nvdsl.mlir.dialects.transform import vector
from nvdsl.schedule.ragged import EXTENTS
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.rewrite import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work

ALIGNMENT = 128
"""Bytes that a tile in shared memory starts at a multiple of."""


@step
def finish(work: Work) -> None:
    """Places the tiles in the launch's dynamic shared memory, makes loads and stores of vectors of what is left of
    copies, and lowers affine arithmetic. Each schedule ends with it."""
    launches = work.find("gpu.launch")
    left = work.find("scf.forall", "linalg.matmul", "linalg.copy", "linalg.fill", "linalg.generic", "vector.contract")
    if len(launches) != 1 or left:
        what = f"a {left[0].name} is left" if left else f"{len(launches)} launches"
        work.refuse(what, "a schedule makes one launch, and leaves nothing that is not mapped to threads",
                    "copies(), tile_warps() or tile_threads(), launch() and, on vectors, wmma() before")  # fmt: skip
    if any(not is_shared(op.results[0]) for op in work.find("memref.alloc")):
        work.refuse("a buffer in global memory", "what is made of A or B is written to shared memory", "stage() before")
    if EXTENTS in work.one("func.func", made_by="").attributes:
        work.refuse("arrays that tile_blocks() has rounded up", "what is outside is not touched", "mask() before")
    fold_views(work)
    lower_transfers(work)
    _place_tiles(work, launches[0])
    for op in work.find("vector.load", "vector.store"):
        type = ir.VectorType((op.results[0] if op.results else op.operands[0]).type)
        size = math.prod(type.shape) * type.element_type.width // 8
        aligned = min(size & -size, 16)  # no instruction accesses more bytes at once, and rows promise no more
        op.attributes["alignment"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), aligned)
    work.run("lower-affine", "canonicalize", "cse")
    _move_in(work.one("gpu.launch", made_by=""))


def lower_transfers(work: Work) -> None:
    """Loads and stores of vectors, or of single elements, of what is left of vector.transfer_read and _write."""
    with work.transform() as script:
        script.patterns(
            vector.ApplyCastAwayVectorLeadingOneDimPatternsOp,
            vector.ApplyLowerTransferPatternsOp,
            transform.ApplyCanonicalizationPatternsOp,
        )


def _move_in(launch: Any) -> None:
    """Constants of vectors and matrices stand outside of the launch, where canonicalization puts them: a host has
    none."""
    start = list(launch.regions[0].blocks[0].operations)[0]
    for op in [one.operation for one in launch.operation.block.operations]:
        if any(str(v.type).startswith(("vector", "!gpu.mma_matrix")) for v in op.results):
            op.move_before(start)


def _place_tiles(work: Work, launch: Any) -> None:
    tiles = [op for op in work.find("memref.alloc") if is_shared(op.results[0])]
    for op in work.find("memref.dealloc"):
        op.erase()
    if not tiles:
        return
    end = 0
    with ir.InsertionPoint.at_block_begin(launch.regions[0].blocks[0]), launch.location:
        block = gpu.dynamic_shared_memory(ir.Type.parse("memref<?xi8, #gpu.address_space<workgroup>>"))
        for tile in tiles:
            type = ir.MemRefType(tile.results[0].type)
            start = -(-end // ALIGNMENT) * ALIGNMENT
            end = start + math.prod(type.shape) * type.element_type.width // 8
            view = memref.view(type, block, arith.constant(ir.IndexType.get(), start), [])
            tile.results[0].replace_all_uses_with(view)
    for tile in tiles:
        tile.erase()
    if end > arch.MAX_SMEM_PER_BLOCK:
        work.refuse(f"{end:,} bytes of shared memory", f"a block has at most {arch.MAX_SMEM_PER_BLOCK:,}",
                    "smaller tiles of the block")  # fmt: skip
    set_launch(launch, end)


def set_launch(launch: Any, size: int) -> None:
    """Let the launch have dynamic shared memory: it is made anew around the same body."""
    with ir.InsertionPoint(launch), launch.location:
        amount = arith.constant(ir.IntegerType.get_signless(32), size)
        sizes = [arith.constant(ir.IndexType.get(), constant(v)) for v in launch.operands]
        segments = ir.DenseI32ArrayAttr.get([0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1])
        made = ir.Operation.create("gpu.launch", [], [*sizes, amount], {"operandSegmentSizes": segments}, regions=1)
    launch.regions[0].blocks[0].append_to(made.regions[0])
    launch.erase()
