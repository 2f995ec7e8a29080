"""The value of an integer expression for one thread, where the module alone determines it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvdsl.mlir import ir
from nvdsl.verify.walk import defining

_SIGNED: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shrsi": lambda a, b: a >> b,
    "arith.shli": lambda a, b: a << b,
    "arith.divsi": lambda a, b: (a - _remainder(a, b)) // b,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.remsi": lambda a, b: _remainder(a, b),
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "arith.shrui": lambda a, b: a >> b,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
}
_COMPARE: tuple[Callable[[int, int], bool], ...] = (  # in the order of arith's CmpIPredicate
    lambda a, b: a == b,
    lambda a, b: a != b,
    *(2 * (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b)),
)
_FIRST_UNSIGNED = 6  # ult, ule, ugt, uge
_COPY = ("arith.index_cast", "arith.extsi", "arith.trunci")
_COPY_UNSIGNED = ("arith.index_castui", "arith.extui")


def evaluate(value: Any, thread: int) -> int | None:
    """``value`` in thread ``thread`` (x) of a block, None where it isn't known. i1 is 0 or 1, others are signed.

    A shuffle counts as the thread's own value, which is right for what all lanes of a warp agree on.
    """
    op = defining(value)
    if op is None:
        return None
    if op.name == "arith.constant":
        attribute = op.attributes["value"]
        known = isinstance(attribute, ir.IntegerAttr | ir.BoolAttr)
        return _fit(int(attribute.value), value) if known else None
    if op.name == "gpu.thread_id":
        return thread if "x" in str(op.attributes["dimension"]) else 0
    if op.name == "nvvm.shfl.sync":
        return evaluate(op.operands[1], thread)
    if op.name == "scf.if":
        return _branch(op, ir.OpResult(value).result_number, thread)
    if not op.name.startswith("arith."):
        return None
    operands = [evaluate(operand, thread) for operand in op.operands]
    result = None if None in operands else _compute(op, operands)
    return None if result is None else _fit(result, value)


def _branch(op: Any, position: int, thread: int) -> int | None:
    """What the branch that ``thread`` takes yields."""
    condition = evaluate(op.operands[0], thread)
    if condition is None:
        return None
    block = op.regions[0 if condition else 1].blocks[0]
    return evaluate(list(block.operations)[-1].operands[position], thread)


def _compute(op: Any, operands: list[Any]) -> int | None:
    name = op.name
    bits = _bits(op.operands[0])
    unsigned = [x & (1 << bits) - 1 for x in operands]
    if name in _COPY:
        return -operands[0] if bits == 1 else operands[0]
    if name in _COPY_UNSIGNED:
        return unsigned[0]
    if name == "arith.select":
        return operands[1] if operands[0] else operands[2]
    if name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return int(_COMPARE[predicate](*(unsigned if predicate >= _FIRST_UNSIGNED else operands)))
    if "div" in name or "rem" in name:
        defined = operands[1] != 0
    else:
        defined = "sh" not in name or 0 <= operands[1] < bits
    if not defined or name not in _SIGNED | _UNSIGNED:
        return None
    return _SIGNED[name](*operands) if name in _SIGNED else _UNSIGNED[name](*unsigned)


def _remainder(a: int, b: int) -> int:
    """With the sign of ``a``, as the hardware's."""
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _bits(value: Any) -> int:
    return value.type.width if isinstance(value.type, ir.IntegerType) else 64


def _fit(x: int, value: Any) -> int:
    """``x`` in as many bits as ``value`` has."""
    bits = _bits(value)
    x &= (1 << bits) - 1
    return x - (1 << bits) if bits > 1 and x >> (bits - 1) else x
