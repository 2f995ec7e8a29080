"""Where a wgmma's matrix descriptors come from: the address they begin with, and the op that gave them their fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.ir import declared
from nvdsl.ir.location import where
from nvdsl.ir.walk import defining, identity
from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame

_ARITHMETIC = (
    "arith.addi", "arith.subi", "arith.ori", "arith.andi", "arith.shrui", "arith.shrsi", "arith.extui", "arith.extsi",
    "arith.trunci", "arith.index_cast", "arith.index_castui",
)  # fmt: skip
_CONSTANT = ("arith.constant", "llvm.mlir.constant")
_U64 = (1 << 64) - 1
_ADDRESS_BITS = 16  # of a descriptor; what is above are its offsets and its swizzle


class Source:
    """A descriptor that a wgmma takes: a 64-bit value. ``tile``: the slot of the address of the tile that it is made
    of; None where that isn't known, or there are two."""

    def __init__(self, decoder: Decoder, value: Any) -> None:
        self._decoder, self._value = decoder, value
        self.tile = _tile(decoder, value)

    def made(self, frame: Frame, descriptor: int) -> Where | None:
        """Where the descriptor, of this value, got its offsets and its swizzle. What only advances its address, and the
        loops that carry it, are passed over."""
        fields, value, at = descriptor >> _ADDRESS_BITS, self._value, None
        while value is not None:
            op = defining(value)
            if op is None:
                value = _carried(value)
                continue
            at = where(op)
            value = next((one for one in op.operands if fields and self._has(frame, one, fields)), None)
        return at

    def _has(self, frame: Frame, value: Any, fields: int) -> bool:
        op, slot = defining(value), self._decoder.find(value)
        if slot is None or op is not None and op.name in _CONSTANT:
            return False  # equal constants may be one, made at the line of the first
        held = frame[slot]
        if held.__class__ is np.ndarray:
            held = held.flat[0]
        return isinstance(held, (int, np.integer)) and (int(held) & _U64) >> _ADDRESS_BITS == fields


def _carried(argument: Any) -> Any:
    """What a loop's variable begins with; None for anything else."""
    loop, number = argument.owner.owner.operation, ir.BlockArgument(argument).arg_number
    return loop.operands[2 + number] if loop.name == "scf.for" and number else None


def _tile(decoder: Decoder, value: Any) -> int | None:
    found: set[int] = set()
    pending, seen = [value], set()
    while pending:
        one = pending.pop()
        if one is None or identity(one) in seen:
            continue
        seen.add(identity(one))
        op = defining(one)
        if op is None:
            pending.append(_carried(one))
        elif declared.VIEW in op.attributes:
            found.add(decoder.slot(one))
        elif op.name in _ARITHMETIC:
            pending += list(op.operands)
    return found.pop() if len(found) == 1 else None
