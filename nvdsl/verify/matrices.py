"""ldmatrix and stmatrix: rows that start in the middle of 16 bytes, and rows that lie in the same banks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nvdsl.errors import AdvisoryWarning, VerifyError, Where
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, named
from nvdsl.layout.memory import conflicts_at
from nvdsl.verify.context import Context, contexts
from nvdsl.verify.program import Node, Program

ROWS, UNIT = 8, 16
"""A matrix has 8 rows of 16 bytes."""

_WORTH_SAYING = 4
"""So many times longer than it has to take."""


def check(program: Program) -> None:
    said: set[Where] = set()
    for context in contexts(program):
        for node in context.kernel.find("nvvm.ldmatrix", "nvvm.stmatrix"):
            starts = _rows(context, node)
            if starts is not None:
                _check_alignment(node, starts)
                _advise(node, starts, said)


def _rows(context: Context, node: Node) -> Any | None:
    """[warp, row] of the addresses of the first warps that reach it, None where they are not known."""
    view = named(node.op)
    known = context.threads.of(view.ptr, first=True)
    if known is None:
        return None
    is_load = node.name == "nvvm.ldmatrix"
    count = integer(node.op, "num") if is_load else len(view.sources)
    block = slice(context.threads.per_block)
    lanes, starts = context.reaches.of(node).lanes[block], context.threads.array(known)[block]
    whole = len(lanes) // WARP_SIZE
    by_warp = starts[: whole * WARP_SIZE].reshape(whole, WARP_SIZE)
    reached = lanes[: whole * WARP_SIZE].reshape(whole, WARP_SIZE).all(1)
    found = by_warp[reached][:, : ROWS * count]
    return found if len(found) else None


def _check_alignment(node: Node, starts: Any) -> None:
    wrong = np.argwhere(starts % UNIT)
    if len(wrong):
        warp, lane = wrong[0]
        start = int(starts[warp, lane])
        raise VerifyError(
            f"{node.name[5:]}: lane {lane} names a row at byte {start:,} of shared memory, {start % UNIT} bytes past a "
            f"multiple of {UNIT}",
            where=where(node.op),
            rule=f"the {UNIT} bytes of each row of a matrix are aligned (PTX ISA, {node.name[5:]})",
            fix="tile.ldmatrix((row, col)) and tile.stmatrix compute the addresses; rows of a dense tile are multiples "
            "of 16 bytes",
        )


def _advise(node: Node, starts: Any, said: set[Where]) -> None:
    """Once for a line."""
    at = where(node.op)
    ways = max(conflicts_at(matrix.tolist(), UNIT) for matrix in starts[0].reshape(-1, ROWS))
    if ways >= _WORTH_SAYING and at is not None and at not in said:
        said.add(at)
        warnings.warn_explicit(
            f"{node.name[5:]} takes {ways} times as long as without bank conflicts: {ways} of a matrix's rows lie in "
            "the same banks (a tile with a swizzle, or rows padded by 16 bytes, has none)",
            AdvisoryWarning,
            at.file,
            at.line,
        )
