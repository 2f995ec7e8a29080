"""What an operator means: its operands brought to one type and one shape, then the op of that type.

Functions here take traced values, Python numbers and NumPy scalars, and give a raw ``ir.Value`` with the
type of its elements, ``(raw, DType)``; nvdsl/values/traced.py puts the class around it. ``NotImplemented`` means
that an operand is no number: Python then asks the other operand's class.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nvdsl.errors import AdvisoryWarning, TraceError, Where, trace_error
from nvdsl.errors.frames import caller
from nvdsl.mlir import ir
from nvdsl.values import arith, casts, dtypes, extents, python_numbers, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.operators import Operators

_ON_BOOLS = frozenset("& | ^ == != < <= > >= min max select".split())
_NEUTRAL = {"+": 0, "-": 0, "|": 0, "^": 0, "<<": 0, ">>": 0, "*": 1, "/": 1, "//": 1}


def meet(op: str, a: Any, b: Any) -> Any:
    """``(DType, raw a, raw b)``: both operands in the type and shape in which ``op`` is done; one of them
    is a traced value. ``NotImplemented`` if the other is no number.

    Raises ``TraceError`` for types that do not meet, vectors of different shapes and literals that don't fit.
    """
    if a.__class__ is b.__class__ and a.dtype is b.dtype and a.shape == b.shape:
        t = s = a.dtype  # the usual case needs no look at the MLIR types, which takes microseconds
        if t.arithmetic and t is not dtypes.bool_:
            return t, a, b
    left, right = _typed(op, a, b), _typed(op, b, a)
    if left is None or right is None:
        return NotImplemented
    literal = left[0] is not a or right[0] is not b
    (a, s), (b, t) = left, right
    common = dtypes.common(s, t)
    if common is None or not common.arithmetic:
        raise no_arithmetic(op, t if s.arithmetic else s)
    if common is dtypes.bool_ and op not in _ON_BOOLS:
        common = dtypes.i32
    if not (s is t is common):
        if common is dtypes.f64 and s.is_float and t.is_float:
            _warn_f64(op, s, t)
        a, b = casts.convert(a, s, common), casts.convert(b, t, common)
    return (common, a, b) if literal else (common, *_same_shape(op, a, b))


def _warn_f64(op: str, s: DType, t: DType) -> None:
    """A number of NumPy's that was passed as an argument is often an f64 unawares."""
    place = caller() or Where("<nvdsl>", 0)
    text = (
        f"{s.name} {op} {t.name} is computed in f64. Say so with nv.f64(x), or write nv.f32(y); a NumPy scalar "
        "(np.sqrt(2.0), x.mean()) that is passed as an argument is an f64: pass float(s) for f32"
    )
    warnings.warn_explicit(text, AdvisoryWarning, place.file, place.line)


def _typed(op: str, x: Any, other: Any) -> tuple[Any, DType] | None:
    """``x`` as a raw value and its type; a number becomes a constant in the shape of ``other``."""
    if isinstance(x, Operators):
        return x, x.dtype
    if python_numbers.is_number(x):
        t = python_numbers.type_beside(x, other.dtype)
    elif isinstance(x, np.generic):
        t = dtypes.from_numpy(x.dtype)
        x = x.item()
    else:
        return None
    type = other.type if t is other.dtype else arith.like(other.type, t.ir)
    return arith.constant(type, python_numbers.fit(x, t, op)), t


def _same_shape(op: str, a: Any, b: Any) -> tuple[Any, Any]:
    """The scalar operand repeated in the other's vector shape."""
    left, right = a.type, b.type
    if left == right:
        return a, b
    if not isinstance(right, ir.VectorType):
        return a, arith.emit("vector.broadcast", left, b)
    if not isinstance(left, ir.VectorType):
        return arith.emit("vector.broadcast", right, a), b
    raise trace_error(f"{op} on {left} and {right}", rule="two vectors have the same shape")


def binary(op: str, a: Any, b: Any) -> Any:
    """``a op b``, for an arithmetic or bitwise operator, ``min`` or ``max``."""
    same = _unchanged(op, a, b)
    if same is not None:
        return same, same.dtype
    if op == "**":
        return _power(a, b)
    if op in ("<<", ">>"):
        return _shift(op, a, b)
    if op in ("//", "%") and _is_power_of_two(a, b):
        return _shift(">>", a, b.bit_length() - 1) if op == "//" else binary("&", a, b - 1)
    met = meet(op, a, b)
    if met is NotImplemented:
        return met
    t, x, y = met
    if op == "/" and t is dtypes.index:
        op = "//"
    if op in ("//", "%") and not t.is_float:
        divide = arith.floor_divide if op == "//" else arith.floor_modulo
        return divide(t, x, y, _divisor(op, b)), t
    if not arith.exists(op, t):
        raise _no_operator(op, t)
    raw = arith.binary(op, t, x, y)
    if t is dtypes.i32 and op in ("+", "-", "*") and scope.is_host() and extents.is_computed_from_any(raw):
        raw.owner.attributes[arith.OVERFLOW] = ir.Attribute.parse("#arith.overflow<nsw>")  # each call checks it
    return raw, t


