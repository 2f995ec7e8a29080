"""Runs traced functions on Python numbers: enough of func, scf and arith to compare tracing with Python.

It is no simulator: one thread, integers and bools, no memory but the list of what was printed.
"""

from __future__ import annotations

import operator
from typing import Any

from nvdsl.mlir import ir

# By arith.cmpi's predicate: the signed ones, which are the first six.
_COMPARE = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_BINARY = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.shrsi": operator.rshift,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.divsi": lambda a, b: int(a / b),
    "arith.remsi": lambda a, b: a - int(a / b) * b,
}


class Evaluator:
    """``run(function, arguments)`` gives the list of the function's results. ``printed``: (format, values)."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}  # by the hash of an ir.Value, which is the SSA value's address
        self.printed: list[tuple[str, list[Any]]] = []

    def run(self, function: Any, arguments: list[Any]) -> list[Any]:
        return self.block(function.regions[0].blocks[0], arguments)[1]

    def __getitem__(self, value: Any) -> Any:
        return self.values[hash(value)]

    def block(self, block: Any, arguments: list[Any]) -> tuple[str, list[Any]]:
        """The name and the operands of the block's terminator."""
        for argument, value in zip(block.arguments, arguments, strict=True):
            self.values[hash(argument)] = value
        for op in block.operations:
            op = op.operation
            operands = [self[x] for x in op.operands]
            if op.name in ("scf.yield", "scf.condition", "func.return"):
                return op.name, operands
            for result, value in zip(op.results, self.op(op, operands), strict=True):
                self.values[hash(result)] = value
        return "", []

    def op(self, op: Any, operands: list[Any]) -> list[Any]:
        if op.name in _BINARY:
            value = _BINARY[op.name](*operands)
            return [_wrapped(value) if isinstance(value, int) and not isinstance(value, bool) else value]
        if op.name == "arith.constant":
            attribute = op.attributes["value"]
            value = attribute.value
            return [bool(value) if str(attribute.type) == "i1" else value]
        if op.name == "arith.cmpi":
            predicate = ir.IntegerAttr(op.attributes["predicate"]).value
            return [_COMPARE[predicate](*operands)]
        if op.name == "arith.select":
            return [operands[1] if operands[0] else operands[2]]
        if op.name in ("arith.extsi", "arith.extui", "arith.index_cast"):
            return [int(operands[0])]
        if op.name == "gpu.printf":
            self.printed.append((op.attributes["format"].value, operands))
            return []
        return getattr(self, op.name.replace("scf.", "scf_"))(op, operands)

    def scf_if(self, op: Any, operands: list[Any]) -> list[Any]:
        blocks = op.regions[0 if operands[0] else 1].blocks
        return self.block(blocks[0], [])[1] if len(blocks) else []

    def scf_for(self, op: Any, operands: list[Any]) -> list[Any]:
        lower, upper, step, *carried = operands
        for counter in range(lower, upper, step):
            carried = self.block(op.regions[0].blocks[0], [counter, *carried])[1]
        return carried

    def scf_while(self, op: Any, operands: list[Any]) -> list[Any]:
        while True:
            _, (go_on, *forwarded) = self.block(op.regions[0].blocks[0], operands)
            if not go_on:
                return forwarded
            operands = self.block(op.regions[1].blocks[0], forwarded)[1]


def _wrapped(value: int, bits: int = 32) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
