"""What an integer expression is, where the module alone determines it: arith's operations, and one thread's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.ir.operands import constant_value, integer, named, word
from nvdsl.ir.walk import defining, yielded
from nvdsl.mlir import ir

_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
}
_SIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "arith.shrsi": lambda a, b: a >> b,
    "arith.shli": lambda a, b: a << b,
    "arith.divsi": lambda a, b: (a - _remainder(a, b)) // b,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.remsi": lambda a, b: _remainder(a, b),
}
_UNSIGNED: dict[str, Callable[..., Any]] = {
    "arith.index_castui": lambda a: a,
    "arith.extui": lambda a: a,
    "arith.minui": np.minimum,
    "arith.maxui": np.maximum,
    "arith.shrui": lambda a, b: a >> b,
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
}
_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (  # in the order of arith's CmpIPredicate
    lambda a, b: a == b,
    lambda a, b: a != b,
    *(2 * (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b)),
)
_FIRST_UNSIGNED = 6  # ult, ule, ugt, uge
_COPY = ("arith.index_cast", "arith.extsi", "arith.trunci")


def evaluate(value: Any, thread: int) -> int | None:
    """``value`` in thread ``thread`` (x) of a block, None where it isn't known. i1 is 0 or 1, others are signed.

    A shuffle counts as the thread's own value, which is right for what all lanes of a warp agree on.
    """
    op = defining(value)
    if op is None:
        return None
    if op.name == "arith.constant":
        known = constant_value(op)
        return None if known is None else fit(known, value)
    if op.name == "gpu.thread_id":
        return thread if word(op, "dimension") == "x" else 0
    if op.name == "nvvm.shfl.sync":
        return evaluate(named(op).val, thread)
    if op.name == "scf.if":
        return _branch(op, ir.OpResult(value).result_number, thread)
    if not op.name.startswith("arith."):
        return None
    operands = [evaluate(operand, thread) for operand in op.operands]
    result = None if None in operands else compute(op, operands)
    return None if result is None else fit(result, value)


def _branch(op: Any, position: int, thread: int) -> int | None:
    """What the branch that ``thread`` takes yields."""
    condition = evaluate(op.operands[0], thread)
    if condition is None:
        return None
    return evaluate(yielded(op.regions[0 if condition else 1])[position], thread)


def compute(op: Any, operands: list[Any]) -> Any:
    """The result of an ``arith`` op, element by element where operands are arrays; None where it isn't defined.

    It may have more bits than the op's type: see `fit`.
    """
    name = op.name
    if name in _EXACT:
        return _EXACT[name](*operands)
    bits = _bits(op.operands[0])
    if name in _COPY:
        return -operands[0] if bits == 1 else operands[0]
    if name == "arith.select":
        condition, first, second = operands
        if isinstance(condition, np.ndarray):
            return np.where(condition, first, second)
        return first if condition else second
    if name == "arith.cmpi":
        predicate = integer(op, "predicate")
        compared = [_unsigned(x, bits) for x in operands] if predicate >= _FIRST_UNSIGNED else operands
        return _COMPARE[predicate](*compared) * 1
    if name in _UNSIGNED:
        operands = [_unsigned(x, bits) for x in operands]
    if "div" in name or "rem" in name:
        defined = bool(np.all(operands[1] != 0))
    else:
        defined = "sh" not in name or bool(np.all((0 <= operands[1]) & (operands[1] < bits)))
    function = _SIGNED.get(name) or _UNSIGNED.get(name)
    return function(*operands) if defined and function else None


def _remainder(a: Any, b: Any) -> Any:
    """With the sign of ``a``, as the hardware's."""
    return abs(a) % abs(b) * (1 - 2 * (a < 0))


def _bits(value: Any) -> int:
    return value.type.width if isinstance(value.type, ir.IntegerType) else 64


def _unsigned(x: Any, bits: int) -> Any:
    if isinstance(x, np.ndarray):
        return x.view(np.uint64) if bits == 64 else x & (1 << bits) - 1
    return x & (1 << bits) - 1


def fit(x: Any, value: Any) -> Any:
    """``x``, an int or an array, in as many bits as ``value`` has."""
    bits = _bits(value)
    if isinstance(x, np.ndarray):
        if bits == 64:
            return x.astype(np.int64)
        x = x.astype(np.int64) & (1 << bits) - 1
        return x if bits == 1 else x - ((x >> (bits - 1)) << bits)
    x = int(x) & (1 << bits) - 1
    return x - (1 << bits) if bits > 1 and x >> (bits - 1) else x
