"""What an integer expression is, where the module alone determines it: arith's operations, and one thread's value."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.ir.arith import CASTS, INTEGERS, comparison
from nvdsl.ir.operands import constant_value, integer, named, word
from nvdsl.ir.walk import defining, yielded
from nvdsl.mlir import ir


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
    entry = INTEGERS.get(name)
    if entry is None:
        return _other(op, name, operands)
    x, y = operands
    if entry.signed is None and not entry.kind:
        return entry.apply(x, y)
    bits = _bits(op.operands[0])
    x, y = _read(x, bits, entry.signed), _read(y, bits, entry.signed)
    return entry.apply(x, y) if not entry.kind or entry.is_defined(x, y, bits) else None


def _other(op: Any, name: str, operands: list[Any]) -> Any:
    if name == "arith.select":
        condition, first, second = operands
        if isinstance(condition, np.ndarray):
            return np.where(condition, first, second)
        return first if condition else second
    bits = _bits(op.operands[0])
    if name == "arith.cmpi":
        compare = comparison(integer(op, "predicate"))
        x, y = (_read(one, bits, compare.signed) for one in operands)
        return compare.apply(x, y) * 1
    cast = CASTS.get(name)
    if cast is None or "float" in (cast.source, cast.target):
        return None
    return _read(operands[0], bits, cast.signed)


def _bits(value: Any) -> int:
    return value.type.width if isinstance(value.type, ir.IntegerType) else 64


def _read(x: Any, bits: int, signed: bool | None) -> Any:
    """``x``, which is kept as a signed number (i1: 0 or 1), as an operation reads it."""
    if signed is None:
        return x
    if signed:
        return -x if bits == 1 else x
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
