"""What the arith dialect's operations mean: one table for the host program, the simulator and the verifier.

An integer has no sign and no width of its own here. Whoever computes reads the operands as the numbers that the entry
asks for, signed or unsigned, and takes as many low bits of the result as the operation's type has. Operands are Python
ints or NumPy arrays of integers; one of each is possible. Floats are NumPy's, of the operation's exact type, which
round as IEEE 754 says.

Where a result is undefined (`Integer.is_defined`), the functions give any number and raise nothing. Whoever computes
decides what to say about such operands.

Source: MLIR, "'arith' Dialect"; LLVM Language Reference, "Binary Operations", "Bitwise Binary Operations".
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.errors.records import dataclass

Number = Any
"""A Python number, a NumPy scalar, or an array of them."""

Binary = Callable[[Number, Number], Number]

_MAX_COUNT = 63


@dataclass(frozen=True)
class Integer:
    """An operation on two integers.

    ``apply``: the function of the two numbers. ``signed``: whether it reads them as signed or as unsigned numbers; None
    where the low bits of the operands give those of the result in any case. ``fits``: whether the result of signed
    numbers never needs more bits than they have. ``kind``: "division" or "shift", whose operands must suit, or "".
    """

    apply: Binary
    signed: bool | None = None
    fits: bool = False
    kind: str = ""

    def is_defined(self, x: Number, y: Number, bits: int) -> bool:
        """Whether all operands of ``bits`` bits, read as the operation reads them, have a result."""
        if self.kind == "division":
            return _is_nowhere((y == 0) | overflows(x, y, bits) if self.signed else y == 0)
        return self.kind != "shift" or _is_nowhere(is_too_far(y, bits))


def _is_nowhere(found: Any) -> bool:
    return not (found.any() if isinstance(found, np.ndarray) else found)


def overflows(x: Number, y: Number, bits: int) -> Number:
    """Whether the quotient of two signed numbers needs more than ``bits`` bits: the least number by -1."""
    return (y == -1) & (x == -(1 << (bits - 1)))


def is_too_far(count: Number, bits: int) -> Number:
    """Whether a shift of a number of ``bits`` bits by ``count`` is undefined."""
    return (count < 0) | (count >= bits)


# --- integers ------------------------------------------------------------------------------------


def _floor_divide(x: Number, y: Number) -> Number:
    if x.__class__ is int and y.__class__ is int:
        return x // y if y else 0
    return x // y


def _modulo(x: Number, y: Number) -> Number:
    if x.__class__ is int and y.__class__ is int:
        return x % y if y else 0
    return x % y


def _divide(x: Number, y: Number) -> Number:
    """Toward zero."""
    if x.__class__ is int and y.__class__ is int:
        if y == 0:
            return 0
        quotient = abs(x) // abs(y)
        return quotient if (x < 0) == (y < 0) else -quotient
    quotient = x // y
    return quotient + ((quotient * y != x) & (np.less(x, 0) != np.less(y, 0)))


def _remainder(x: Number, y: Number) -> Number:
    """Of `_divide`: it has the sign of ``x``."""
    return x - _divide(x, y) * y


def _ceil_divide(x: Number, y: Number) -> Number:
    quotient = _floor_divide(x, y)
    return quotient + (quotient * y != x)


def _min(x: Number, y: Number) -> Number:
    return min(x, y) if x.__class__ is int and y.__class__ is int else np.minimum(x, y)


def _max(x: Number, y: Number) -> Number:
    return max(x, y) if x.__class__ is int and y.__class__ is int else np.maximum(x, y)


def _shift_left(x: Number, y: Number) -> Number:
    return x << (y & _MAX_COUNT if y.__class__ is int else y)


def _shift_right(x: Number, y: Number) -> Number:
    return x >> (y & _MAX_COUNT if y.__class__ is int else y)


INTEGERS: dict[str, Integer] = {
    "arith.addi": Integer(operator.add),
    "arith.subi": Integer(operator.sub),
    "arith.muli": Integer(operator.mul),
    "arith.andi": Integer(operator.and_, fits=True),
    "arith.ori": Integer(operator.or_, fits=True),
    "arith.xori": Integer(operator.xor, fits=True),
    "arith.divsi": Integer(_divide, signed=True, kind="division"),
    "arith.divui": Integer(_floor_divide, signed=False, kind="division"),
    "arith.remsi": Integer(_remainder, signed=True, fits=True, kind="division"),
    "arith.remui": Integer(_modulo, signed=False, kind="division"),
    "arith.floordivsi": Integer(_floor_divide, signed=True, kind="division"),
    "arith.ceildivsi": Integer(_ceil_divide, signed=True, kind="division"),
    "arith.ceildivui": Integer(_ceil_divide, signed=False, kind="division"),
    "arith.shli": Integer(_shift_left, kind="shift"),
    "arith.shrsi": Integer(_shift_right, signed=True, fits=True, kind="shift"),
    "arith.shrui": Integer(_shift_right, signed=False, kind="shift"),
    "arith.minsi": Integer(_min, signed=True, fits=True),
    "arith.maxsi": Integer(_max, signed=True, fits=True),
    "arith.minui": Integer(_min, signed=False),
    "arith.maxui": Integer(_max, signed=False),
}

DIVISIONS = tuple(name for name, entry in INTEGERS.items() if entry.kind == "division")
SHIFTS = tuple(name for name, entry in INTEGERS.items() if entry.kind == "shift")


@dataclass(frozen=True)
class Comparison:
    """``apply``: the function of the two numbers. ``signed``: how it reads them, as of `Integer`."""

    apply: Binary
    signed: bool | None = None


COMPARISONS: dict[str, Comparison] = {
    "eq": Comparison(operator.eq),
    "ne": Comparison(operator.ne),
    "slt": Comparison(operator.lt, signed=True),
    "sle": Comparison(operator.le, signed=True),
    "sgt": Comparison(operator.gt, signed=True),
    "sge": Comparison(operator.ge, signed=True),
    "ult": Comparison(operator.lt, signed=False),
    "ule": Comparison(operator.le, signed=False),
    "ugt": Comparison(operator.gt, signed=False),
    "uge": Comparison(operator.ge, signed=False),
}
"""By the predicate of ``arith.cmpi``, in the order of the dialect's CmpIPredicate."""

