"""How wgmma reads its operands, against how TMA wrote them: swizzle, strides, alignment."""

from __future__ import annotations

import numpy as np

from nvdsl.errors import VerifyError
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.ir import tensor_copies
from nvdsl.ir.location import where
from nvdsl.layout import ALIGNMENT
from nvdsl.verify import places
from nvdsl.verify.context import beside, contexts
from nvdsl.verify.places import Place, SmemOperand
from nvdsl.verify.program import Node, Program

_RULE = "PTX ISA, wgmma, Shared Memory Matrix Layout, Matrix Descriptor Format"


def check(program: Program) -> None:
    for context in contexts(program):
        kernel = context.kernel
        copies = kernel.find(*places.TMA_LOADS, "nvgpu.tma.async.store")
        boxes = [(n, p) for n in copies if (p := places.tma(context, n))]
        for node, place in boxes:
            _check_destination(node, place)
        loads = [_Box(n, p, _swizzle(n)) for n, p in boxes if n.name in places.TMA_LOADS]
        for node in kernel.find(*places.WGMMAS) if loads else ():
            for operand in places.operands(context, node):
                _check_operand(operand, loads)


@dataclass(frozen=True)
class _Box:
    """Where a TMA load writes, and with which swizzle in bytes (None: one that isn't known)."""

    node: Node
    place: Place
    swizzle: int | None


def _swizzle(node: Node) -> int | None:
    tensor_map = tensor_copies.tensor_map(node.op)
    descriptor = str(tensor_map.type) if tensor_map is not None else ""
    return places.swizzle_of(descriptor) if "interleave = none" in descriptor else None


def _check_destination(node: Node, place: Place) -> None:
    start = int(np.atleast_1d(np.asarray(place.starts))[0])
    if start % arch.TMA_SMEM_ALIGNMENT:
        raise VerifyError(
            f"a TMA box at byte {start:,} of shared memory",
            where=where(node.op),
            rule=f"a box starts at a multiple of {arch.TMA_SMEM_ALIGNMENT} bytes (PTX ISA, cp.async.bulk.tensor)",
            fix="allocate with nv.smem, or round the offset up",
        )


def _check_operand(operand: SmemOperand, loads: list[_Box]) -> None:
    """The boxes at the operand's start, in the first round of every loop. Several may come there one after the other:
    one that fits is enough."""
    here = [box for box in loads if box.place.meets(Place(operand.start, 1))]
    problems = [(box.node, problem) for box in here if (problem := _problem(operand, box))]
    if here and len(problems) == len(here):
        node, (message, fix) = problems[0]
        raise VerifyError(
            f"operand {operand.name} {message} (load at {beside(node, operand.node)})",
            where=where(operand.node.op),
            rule="wgmma finds an operand's elements where its descriptor says, TMA puts them where the tensor map "
            f"says: the two agree ({_RULE})",
            fix=fix,
        )


def _problem(operand: SmemOperand, box: _Box) -> tuple[str, str] | None:
    swizzle = box.swizzle
    if swizzle is None:
        return None
    if operand.swizzle != swizzle:
        return (
            f"is read with {_swizzled(operand.swizzle)} and TMA wrote it with {_swizzled(swizzle)}",
            "give the tensor map and the tile one swizzle",
        )
    start = int(np.atleast_1d(np.asarray(box.place.starts))[0])
    if swizzle and start % ALIGNMENT[swizzle] and not operand.offset:
        return (
            f"lies in a box at byte {start:,} of shared memory, {start % ALIGNMENT[swizzle]} bytes past a multiple of "
            f"{ALIGNMENT[swizzle]:,}",
            f"align a tile with {_swizzled(swizzle)} to {ALIGNMENT[swizzle]:,} bytes, as nv.smem does",
        )
    return _strides(operand, swizzle)


def _strides(operand: SmemOperand, swizzle: int) -> tuple[str, str] | None:
    """Swizzled rows are as wide as the swizzle, so that 8 of them, one step of the stride, are 8 * swizzle bytes."""
    if swizzle and operand.stride is not None and operand.major and operand.stride != 8 * swizzle:
        return (
            f"has a stride byte offset of {operand.stride:,}, and 8 rows of {swizzle} bytes are {8 * swizzle:,}",
            f"{8 * swizzle:,} as the descriptor's stride byte offset (SBO)",
        )
    return None


def _swizzled(swizzle: int) -> str:
    return f"the {swizzle}-byte swizzle" if swizzle else "no swizzle"
