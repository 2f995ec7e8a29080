"""A step that permutes tiles in shared memory, so that what is read together lies in different banks."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.operands import named
from nvdsl.layout.memory import BANK_BYTES, BANKS
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith
from nvdsl.schedule.registers import fold_views
from nvdsl.schedule.rewrite import is_shared
from nvdsl.schedule.step import step
from nvdsl.schedule.work import Work

UNIT = 16
"""Bytes that stay together: a row of ldmatrix's matrices."""

_LINE = BANKS * BANK_BYTES

_ACCESSES = (
    "vector.transfer_read", "vector.transfer_write", "vector.load", "vector.store", "memref.load", "memref.store",
    "nvgpu.ldmatrix",
)  # fmt: skip


@step
def swizzle(work: Work) -> None:
    """Permutes the parts of 16 bytes of each row of a tile in shared memory by an exclusive or with the row, in copies
    and in ldmatrix alike. Rows then begin in different banks without being longer."""
    tiles = [op for op in work.find("memref.alloc") if is_shared(op.results[0])]
    if not tiles:
        work.refuse("no tile in shared memory", "it permutes what stage() makes", "stage() before")
    fold_views(work)
    for tile in [op for op in work.find("memref.alloc") if is_shared(op.results[0])]:
        type = ir.MemRefType(tile.results[0].type)
        unit = UNIT * 8 // type.element_type.width
        columns = type.shape[-1]
        units = columns // unit
        if columns % unit or units & (units - 1) or units < 2:
            work.refuse(f"a tile of {type}", "a row is 2, 4, 8 or more parts of 16 bytes, a power of two",
                        "tiles of 16, 32, 64 or 128 halves a row, and no pad()")  # fmt: skip
        uses = [(use.owner.operation, use.operand_number) for use in tile.results[0].uses]
        for user, _ in uses:
            if user.name != "memref.dealloc" and not (user.name in _ACCESSES and _fits(user, unit)):
                work.refuse(f"{user.name} of a tile", "accesses are of at most 16 bytes that are one part of a row",
                            "mma_sync() before: wmma and products of vectors read whole tiles")  # fmt: skip
        row_bytes = units * UNIT
        for user, _ in uses:
            if user.name != "memref.dealloc":
                _permute(user, units, unit, max(_LINE // row_bytes, 1))
    work.clean()


def _fits(op: Any, unit: int) -> bool:
    vectors = [v.type for v in (*op.results, *op.operands) if isinstance(v.type, ir.VectorType)]
    if op.name == "nvgpu.ldmatrix" or not vectors:
        return True
    *outer, last = vectors[0].shape
    return all(extent == 1 for extent in outer) and last <= unit


def _permute(op: Any, units: int, unit: int, rows: int) -> None:
    """column ^= (row / rows % units) * unit, of at most 8 units: rows that share a line of banks share the pattern."""
    number = _LINE // UNIT
    row, column = _indices(op)
    with ir.InsertionPoint(op), op.location:
        index = ir.IndexType.get()

        def constant(n: int) -> Any:
            return arith.constant(index, n)

        line = arith.divui(op.operands[row], constant(rows))
        shift = arith.muli(arith.remui(line, constant(min(units, number))), constant(unit))
        op.operands[column] = arith.xori(op.operands[column], shift)


def _indices(op: Any) -> tuple[int, int]:
    """Which operands are the last two indices."""
    view = named(op)
    indices = list(view.srcIndices if hasattr(view, "srcIndices") else view.indices)
    first = 1 if op.name in ("vector.transfer_read", "vector.load", "memref.load", "nvgpu.ldmatrix") else 2
    return first + len(indices) - 2, first + len(indices) - 1