PREDICATES = tuple(COMPARISONS)
_BY_NUMBER = tuple(COMPARISONS.values())


def comparison(number: int) -> Comparison:
    """The comparison that an ``arith.cmpi`` with this predicate does."""
    return _BY_NUMBER[number]


# --- floats --------------------------------------------------------------------------------------


def _either_zero(picked: Number, zero: Callable[[], Number], x: Number, y: Number) -> Number:
    """``picked``, and ``zero()`` where both are zeros, of which NumPy takes the first."""
    if np.count_nonzero(picked) == np.size(picked):  # (in a third of the time of np.all)
        return picked
    found: Any = np.where((x == 0) & (y == 0), zero(), picked)
    return found if found.ndim else found[()]


def _minimum(x: Number, y: Number) -> Number:
    return _either_zero(np.minimum(x, y), lambda: -(-x - y), x, y)


def _maximum(x: Number, y: Number) -> Number:
    return _either_zero(np.maximum(x, y), lambda: x + y, x, y)


def _number(f: Binary) -> Binary:
    """``f``, and the other operand where one is NaN. (NumPy's fmin and fmax let a signaling NaN win.)"""

    def apply(x: Number, y: Number) -> Number:
        picked = f(x, y)
        if not np.count_nonzero(np.isnan(picked)):
            return picked
        found: Any = np.where(np.isnan(x), y, np.where(np.isnan(y), x, picked))
        return found if found.ndim else found[()]

    return apply


FLOATS: dict[str, Binary] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
    "arith.remf": np.fmod,
    "arith.minimumf": _minimum,
    "arith.maximumf": _maximum,
    "arith.minnumf": _number(_minimum),
    "arith.maxnumf": _number(_maximum),
}
"""minimumf and maximumf are NaN where an operand is, minnumf and maxnumf the other operand; -0 is less than +0."""