def _unchanged(op: str, a: Any, b: Any) -> Any:
    """The operand that ``op`` with a Python literal leaves as it is (``x + 0``, ``1 * x``), or None."""
    if type(b) is int:
        x, literal = a, b
    elif type(a) is int and op in "+*|^":
        x, literal = b, a
    else:
        return None
    if _NEUTRAL.get(op) != literal:
        return None
    t = x.dtype
    if t.is_float:
        return x if t.arithmetic and op in ("*", "/", "-") else None  # -0.0 + 0 is +0.0
    return x if t is dtypes.index or (t.kind == "int" and op != "/") else None


def _is_power_of_two(a: Any, b: Any) -> bool:
    """Is ``b`` a literal for which division by it, rounding down, is a shift of the integer ``a``?"""
    return type(b) is int and b > 0 and b & (b - 1) == 0 and a.dtype.kind in ("int", "index") and b <= a.dtype.max


def _divisor(op: str, b: Any) -> int | None:
    if not isinstance(b, (int, np.integer)) or isinstance(b, bool):
        return None
    if b == 0:
        raise trace_error(
            f"{op} by zero",
            rule="an integer division or remainder by 0 is undefined (LLVM), its value unspecified (PTX ISA, div)",
            fix="a divisor of 1 or more",
        )
    return int(b)


def compare(op: str, a: Any, b: Any) -> Any:
    """i1 (or a vector of i1): ``a op b``; True is more than False."""
    met = meet(op, a, b)
    return met if met is NotImplemented else arith.compare(op, *met)


def unary(op: str, x: Any) -> tuple[Any, DType]:
    """``op x``, for ``-``, ``+``, ``~`` and ``abs``."""
    t = x.dtype
    if not t.arithmetic:
        raise no_arithmetic(op, t)
    if op == "~":
        if t.is_float:
            raise _no_operator(op, t)
        return arith.binary("^", t, x, arith.constant(x.type, -1)), t
    if t is dtypes.bool_:
        t, x = dtypes.i32, casts.convert(x, t, dtypes.i32)
    if op == "+":
        return x, t
    return (arith.negate if op == "-" else arith.absolute)(t, x), t


def _power(x: Any, exponent: Any) -> tuple[Any, DType]:
    exponent = python_numbers.plain(exponent)
    if not isinstance(x, Operators) or not isinstance(exponent, int):
        raise trace_error(
            f"** with {'a traced' if isinstance(exponent, Operators) else 'the'} exponent"
            + ("" if isinstance(exponent, Operators) else f" {exponent!r}"),
            rule="** takes a traced value to the power of a Python int",
            fix="write nv.math.sqrt(x), nv.math.exp2(y * nv.math.log2(x)), or 1 << n for 2 ** n",
        )
    x, t = unary("+", x)
    if exponent >= 0:
        return arith.power(t, x, exponent), t
    if not t.is_float:
        raise trace_error(f"{t.name} ** {exponent}", rule="a power of an integer has an exponent >= 0")
    return arith.binary("/", t, arith.constant(x.type, 1), arith.power(t, x, -exponent)), t


def _shift(op: str, a: Any, b: Any) -> Any:
    """The left operand's type decides; the count is brought to that type, as the machine wants it."""
    left, right = _typed(op, a, b), _typed(op, b, a)
    if left is None or right is None:
        return NotImplemented
    (x, s), (count, t) = left, right
    if s.is_float or t.is_float:
        raise _no_operator(op, s if s.is_float else t)
    if s is dtypes.bool_:
        s, x = dtypes.i32, casts.convert(x, s, dtypes.i32)
    if isinstance(b, int) and not 0 <= b < s.bits:
        raise trace_error(
            f"{op} by {b} on {s.name}",
            rule=f"the count is 0 .. {s.bits - 1}",
            fix=f"{'>>' if op == '<<' else '<<'} {-b} shifts the other way" if b < 0 else "nv.u64(x), for more bits",
        )
    x, count = _same_shape(op, x, casts.convert(count, t, s))
    return arith.binary(op, s, x, count), s


def no_arithmetic(op: str, t: DType) -> TraceError:
    """The error for ``op`` on a type that only tensor cores compute with."""
    fix = "load it as f32: the bits are those of an f32" if t is dtypes.tf32 else "convert first: nv.f32(x)"
    return trace_error(f"{op} on {t.name}", rule=f"only tensor cores compute with {t.name}", fix=fix)


def _no_operator(op: str, t: DType) -> TraceError:
    if op == "/":
        rule = "/ divides floats (and index, as signed numbers, rounding down; LLVM's examples divide unsigned)"
        fix = "write x // y, nv.u32(x) // y for an unsigned division, or nv.f32(x) / y"
    elif op == "//":
        rule, fix = "// divides integers", "write nv.math.floor(x / y)"
    elif op == "%":
        rule, fix = "% divides integers", "write x - nv.math.floor(x / y) * y (rounded at each step)"
    else:
        rule, fix = f"{op} works on the bits of integers", "write nv.bitcast(x, nv.i32), or nv.i32(x)"
    return trace_error(f"{op} on {t.name}", rule=rule, fix=fix)