_ORDERED: tuple[Binary, ...] = (operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne)
_FALSE, _ORDERED_ONLY, _UNORDERED, _UNORDERED_ONLY, _TRUE = 0, 7, 8, 14, 15


def float_comparison(number: int) -> Binary:
    """What an ``arith.cmpf`` with this predicate does: a bool, or an array of them.

    The dialect's order: 0 false; 1 to 6 one of `_ORDERED` and no NaN; 7 no NaN; 8 to 13 one of them or a NaN; 14 a NaN;
    15 true.
    """
    never, unordered = number in (_FALSE, _UNORDERED_ONLY), number >= _UNORDERED
    constant = number in (_FALSE, _ORDERED_ONLY, _UNORDERED_ONLY, _TRUE)
    f = None if constant else _ORDERED[number - (_UNORDERED if unordered else 1)]

    def compare(x: Number, y: Number) -> Number:
        nan = np.isnan(x) | np.isnan(y)
        holds = np.full_like(nan, not never) if f is None else f(x, y)
        result = holds | nan if unordered else holds & ~nan
        return result if isinstance(result, np.ndarray) and result.ndim else bool(result)

    return compare


# --- casts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cast:
    """``source``, ``target``: "integer" or "float". ``signed``: how the integer is read, or what the float becomes."""

    source: str
    target: str
    signed: bool = True


CASTS: dict[str, Cast] = {
    "arith.extsi": Cast("integer", "integer"),
    "arith.extui": Cast("integer", "integer", signed=False),
    "arith.trunci": Cast("integer", "integer"),
    "arith.index_cast": Cast("integer", "integer"),
    "arith.index_castui": Cast("integer", "integer", signed=False),
    "arith.sitofp": Cast("integer", "float"),
    "arith.uitofp": Cast("integer", "float", signed=False),
    "arith.fptosi": Cast("float", "integer"),
    "arith.fptoui": Cast("float", "integer", signed=False),
    "arith.extf": Cast("float", "float"),
    "arith.truncf": Cast("float", "float"),
}
"""An integer that is made wider or narrower is read at one width and wrapped at the other. A float becomes an integer
toward zero; what is beyond the integer's range is undefined (PTX, cvt: the end of the range, and 0 for a NaN)."""

OF_LLVM: dict[str, str] = {
    "llvm.add": "arith.addi", "llvm.sub": "arith.subi", "llvm.mul": "arith.muli", "llvm.and": "arith.andi",
    "llvm.or": "arith.ori", "llvm.xor": "arith.xori", "llvm.sdiv": "arith.divsi", "llvm.udiv": "arith.divui",
    "llvm.srem": "arith.remsi", "llvm.urem": "arith.remui", "llvm.shl": "arith.shli", "llvm.ashr": "arith.shrsi",
    "llvm.lshr": "arith.shrui", "llvm.intr.smin": "arith.minsi", "llvm.intr.smax": "arith.maxsi",
    "llvm.intr.umin": "arith.minui", "llvm.intr.umax": "arith.maxui", "llvm.icmp": "arith.cmpi",
    "llvm.fadd": "arith.addf", "llvm.fsub": "arith.subf", "llvm.fmul": "arith.mulf", "llvm.fdiv": "arith.divf",
    "llvm.frem": "arith.remf", "llvm.intr.minnum": "arith.minnumf", "llvm.intr.maxnum": "arith.maxnumf",
    "llvm.intr.minimum": "arith.minimumf", "llvm.intr.maximum": "arith.maximumf", "llvm.fcmp": "arith.cmpf",
    "llvm.fneg": "arith.negf", "llvm.trunc": "arith.trunci", "llvm.sext": "arith.extsi", "llvm.zext": "arith.extui",
    "llvm.fpext": "arith.extf", "llvm.fptrunc": "arith.truncf", "llvm.sitofp": "arith.sitofp",
    "llvm.uitofp": "arith.uitofp", "llvm.fptosi": "arith.fptosi", "llvm.fptoui": "arith.fptoui",
    "llvm.select": "arith.select",
}  # fmt: skip
"""Operations of the llvm dialect that mean the same."""
